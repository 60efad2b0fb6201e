//! Which leader led from when to when, as leaders of different kinds wrote it down: `start WHO NS` and `stop
//! WHO NS`, on the boot-time clock.

use std::path::Path;

/// CMD of a `baton run`: leads for a moment, and writes it down as the peers do. The clock of the shell has steps of 10 ms.
pub(crate) const CMD: &str = r#"
now() { read up idle < /proc/uptime; echo "${up%.*}${up#*.}0000000"; }
echo "start $BATON_AGENT $(now)" >> "$JOURNAL"
sleep "$HOLD"
echo "stop $BATON_AGENT $(now)" >> "$JOURNAL"
"#;

/// The steps of the coarsest clock that writes.
const STEP: u64 = 10_000_000;

/// One leadership.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    pub(crate) start: u64,
    pub(crate) stop: u64,
    pub(crate) who: String,
}

/// The leaderships that were written down and have ended, in the order of their beginning.
pub(crate) fn terms(path: &Path) -> Vec<Term> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut open: Vec<Term> = Vec::new();
    let mut ended = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, who, at] = words[..] else { continue };
        let at: u64 = at.parse().unwrap();
        match kind {
            "start" => {
                // Who starts again was ended before it could write that down.
                open.retain(|term| term.who != who);
                open.push(Term { start: at, stop: u64::MAX, who: who.to_string() });
            }
            "stop" => {
                let place = open.iter().position(|term| term.who == who).expect("who stops has started");
                ended.push(Term { stop: at, ..open.remove(place) });
            }
            other => panic!("`{other}` in the journal"),
        }
    }
    ended.sort();
    ended
}

/// How often the leadership went from one to the other. Fails if two ever led at once.
#[track_caller]
pub(crate) fn check(terms: &[Term]) -> usize {
    for pair in terms.windows(2) {
        assert!(pair[1].start + STEP >= pair[0].stop, "two at once: {:?} and {:?}", pair[0], pair[1]);
    }
    terms.windows(2).filter(|pair| pair[0].who != pair[1].who).count()
}
