//! A bar on the terminal while the laboratory works. Nothing is shown where nobody looks.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The width of the bar itself.
const WIDTH: usize = 30;
/// Milliseconds from one drawing to the next.
const EVERY_MS: u64 = 100;

/// A bar that several threads may move.
pub(super) struct Bar {
    shown: bool,
    of: u64,
    begun: Instant,
    drawn_ms: AtomicU64,
}

impl Bar {
    /// Shown on a terminal only, and not to a program.
    pub(super) fn new(of: u64, json: bool) -> Bar {
        let shown = !json && io::stderr().is_terminal();
        Bar { shown, of: of.max(1), begun: Instant::now(), drawn_ms: AtomicU64::new(0) }
    }

    pub(super) fn elapsed(&self) -> std::time::Duration {
        self.begun.elapsed()
    }

    /// So many are done, and this is said beside the bar.
    pub(super) fn at(&self, done: u64, beside: impl FnOnce() -> String) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let drawn = self.drawn_ms.load(Ordering::Relaxed);
        let due = self.shown && ms >= drawn + EVERY_MS;
        if !due || self.drawn_ms.compare_exchange(drawn, ms, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let line = format!("\r\x1b[2K{} {}", bar(done, self.of), beside());
        // In one piece, and whoever has closed it does not miss it.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// The bar goes away.
    pub(super) fn end(&self) {
        if self.shown && self.drawn_ms.load(Ordering::Relaxed) > 0 {
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }
}

fn bar(done: u64, of: u64) -> String {
    let done = done.min(of);
    let full = usize::try_from(u128::from(done) * WIDTH as u128 / u128::from(of)).unwrap_or(WIDTH);
    let percent = u128::from(done) * 100 / u128::from(of);
    format!("[{}{}] {percent:>3}%", "=".repeat(full), " ".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_as_full_as_what_is_done() {
        assert_eq!(bar(0, 10), format!("[{}]   0%", " ".repeat(30)));
        assert_eq!(bar(5, 10), format!("[{}{}]  50%", "=".repeat(15), " ".repeat(15)));
        assert_eq!(bar(11, 10), format!("[{}] 100%", "=".repeat(30)));
        assert_eq!(bar(u64::MAX, u64::MAX), format!("[{}] 100%", "=".repeat(30)));
    }
}
