//! Who becomes the first operator of a served store: a key that was named, this user's own, or the one that shows a code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton::election::hex;
use baton::election::operator::PublicKey;
use baton::store::{Key, Record, Store};
use baton::{Coordinator, Memory};
use baton_server::Founders;
use clap::Args;

use crate::exit::Speaker;
use crate::keys;
use crate::output::{Failure, Output};
use crate::state_folder::write_durably;

/// Bytes of randomness in a code.
const CODE: usize = 16;

#[derive(Args, Debug)]
#[command(next_help_heading = "Access and limits")]
pub(crate) struct FounderOptions {
    /// A public key that may become the first operator, as `baton operator key` prints it; repeatable
    #[arg(long, value_name = "KEY")]
    operator: Vec<PublicKey>,
    /// Make this user the first operator of a file that has none
    #[arg(long)]
    operator_self: bool,
}

/// The ways to become the first operator.
#[derive(Default)]
pub(crate) struct FounderAccess {
    pub(crate) founders: Arc<Founders>,
    /// What the first operator must show, and where it stands.
    pub(crate) code: Option<(String, PathBuf)>,
}

impl Drop for FounderAccess {
    /// A code is good for one run of the server.
    fn drop(&mut self) {
        if let Some((_, file)) = &self.code {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl FounderOptions {
    /// Refuses what makes no sense on a store that others share.
    pub(crate) fn check(&self, alone: bool) -> Result<(), Failure> {
        if self.operator_self && !alone {
            return Err(Failure::usage(
                "--operator-self is for a file that one server has for itself",
                "name this user's key instead, and run `baton init` at the server: --operator \"$(baton operator key)\"",
            ));
        }
        Ok(())
    }

    /// Sees to it that the store can get its first operator, if it has none. The code stands in this file meanwhile.
    pub(crate) async fn prepare(
        &self,
        store: &Arc<dyn Store>,
        file: &Path,
        output: Output,
    ) -> Result<FounderAccess, Failure> {
        let fail = |error: &baton::Error| Failure::from_error(error, Speaker::Operator);
        // One of an earlier run opens nothing.
        let _ = std::fs::remove_file(file);
        if has_operator(&**store).await.map_err(|error| fail(&error))? {
            return Ok(FounderAccess::default());
        }
        if self.operator_self {
            let (key, _) = keys::load_or_make()?;
            let coordinator = Coordinator::with_store(Arc::clone(store), Memory::new());
            coordinator.operators().enrol(&key).await.map_err(|error| fail(&error))?;
            output.talk(&format!("baton: this user is the operator, with the key {}", key.public()));
            return Ok(FounderAccess::default());
        }
        let mut code = [0; CODE];
        getrandom::fill(&mut code).map_err(std::io::Error::other)?;
        let code = hex::encode(&code);
        write_durably(file, format!("{code}\n").as_bytes())?;
        let used = file.to_path_buf();
        let founders = Founders::with_keys(self.operator.clone()).or_by_code(&code, move || {
            let _ = std::fs::remove_file(&used);
            output.talk("baton: the store has an operator; the code is void");
        });
        Ok(FounderAccess { founders: Arc::new(founders), code: Some((code, file.to_path_buf())) })
    }
}

/// Says how somebody becomes the first operator.
pub(crate) fn tell(founded: &FounderAccess, url: &str, output: Output) {
    let Some((code, file)) = &founded.code else { return };
    output.talk("baton: nobody is the operator of this store yet");
    output.talk(&format!("hint: baton init --store {url} --code {code}"));
    output.talk(&format!("hint: the code is also in {}, which only this user can read", file.display()));
}

/// The file beside a server's own file in which its code stands.
pub(crate) fn beside(file: &Path) -> PathBuf {
    // Whole, so that it can be read from elsewhere as it is shown.
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let mut path = whole.into_os_string();
    path.push(".operator-code");
    path.into()
}

async fn has_operator(store: &dyn Store) -> Result<bool, baton::Error> {
    let found = store.read(&Key::Store).await?.found;
    Ok(matches!(found, Some((Record::Store(info), _)) if !info.operator_keys.is_empty()))
}
