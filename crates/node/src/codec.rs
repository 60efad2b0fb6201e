//! Values as bytes: postcard, with nothing left over.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The value as bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_allocvec(value)
}

/// The value that these bytes are, all of them: bytes that are left over make it none.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_left_over_are_an_error() {
        let mut bytes = encode(&("abc", 7_u64)).unwrap();
        assert_eq!(decode::<(String, u64)>(&bytes), Some(("abc".to_string(), 7)));
        bytes.push(0);
        assert_eq!(decode::<(String, u64)>(&bytes), None);
    }
}
