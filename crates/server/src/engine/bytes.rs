//! Plain things as few bytes. What was written here is read here, in the same process and in the same order.

use baton_election::AgentName;
use baton_election::document::{Cause, Phase, State};
use baton_election::time::{Span, WallTime};

/// Bytes that are written.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

/// Bytes that are read.
pub(super) struct Reader<'a>(&'a [u8]);

/// Bytes that were written: in place if they are few.
#[derive(Clone)]
pub(super) enum Bytes {
    Few(u8, [u8; FEW]),
    Many(Box<[u8]>),
}

/// As many as most elections take beside their lease.
const FEW: usize = 78;

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Few(length, bytes) => &bytes[..usize::from(*length)],
            Bytes::Many(bytes) => bytes,
        }
    }
}

impl Writer {
    pub(super) fn done(self) -> Bytes {
        let mut few = [0; FEW];
        match (few.get_mut(..self.0.len()), u8::try_from(self.0.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(&self.0);
                Bytes::Few(length, few)
            }
            (_, _) => Bytes::Many(self.0.into_boxed_slice()),
        }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Seven bits to a byte, the lowest first.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(super) fn wall(&mut self, wall: WallTime) {
        self.number(wall.as_unix_millis());
    }

    /// A length of time: most are whole milliseconds, and short.
    pub(super) fn span(&mut self, span: Span) {
        let (millis, rest) = (span.as_millis(), span.as_nanos() % 1_000_000);
        let exact = rest == 0 && millis < u64::MAX / 2;
        if exact {
            self.number(millis << 1);
        } else {
            self.number(1);
            self.number(span.as_nanos());
        }
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    pub(super) fn state(&mut self, state: State) {
        self.byte(match state {
            State::Vacant => 0,
            State::Held => 1,
            State::AwaitingApproval => 2,
            State::Paused => 3,
        });
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.byte(match phase {
            Phase::Synchronising => 0,
            Phase::Serving => 1,
            Phase::Draining => 2,
        });
    }

    pub(super) fn cause(&mut self, cause: Cause) {
        self.byte(match cause {
            Cause::First => 0,
            Cause::Release => 1,
            Cause::Pass => 2,
            Cause::Failover => 3,
            Cause::Depose => 4,
            Cause::Appoint => 5,
            Cause::Pause => 6,
            Cause::Budget => 7,
            Cause::Stall => 8,
            Cause::Validation => 9,
            Cause::Approval => 10,
            Cause::Region => 11,
            Cause::Dependency => 12,
            Cause::Breaker => 13,
            Cause::Finished => 14,
        });
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk() else { broken() };
        self.0 = rest;
        *first
    }

    pub(super) fn text(&mut self) -> &'a str {
        let Ok(length) = usize::try_from(self.number()) else { broken() };
        let Some((text, rest)) = self.0.split_at_checked(length) else { broken() };
        self.0 = rest;
        let Ok(text) = std::str::from_utf8(text) else { broken() };
        text
    }

    pub(super) fn agent(&mut self) -> AgentName {
        let Ok(agent) = AgentName::new(self.text()) else { broken() };
        agent
    }

    pub(super) fn wall(&mut self) -> WallTime {
        WallTime::from_unix_millis(self.number())
    }

    pub(super) fn span(&mut self) -> Span {
        match self.number() {
            1 => Span::nanos(self.number()),
            millis => Span::millis(millis >> 1),
        }
    }

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() != 0).then(|| read(self))
    }

    pub(super) fn state(&mut self) -> State {
        match self.byte() {
            0 => State::Vacant,
            1 => State::Held,
            2 => State::AwaitingApproval,
            3 => State::Paused,
            _ => broken(),
        }
    }

    pub(super) fn phase(&mut self) -> Phase {
        match self.byte() {
            0 => Phase::Synchronising,
            1 => Phase::Serving,
            2 => Phase::Draining,
            _ => broken(),
        }
    }

    pub(super) fn cause(&mut self) -> Cause {
        match self.byte() {
            0 => Cause::First,
            1 => Cause::Release,
            2 => Cause::Pass,
            3 => Cause::Failover,
            4 => Cause::Depose,
            5 => Cause::Appoint,
            6 => Cause::Pause,
            7 => Cause::Budget,
            8 => Cause::Stall,
            9 => Cause::Validation,
            10 => Cause::Approval,
            11 => Cause::Region,
            12 => Cause::Dependency,
            13 => Cause::Breaker,
            14 => Cause::Finished,
            _ => broken(),
        }
    }
}

fn broken() -> ! {
    unreachable!("what this process wrote is read as it was written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, 1 << 40, u64::MAX];
        let spans = numbers.map(Span::nanos).into_iter().chain(numbers.map(Span::millis));
        let spans: Vec<Span> = spans.chain([Span::MAX, Span::secs(30)]).collect();
        let mut writer = Writer::default();
        numbers.iter().for_each(|number| writer.number(*number));
        spans.iter().for_each(|span| writer.span(*span));
        writer.text("é");
        writer.option(Some("x"), Writer::text);
        writer.option(None::<&str>, Writer::text);
        let bytes = writer.done();
        let mut reader = Reader::new(&bytes);
        assert_eq!(numbers.map(|_| reader.number()), numbers);
        assert_eq!(spans.iter().map(|_| reader.span()).collect::<Vec<_>>(), spans);
        assert_eq!(reader.text(), "é");
        assert_eq!((reader.option(Reader::text), reader.option(Reader::text)), (Some("x"), None));
        assert!(reader.0.is_empty());
    }

    #[test]
    fn few_bytes_and_many_are_the_same() {
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 300] {
            let mut writer = Writer::default();
            writer.bytes(&vec![7; length]);
            let bytes = writer.done();
            assert_eq!(matches!(bytes, Bytes::Few(..)), length <= FEW);
            assert_eq!(&*bytes, vec![7; length]);
        }
    }
}
