//! Lines of JSON, both ways, for a socket that never blocks.
//!
//! Assumes one reader and one writer per direction. Guarantees bounded memory: a line above the bound is an
//! error, and among unsent orders only the newest deadline is kept. Does not guarantee delivery to a
//! stopped peer.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::BootTime;
use crate::order::{MAX_LINE, Order};

/// The peer said something that cannot be meant, or we were asked to.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Nothing of it has been sent or obeyed.
    #[error("a line of more than {MAX_LINE} bytes; shorten the command or its environment")]
    TooLong,
    /// It was not obeyed.
    #[error("not a line of this protocol: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Collects what was read until a line is whole.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// No newline before this position, so that a long line is searched once.
    searched: usize,
}

impl Inbox {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, decoded.
    pub(crate) fn pop<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LineError> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return if self.bytes.len() > MAX_LINE { Err(LineError::TooLong) } else { Ok(None) };
        };
        let end = self.searched + end;
        let value = serde_json::from_slice(&self.bytes[..end]);
        self.bytes.drain(..=end);
        self.searched = 0;
        Ok(Some(value?))
    }
}

/// Holds orders until the socket takes them.
#[derive(Default)]
pub(crate) struct Outbox {
    unsent: Vec<u8>,
    /// Only the newest matters, so that a stopped warden costs no memory however long it is stopped.
    deadline: Option<BootTime>,
}

impl Outbox {
    pub(crate) fn push(&mut self, order: &Order) -> Result<(), LineError> {
        if let Order::Deadline { deadline } = order {
            self.deadline = Some(*deadline);
            return Ok(());
        }
        self.settle_deadline()?;
        self.unsent.extend_from_slice(&line(order)?);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.deadline.is_none()
    }

    /// Gives bytes to `write` until it would block or everything is sent.
    pub(crate) fn flush(
        &mut self,
        mut write: impl FnMut(&[u8]) -> std::io::Result<usize>,
    ) -> Result<std::io::Result<()>, LineError> {
        loop {
            if self.unsent.is_empty() {
                self.settle_deadline()?;
            }
            if self.unsent.is_empty() {
                return Ok(Ok(()));
            }
            match write(&self.unsent) {
                Ok(0) => return Ok(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(Ok(())),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    fn settle_deadline(&mut self) -> Result<(), LineError> {
        if let Some(deadline) = self.deadline.take() {
            self.unsent.extend_from_slice(&line(&Order::Deadline { deadline })?);
        }
        Ok(())
    }
}

/// One value as one line.
pub(crate) fn line(value: &impl Serialize) -> Result<Vec<u8>, LineError> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    if bytes.len() > MAX_LINE { Err(LineError::TooLong) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, LineError, Outbox, line};
    use crate::clock::BootTime;
    use crate::order::{MAX_LINE, Order, Report};

    fn deadline(ns: u64) -> Order {
        Order::Deadline { deadline: BootTime::from_ns(ns) }
    }

    #[test]
    fn lines_survive_any_cut() {
        let text = [line(&Order::Stop).unwrap(), line(&deadline(7)).unwrap()].concat();
        for cut in 0..text.len() {
            let mut inbox = Inbox::default();
            let mut orders = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                inbox.push(part);
                while let Some(order) = inbox.pop::<Order>().unwrap() {
                    orders.push(order);
                }
            }
            assert_eq!(orders, [Order::Stop, deadline(7)], "cut at {cut}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut inbox = Inbox::default();
        inbox.push(&vec![b' '; MAX_LINE + 1]);
        assert!(matches!(inbox.pop::<Order>(), Err(LineError::TooLong)));
        let report = Report::Unkillable { pid: 1, name: "x".repeat(MAX_LINE) };
        assert!(matches!(line(&report), Err(LineError::TooLong)));
    }

    #[test]
    fn nonsense_is_an_error_and_not_an_order() {
        let mut inbox = Inbox::default();
        inbox.push(b"{\"order\":\"dance\"}\n");
        assert!(matches!(inbox.pop::<Order>(), Err(LineError::Malformed(_))));
    }

    #[test]
    fn a_blocked_peer_costs_one_deadline_however_many_were_said() {
        let mut outbox = Outbox::default();
        for ns in 0..100_000 {
            outbox.push(&deadline(ns)).unwrap();
            outbox.flush(|_| Err(std::io::ErrorKind::WouldBlock.into())).unwrap().unwrap();
        }
        outbox.push(&Order::Stop).unwrap();
        let mut sent = Vec::new();
        // Three bytes at a time: a line half sent must be finished before another begins.
        let taken = |bytes: &[u8], sent: &mut Vec<u8>| {
            let part = &bytes[..bytes.len().min(3)];
            sent.extend_from_slice(part);
            Ok(part.len())
        };
        outbox.flush(|bytes| taken(bytes, &mut sent)).unwrap().unwrap();
        assert!(outbox.is_empty());
        let mut inbox = Inbox::default();
        inbox.push(&sent);
        let mut orders = Vec::new();
        while let Some(order) = inbox.pop::<Order>().unwrap() {
            orders.push(order);
        }
        assert_eq!(orders, [deadline(0), deadline(99_999), Order::Stop]);
    }
}
