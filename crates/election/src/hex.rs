//! Bytes as lower-case hexadecimal digits.

use alloc::string::String;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The digits of these bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The digits of these bytes, without an allocation: for what is written very often. At most 32 bytes.
pub(crate) fn with_digits<const N: usize, T>(bytes: &[u8; N], use_them: impl FnOnce(&str) -> T) -> T {
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    match core::str::from_utf8(&digits[..2 * N]) {
        Ok(text) => use_them(text),
        Err(_) => unreachable!("digits are text"),
    }
}

/// The bytes of exactly `2 * N` digits, upper or lower case.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Bytes that are written as their digits.
pub(crate) mod as_text {
    use alloc::format;
    use alloc::string::String;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the digits.
    pub(crate) fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::encode(bytes))
    }

    /// Reads exactly as many digits as it takes.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(deserializer)?;
        super::decode(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("expected {} hexadecimal digits", 2 * N)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(encode(&[0, 0x1f, 0xff]), "001fff");
        with_digits(&[0, 0x1f, 0xff], |digits| assert_eq!(digits, "001fff"));
        with_digits(&[0xa7; 32], |digits| assert_eq!(digits, encode(&[0xa7; 32])));
        assert_eq!(decode("001fFF"), Some([0, 0x1f, 0xff]));
        assert_eq!(decode::<3>("001ff"), None);
        assert_eq!(decode::<1>("g0"), None);
        assert_eq!(decode::<1>("é"), None);
    }
}
