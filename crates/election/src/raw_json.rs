//! JSON kept as text: written in place, read back in canonical form, never interpreted.

use alloc::string::{String, ToString};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Writes the text as the JSON that it is.
pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<Value>(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

/// Reads any JSON and keeps its canonical text.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Value::deserialize(deserializer)?.to_string())
}
