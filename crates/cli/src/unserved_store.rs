//! A `.baton` folder beside a server that keeps its elections elsewhere.

use baton::file::FileStore;
use baton::store::{Access, Prefix, Record, Store};
use baton::{Origin, locate};

use crate::output::Output;

/// Says which elections a server that was given no store does not serve, if a `.baton` folder is found as clients find one.
pub(crate) async fn mention(output: Output) {
    let Ok(here) = std::env::current_dir() else { return };
    // It is a courtesy: a folder that is not trusted, or cannot be read, is not mentioned.
    let Ok((folder, Origin::Here | Origin::Above)) = locate(&here) else { return };
    let Ok(store) = FileStore::open(&folder, Access::Read) else { return };
    let Ok(keys) = store.list(&Prefix::Elections).await else { return };
    let mut elections = 0;
    for key in &keys {
        let Ok(reading) = store.read(key).await else { return };
        let retired = |record: &Record| matches!(record, Record::Election(document) if document.is_retired());
        elections += usize::from(!reading.record().is_some_and(retired));
    }
    let shown = folder.display();
    let count = match elections {
        1 => "1 election".to_string(),
        many => format!("{many} elections"),
    };
    output.talk(&format!("baton: this server does not serve {shown}, which has {count}"));
    output.talk(&format!("hint: to look at them: baton observe --store file:{shown}"));
    output.talk(&format!("hint: to serve them: baton serve --store file:{shown} --take-over"));
}
