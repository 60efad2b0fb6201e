//! The terminal: another screen, keys one by one, and everything as it was afterwards.

use std::io::{self, Read, Write};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::output::Failure;

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// How many keys wait at most.
const KEYS: usize = 64;

/// What a person, or the world, wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Agents,
    Elections,
    Enter,
    Back,
    Resized,
    None,
}

/// The terminal, until this is dropped.
pub(super) struct Terminal {
    before: Option<Termios>,
    keys: mpsc::Receiver<Key>,
    resized: Signal,
    ends: [Signal; 3],
}

impl Terminal {
    pub(super) fn enter() -> Result<Terminal, Failure> {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A stopped process would leave the screen as it is.
            raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(io::Error::from)?;
        }
        let (tell, keys) = mpsc::channel(KEYS);
        // It ends with the process: nothing can wake it but a key.
        std::thread::spawn(move || read_keys(&tell));
        let end = |kind| signal(kind).map_err(Failure::from);
        let ends = [end(SignalKind::interrupt())?, end(SignalKind::terminate())?, end(SignalKind::hangup())?];
        let terminal = Terminal { before, keys, resized: signal(SignalKind::window_change())?, ends };
        write(ENTER)?;
        Ok(terminal)
    }

    /// How wide and how high it is.
    pub(super) fn size() -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            Ok(_) | Err(_) => (80, 24),
        }
    }

    /// Puts lines on the screen, over what stood there, with the chosen one in reverse.
    pub(super) fn draw(&mut self, lines: &[String], chosen: Option<usize>) -> Result<(), Failure> {
        let mut text = String::from("\x1b[H");
        for (place, line) in lines.iter().enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            let (painted, plain) = match place {
                0 => ("\x1b[1m", "\x1b[0m"),
                place if Some(place) == chosen => ("\x1b[7m", "\x1b[0m"),
                _ => ("", ""),
            };
            text.push_str(&format!("{painted}{line}{plain}\x1b[K"));
        }
        text.push_str("\x1b[J");
        Ok(write(&text)?)
    }

    /// What comes next.
    pub(super) async fn key(&mut self) -> Key {
        let [interrupt, terminate, hangup] = &mut self.ends;
        tokio::select! {
            key = self.keys.recv() => match key {
                Some(key) => key,
                // Nobody sits there.
                None => std::future::pending().await,
            },
            _ = self.resized.recv() => Key::Resized,
            _ = interrupt.recv() => Key::Quit,
            _ = terminate.recv() => Key::Quit,
            _ = hangup.recv() => Key::Quit,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

fn read_keys(tell: &mpsc::Sender<Key>) {
    let mut bytes = [0; 64];
    while let Ok(count @ 1..) = io::stdin().read(&mut bytes) {
        for key in keys(&bytes[..count]) {
            if tell.blocking_send(key).is_err() {
                return;
            }
        }
    }
}

/// Keys in what a terminal sends. An escape sequence comes in one piece.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 12] = [
        (b"\x1b[A", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOA", Key::Up),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[4~", Key::End),
        (b"\x1bOH", Key::Home),
        (b"\x1bOF", Key::End),
    ];
    let mut found = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence)) {
            found.push(*key);
            bytes = &bytes[sequence.len()..];
            continue;
        }
        match first {
            b'q' | b'Q' | 3 => found.push(Key::Quit),
            b'k' => found.push(Key::Up),
            b'j' => found.push(Key::Down),
            b' ' => found.push(Key::PageDown),
            b'a' => found.push(Key::Agents),
            b'e' => found.push(Key::Elections),
            b'\r' | b'\n' => found.push(Key::Enter),
            8 | 0x7f => found.push(Key::Back),
            0x1b if rest.is_empty() => found.push(Key::Back),
            // Of a sequence that is not known nothing is taken for a key.
            0x1b => return found,
            _ => {}
        }
        bytes = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_sequences() {
        assert_eq!(keys(b"\x1b[Ajq"), [Key::Up, Key::Down, Key::Quit]);
        assert_eq!(keys(b"\x1b[6~\x1b[5~"), [Key::PageDown, Key::PageUp]);
        assert_eq!(keys(b"\x1b[200~q"), [], "what is pasted ends nothing");
        assert_eq!(keys(b"xa"), [Key::Agents]);
        assert_eq!(keys(b"\r\x1b"), [Key::Enter, Key::Back]);
    }
}
