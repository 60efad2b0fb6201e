//! How a Pilot daemon is talked to: frames on its Unix socket, of a length in four bytes, a byte that says what, and the rest.
//!
//! By section 6 of the *Pilot Protocol Wire Specification*, and as daemons of version 1.18 do it: a datagram that comes has the port
//! that it came to after the one that it came from. Guarantees that no frame above [`MAX_FRAME_BYTES`] is kept, and that a frame that is
//! not known is none that matters.

use super::PilotAddress;

/// The longest frame, by the specification.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// What is asked of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Whatever comes to this port is for us.
    Bind { port: u16 },
    /// A stream to a port of a node.
    Dial { to: PilotAddress, port: u16 },
    /// On that stream.
    Send { stream: u32, data: &'a [u8] },
    /// A datagram.
    SendTo { to: PilotAddress, port: u16, data: &'a [u8] },
    /// Who are you?
    Info,
}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Bound,
    Dialled {
        stream: u32,
    },
    Closed {
        stream: u32,
    },
    Error(String),
    Datagram {
        from: PilotAddress,
        port: u16,
        data: Vec<u8>,
    },
    Info(Vec<u8>),
    /// Something else, or too little of it.
    Unknown,
}

/// A frame above the bound: the daemon and we have lost each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oversized;

impl Request<'_> {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut frame = vec![0; 4];
        match self {
            Request::Bind { port } => {
                frame.push(0x01);
                frame.extend(port.to_be_bytes());
            }
            Request::Dial { to, port } => {
                frame.push(0x03);
                frame.extend(to.to_bytes());
                frame.extend(port.to_be_bytes());
            }
            Request::Send { stream, data } => {
                frame.push(0x06);
                frame.extend(stream.to_be_bytes());
                frame.extend(data);
            }
            Request::SendTo { to, port, data } => {
                frame.push(0x0b);
                frame.extend(to.to_bytes());
                frame.extend(port.to_be_bytes());
                frame.extend(data);
            }
            Request::Info => frame.push(0x0d),
        }
        // Everything that is sent is bounded far below four bytes' worth of length.
        let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
        frame[..4].copy_from_slice(&length.to_be_bytes());
        frame
    }
}

impl Reply {
    /// Takes the first whole frame out of what was read, if there is one.
    pub(super) fn take(read: &mut Vec<u8>) -> Result<Option<Reply>, Oversized> {
        let Some((length, rest)) = read.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(Oversized);
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let reply = Reply::decode(frame).unwrap_or(Reply::Unknown);
        read.drain(..4 + length);
        Ok(Some(reply))
    }

    fn decode(frame: &[u8]) -> Option<Reply> {
        let (what, rest) = frame.split_first()?;
        match what {
            0x02 => Some(Reply::Bound),
            0x04 => Some(Reply::Dialled { stream: u32::from_be_bytes(*rest.first_chunk()?) }),
            0x08 | 0x09 => Some(Reply::Closed { stream: u32::from_be_bytes(*rest.first_chunk()?) }),
            0x0a => {
                let text = String::from_utf8_lossy(rest.get(2..)?);
                Some(Reply::Error(text.chars().filter(|c| !c.is_control()).take(200).collect()))
            }
            0x0c => {
                let (from, rest) = rest.split_first_chunk()?;
                let (_their_port, rest) = rest.split_first_chunk::<2>()?;
                let (port, data) = rest.split_first_chunk()?;
                let (from, port) = (PilotAddress::from_bytes(*from), u16::from_be_bytes(*port));
                Some(Reply::Datagram { from, port, data: data.to_vec() })
            }
            0x0e => Some(Reply::Info(rest.to_vec())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_the_specification_has_them() {
        let to: PilotAddress = "0:0000.0000.0003".parse().unwrap();
        assert_eq!(Request::Bind { port: 4211 }.encode(), [0, 0, 0, 3, 1, 0x10, 0x73]);
        let sent = Request::SendTo { to, port: 4211, data: b"hi" }.encode();
        assert_eq!(sent, [0, 0, 0, 11, 0x0b, 0, 0, 0, 0, 0, 3, 0x10, 0x73, b'h', b'i']);
        assert_eq!(Request::Dial { to, port: 1002 }.encode(), [0, 0, 0, 9, 3, 0, 0, 0, 0, 0, 3, 3, 0xea]);
        assert_eq!(Request::Send { stream: 1, data: b"x" }.encode(), [0, 0, 0, 6, 6, 0, 0, 0, 1, b'x']);
        assert_eq!(Request::Info.encode(), [0, 0, 0, 1, 0x0d]);
    }

    #[test]
    fn replies_come_in_pieces_and_in_heaps() {
        // What a daemon of version 1.18 sent.
        let datagram = b"\x00\x00\x00\x11\x0c\x00\x00\x00\x00\x00\x02\xc0\x00\x10shello0";
        let from = "0:0000.0000.0002".parse().unwrap();
        let expected = Reply::Datagram { from, port: 4211, data: b"hello0".to_vec() };
        for cut in 0..datagram.len() {
            let mut read = datagram[..cut].to_vec();
            assert_eq!(Reply::take(&mut read), Ok(None), "{cut}");
            read.extend(&datagram[cut..]);
            read.extend([0, 0, 0, 3, 2, 0x10, 0x73]);
            assert_eq!(Reply::take(&mut read), Ok(Some(expected.clone())));
            assert_eq!(Reply::take(&mut read), Ok(Some(Reply::Bound)));
            assert!(read.is_empty());
        }
    }

    #[test]
    fn nonsense_is_unknown_and_never_kept() {
        for frame in [&[][..], &[0x0c, 0, 0], &[0x04, 1], &[0xff, 1, 2, 3], &[0x0a]] {
            let mut read = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
            read.extend(frame);
            assert_eq!(Reply::take(&mut read), Ok(Some(Reply::Unknown)), "{frame:?}");
        }
        assert_eq!(Reply::take(&mut vec![0xff; 8]), Err(Oversized));
    }
}
