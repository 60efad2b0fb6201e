//! The document as it is written and read, as a scenario looks at it.

use baton_election::Document;
use serde_json::Value;

use super::World;
use super::words::Words;

impl World {
    pub(super) fn paper(&mut self, name: &str, words: &mut Words) -> String {
        let document = self.document.as_ref().expect("a document");
        match name {
            "json" => pretty(document),
            _ => reread(document, words),
        }
    }
}

/// `json`: the document as it is written
fn pretty(document: &Document) -> String {
    let text = serde_json::to_string_pretty(document).expect("a document can be written");
    format!("{text}\n")
}

/// `reread [set=PATH:JSON;PATH:JSON…]`: the document is written, changed by somebody, and read again
fn reread(document: &Document, words: &mut Words) -> String {
    let mut value = serde_json::to_value(document).expect("a document can be written");
    let changes = words.option("set").unwrap_or_default();
    for change in changes.split(';').filter(|change| !change.is_empty()) {
        let (path, new) = change.split_once(':').expect("set=PATH:JSON");
        let new: Value = serde_json::from_str(&new.replace('\'', "\"")).expect("JSON");
        let (parent, field) = path.rsplit_once('.').map_or(("", path), |(parent, field)| (parent, field));
        let pointer =
            if parent.is_empty() { String::new() } else { format!("/{}", parent.replace('.', "/")) };
        let object = value.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object");
        let _ = if new == "absent" { object.remove(field) } else { object.insert(field.into(), new) };
    }
    match serde_json::from_value::<Document>(value) {
        Err(error) => format!("not read: {error}\n"),
        Ok(read) if read == *document => "the same\n".to_string(),
        Ok(_) => "read, but not the same\n".to_string(),
    }
}
