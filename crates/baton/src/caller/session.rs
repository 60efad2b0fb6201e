//! What tells one caller from another that uses the same agent name.
//!
//! Assumes that whoever sets one of the variables gives equal values to the calls of one caller only, and that one caller uses
//! one terminal. Guarantees that calls whose sessions are equal share a terminal session of one run of the machine, or such a
//! value. Does not guarantee a session: without a variable and a terminal there is none, and such a call equals no other.

use std::fmt;

use baton_election::{ContentHash, Refusal};
use baton_store::boot::Boot;
use serde::{Deserialize, Serialize};

/// The longest id of a session, in bytes.
pub const MAX_SESSION_BYTES: usize = 256;

/// The variable that names a session. It goes before all others.
pub const SESSION_VARIABLE: &str = "BATON_SESSION";

/// The session of a caller that is not a process, such as the shell of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerSession {
    /// How it is known.
    pub kind: SessionKind,
    /// What tells it from others of its kind.
    pub id: String,
}

/// How a session is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionKind {
    /// `$BATON_SESSION`.
    Named,
    /// `$CLAUDE_CODE_SESSION_ID`.
    ClaudeCode,
    /// `$CODEX_SESSION_ID`.
    Codex,
    /// `$GEMINI_SESSION_ID`.
    Gemini,
    /// The terminal, its session leader, and the run of the machine.
    Terminal,
}

impl SessionKind {
    /// The kinds that a variable names, the first that is set counts.
    const VARIABLES: [(&str, SessionKind); 4] = [
        (SESSION_VARIABLE, SessionKind::Named),
        ("CLAUDE_CODE_SESSION_ID", SessionKind::ClaudeCode),
        ("CODEX_SESSION_ID", SessionKind::Codex),
        ("GEMINI_SESSION_ID", SessionKind::Gemini),
    ];
}

impl CallerSession {
    /// The session of this process: by the variables that `variable` looks up, else by its terminal.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if a variable is set to something that cannot be an id.
    pub fn of_caller(variable: impl Fn(&str) -> Option<String>) -> Result<Option<CallerSession>, Refusal> {
        for (name, kind) in SessionKind::VARIABLES {
            if let Some(id) = variable(name).filter(|id| !id.is_empty()) {
                check(name, &id)?;
                return Ok(Some(CallerSession { kind, id }));
            }
        }
        Ok(terminal(|path| std::fs::read_to_string(path).ok()))
    }

    /// A short name for files.
    pub(super) fn slot(&self) -> String {
        let text = format!("{:?} {}", self.kind, self.id);
        ContentHash::of(text.as_bytes()).to_string()[..16].to_string()
    }
}

impl fmt::Display for CallerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SessionKind::Named => write!(f, "{SESSION_VARIABLE}={}", self.id),
            SessionKind::ClaudeCode => write!(f, "Claude Code {}", self.id),
            SessionKind::Codex => write!(f, "Codex {}", self.id),
            SessionKind::Gemini => write!(f, "Gemini CLI {}", self.id),
            // What follows the terminal is for programs.
            SessionKind::Terminal => write!(f, "terminal {}", self.id.split(' ').next().unwrap_or_default()),
        }
    }
}

fn check(name: &str, id: &str) -> Result<(), Refusal> {
    if id.len() <= MAX_SESSION_BYTES && !id.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal::invalid(
        format!("{name} is not the id of a session"),
        format!("set it to at most {MAX_SESSION_BYTES} bytes in one line, or unset it"),
    ))
}

/// The session that the kernel keeps for a terminal. The leader's start tells it from a later one with the same number.
fn terminal(read: impl Fn(&str) -> Option<String>) -> Option<CallerSession> {
    let mine = read("/proc/self/stat")?;
    let (leader, device): (u32, u32) = (field(&mine, SESSION)?, field(&mine, TERMINAL)?);
    if device == 0 || leader == 0 {
        // No terminal, or a leader that this process cannot see.
        return None;
    }
    let start: u64 = field(&read(&format!("/proc/{leader}/stat"))?, START)?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let id = format!("{} {leader} {start} {} {}", named(device), namespace.display(), Boot::current().boot);
    Some(CallerSession { kind: SessionKind::Terminal, id })
}

