//! `baton dashboard`: the server's page, with a link that signs in once.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use baton::SignInLink;
use baton::election::delegation::LONGEST;
use baton::election::time::Span;
use baton::store::Access;
use clap::Args;
use serde_json::json;
use tokio::process::Command;

use super::acts::failure;
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};
use crate::state_folder::{state_root, write_private};

/// How long a browser may take to read the file that sends it to the page.
const READ: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton dashboard --store http://127.0.0.1:7420           open the page, signed in
  baton dashboard --store https://team.example --print    print the link, for a browser elsewhere
  baton dashboard --sign-out                              end every sign-in of this operator

The link works once, for five minutes. The browser gets a key of its own and can appoint, depose, pause, resume, approve and \
reject until the sign-in ends; the operator's key stays here. To look only, at a server that asks for no tokens, open its address without this command.")]
pub(crate) struct Dashboard {
    /// Print the link instead of opening it
    #[arg(long)]
    print: bool,
    /// How long the sign-in lasts, 8h at most
    #[arg(long, value_name = "DURATION", default_value = "8h")]
    lasts: Span,
    /// End every sign-in of this operator at the server
    #[arg(long, conflicts_with_all = ["print", "lasts"])]
    sign_out: bool,
}

impl StoreCommand for Dashboard {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    fn check(&self) -> Result<(), Failure> {
        if self.lasts == Span::ZERO || self.lasts > LONGEST {
            return Err(Failure::usage(
                format!("a sign-in lasts eight hours at most, and more than nothing; not {}", self.lasts),
                "leave it out, or give less: --lasts 1h",
            ));
        }
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let key = keys::load()?;
        let fail = |error| failure(&error, &key);
        if self.sign_out {
            context.coordinator.operators().sign_out(&key).await.map_err(fail)?;
            let data = json!({"outcome": "signed-out", "operator": key.public()});
            return Ok(Screen::new(data, "every sign-in of this operator has ended"));
        }
        let link = context.coordinator.operators().sign_in(&key, self.lasts).await.map_err(fail)?;
        if !self.print && !context.output.json && opened(&link).await? {
            let text = format!("opened {} in the browser; the sign-in lasts {}", link.address, self.lasts);
            return Ok(Screen::ended(Exit::Done).note(text));
        }
        let data = json!({
            "outcome": "link", "link": link.reveal(), "address": link.address, "lasts_ms": self.lasts.as_millis(),
        });
        let note = "the link works once, for five minutes: whoever opens it acts as this operator";
        Ok(Screen::new(data, link.reveal()).note(note))
    }
}

/// Opens a link in this user's browser, if there is one. The link itself is in no list of processes: the browser is sent there by a file
/// that only this user can read, and which is removed.
async fn opened(link: &SignInLink) -> Result<bool, Failure> {
    let shown = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|is| !is.is_empty()));
    if !shown {
        return Ok(false);
    }
    let file =
        TemporaryFile(state_root()?.join("pages").join(format!("sign-in-{}.html", std::process::id())));
    let target: String =
        link.reveal().chars().filter(|c| !matches!(c, '"' | '<' | '>' | '&' | '\'')).collect();
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={target}\"><title>Baton</title>\n"
    );
    write_private(&file.0, page.as_bytes())?;
    let started = Command::new("xdg-open")
        .arg(&file.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let done = tokio::time::timeout(READ, started).await;
    match done {
        Ok(Ok(status)) if status.success() => {
            tokio::time::sleep(READ).await;
            Ok(true)
        }
        // It is the browser itself, and runs.
        Err(_) => Ok(true),
        Ok(Ok(_) | Err(_)) => Ok(false),
    }
}

/// A file that is removed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
