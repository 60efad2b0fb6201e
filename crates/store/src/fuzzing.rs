//! Entry points for `fuzz/`: names that anybody may send, and records that anybody who writes the store may leave there.

use baton_election::{AgentName, ElectionName, ItemName, ResourceName};

use crate::{Key, Record};

/// Reads names. What is accepted is written alike, and its key is read back from every store's encoding.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = ElectionName::new(text) {
        assert!(name.as_str() == text && text.len() <= 64, "{text:?}");
        let key = Key::Election(name);
        assert_eq!(Key::parse(&key.to_string()), Some(key));
    }
    let _ = (AgentName::new(text), ResourceName::new(text), ItemName::new(text));
    if let Some(key) = Key::parse(text) {
        assert_eq!(key.to_string(), text, "a key has one text");
    }
}

/// Reads a record of a key: a line with the key, then the text. What is accepted is written and read alike.
pub fn records(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((key, text)) = text.split_once('\n') else { return };
    let Some(key) = Key::parse(key) else { return };
    if let Ok(record) = Record::from_json(&key, text) {
        assert_eq!(Record::from_json(&key, &record.to_json()).as_ref(), Ok(&record), "pretty");
        let compact = record.to_compact_json();
        let compact = String::from_utf8_lossy(&compact);
        assert_eq!(Record::from_json(&key, &compact).as_ref(), Ok(&record), "compact");
    }
}