/// Fields of `/proc/PID/stat`, counted from the one after the command's name.
const SESSION: usize = 3;
const TERMINAL: usize = 4;
const START: usize = 19;

fn field<T: std::str::FromStr>(stat: &str, at: usize) -> Option<T> {
    // A command's name may hold anything, also a parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// A terminal's device as people know it.
fn named(device: u32) -> String {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    match major {
        4 => format!("tty{minor}"),
        136..=143 => format!("pts/{}", minor + (major - 136) * 256),
        _ => format!("{major}:{minor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process as the kernel shows it.
    fn stat(command: &str, session: u32, terminal: u32, start: u64) -> String {
        let between = "-1 4194304 0 0 0 0 0 0 0 0 20 0 1 0";
        format!("7 ({command}) S 1 7 {session} {terminal} {between} {start} 1000 1")
    }

    fn known(set: &'static [(&str, &str)]) -> Option<CallerSession> {
        let find =
            |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_string());
        CallerSession::of_caller(find).unwrap()
    }

    #[test]
    fn a_variable_goes_before_the_terminal_and_batons_own_before_all() {
        let own = known(&[("CLAUDE_CODE_SESSION_ID", "c"), ("BATON_SESSION", "ci-7")]).unwrap();
        assert_eq!((own.kind, own.to_string().as_str()), (SessionKind::Named, "BATON_SESSION=ci-7"));
        let harness = known(&[("CLAUDE_CODE_SESSION_ID", "c"), ("BATON_SESSION", "")]).unwrap();
        assert_eq!((harness.kind, harness.to_string().as_str()), (SessionKind::ClaudeCode, "Claude Code c"));
        assert_eq!(known(&[("CODEX_SESSION_ID", "x")]).unwrap().kind, SessionKind::Codex);
        assert_eq!(known(&[("GEMINI_SESSION_ID", "g")]).unwrap().kind, SessionKind::Gemini);
    }

    #[test]
    fn sessions_of_different_kinds_with_one_id_are_different() {
        let named = known(&[("BATON_SESSION", "1")]).unwrap();
        let codex = known(&[("CODEX_SESSION_ID", "1")]).unwrap();
        assert_ne!(named, codex);
        assert_ne!(named.slot(), codex.slot());
    }

    #[test]
    fn what_cannot_be_an_id_is_refused_by_its_variables_name() {
        for id in ["a\nb".to_string(), "x".repeat(MAX_SESSION_BYTES + 1)] {
            let refusal = CallerSession::of_caller(|_| Some(id.clone())).unwrap_err();
            assert!(refusal.to_string().contains("BATON_SESSION"), "{refusal}");
        }
    }

    #[test]
    fn a_terminals_session_ends_with_its_leader() {
        let pts3 = (136 << 8) | 3;
        let session = |session: u32, device: u32, start: Option<u64>| {
            terminal(|path| match path {
                "/proc/self/stat" => Some(stat("a) b", session, device, 1)),
                "/proc/42/stat" => start.map(|start| stat("bash", 42, device, start)),
                _ => None,
            })
        };
        let one = session(42, pts3, Some(100)).unwrap();
        assert_eq!(one.to_string(), "terminal pts/3");
        assert_eq!(session(42, pts3, Some(100)), Some(one.clone()), "the same");
        assert_ne!(session(42, pts3, Some(101)), Some(one.clone()), "another process with this number");
        assert_ne!(session(42, pts3 + 1, Some(100)), Some(one), "another terminal");
        assert_eq!(session(42, 0, Some(100)), None, "no terminal");
        assert_eq!(session(0, pts3, Some(100)), None, "a leader outside of this namespace");
        assert_eq!(session(42, pts3, None), None, "the leader has ended");
    }

    #[test]
    fn terminals_are_named_as_people_know_them() {
        assert_eq!(named((4 << 8) | 1), "tty1");
        assert_eq!(named((136 << 8) | 255), "pts/255");
        assert_eq!(named((137 << 8) | 1), "pts/257");
        assert_eq!(named((204 << 8) | 64), "204:64");
    }
}
