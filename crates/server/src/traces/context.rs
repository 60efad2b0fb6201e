//! What a request is part of, as W3C Trace Context has it: `traceparent: 00-TRACE-PARENT-FLAGS`.

/// A trace, and who in it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(super) trace: [u8; 16],
    pub(super) parent: [u8; 8],
    /// Whether who asks records it: if not, nobody wants it.
    pub(super) sampled: bool,
}

impl Context {
    /// None for what is not one; such a header is passed over, as the standard says.
    pub(crate) fn parse(text: &str) -> Option<Context> {
        let mut parts = text.split('-');
        let version = byte(parts.next()?)?;
        let (trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?);
        // Later versions may say more; this one does not.
        let ends = parts.next().is_none() || version > 0;
        let context =
            Context { trace: bytes(trace)?, parent: bytes(parent)?, sampled: byte(flags)? & 1 == 1 };
        let fits = ends && version != 0xff && context.trace != [0; 16] && context.parent != [0; 8];
        fits.then_some(context)
    }
}

fn byte(text: &str) -> Option<u8> {
    bytes::<1>(text).map(|[byte]| byte)
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let small = |digit: &u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit);
    if digits.len() != 2 * N || !digits.iter().all(small) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_apart() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = Context::parse(text).unwrap();
        assert_eq!((context.trace[0], context.parent[7], context.sampled), (0x4b, 0xb7, true));
        assert!(!Context::parse(&text.replace("-01", "-00")).unwrap().sampled);
        assert!(Context::parse(&format!("{}-more", text.replacen("00", "01", 1))).is_some());
    }

    #[test]
    fn what_is_none_is_passed_over() {
        for odd in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(odd), None, "{odd}");
        }
    }
}
