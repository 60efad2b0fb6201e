//! What is printed: data to stdout, talk to stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use baton::Error;
use baton::election::Refusal;
use rustix::termios::{OutputModes, tcgetattr};
use serde_json::{Map, Value, json};

use crate::exit::{self, Exit, Speaker};

/// A failure as the user is told of it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The facts, for JSON.
    pub(crate) facts: Map<String, Value>,
    /// A refusal that means something else to each speaker.
    pub(crate) refusal: Option<Box<Refusal>>,
}

impl Failure {
    pub(crate) fn new(
        exit: Exit,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Failure {
        let (message, hint) = (message.into(), Some(hint.into()));
        Failure { exit, code, message, hint, facts: Map::new(), refusal: None }
    }

    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "usage", message, hint)
    }

    pub(crate) fn from_error(error: &Error, speaker: Speaker) -> Failure {
        let facts = match error {
            Error::Refused(refusal) => match serde_json::to_value(refusal) {
                Ok(Value::Object(mut facts)) => {
                    let token = facts.remove("epoch").map(|epoch| ("token".to_string(), epoch));
                    facts.extend(token);
                    facts
                }
                Ok(_) | Err(_) => Map::new(),
            },
            Error::Store(baton::store::StoreError::Diverged { claims, .. }) => {
                Map::from_iter([("claims".to_string(), json!(claims))])
            }
            Error::Store(_)
            | Error::Url(_)
            | Error::NoStore(_)
            | Error::Name(_)
            | Error::WaitedLongEnough { .. }
            | Error::Lost(_)
            | Error::System(_) => Map::new(),
        };
        let exit = exit::of(error, speaker);
        let (code, message, hint) = (error.code(), error.to_string(), error.hint());
        Failure { exit, code, message, hint, facts, refusal: None }
    }

    /// With the exit code that a refusal has for this speaker, where nobody has said for whom it was.
    pub(crate) fn told_to(mut self, speaker: Speaker) -> Failure {
        if let Some(refusal) = self.refusal.take() {
            self.exit = exit::of_refusal(&refusal, speaker);
        }
        self
    }
}

/// The number of a leadership is its token, also in the message of an older server that calls it an epoch.
pub(crate) fn with_tokens(text: &str) -> String {
    let text = text.replace("(epoch ", "(token ").replace("(current epoch ", "(current token ");
    text.replace("a later epoch has begun", "a later leadership has begun")
}

/// For a speaker that [`Failure::told_to`] names later.
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let failure = Failure::from_error(&error, Speaker::Candidate);
        let refusal = match error {
            Error::Refused(refusal) => Some(Box::new(refusal)),
            Error::WaitedLongEnough { refusal, .. } => refusal,
            Error::Store(_)
            | Error::NoStore(_)
            | Error::Url(_)
            | Error::Name(_)
            | Error::Lost(_)
            | Error::System(_) => None,
        };
        Failure { refusal, ..failure }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Error::Refused(refusal).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure {
            exit: Exit::Error,
            code: "system",
            message: error.to_string(),
            hint: None,
            facts: Map::new(),
            refusal: None,
        }
    }
}

/// The outcome of a command.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Where output goes and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints one result: an object for programs, or lines for people. A broken pipe is success.
    pub(crate) fn say(self, data: &Value, text: &str) -> Result<(), Failure> {
        if self.json { self.line(&data.to_string()) } else { self.line(text) }
    }

    /// Prints lines to stdout. At a terminal, nothing in them steers it, whoever wrote it.
    pub(crate) fn line(self, text: &str) -> Result<(), Failure> {
        let text = if io::stdout().is_terminal() { self.harmless(text) } else { text.into() };
        self.painted(&text)
    }

    /// The same for what the caller has cleaned, and painted for a terminal.
    pub(crate) fn painted(self, text: &str) -> Result<(), Failure> {
        match self.write(&format!("{}\n", text.trim_end_matches('\n'))) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => Ok(other?),
        }
    }

    /// JSON with escapes in it, which mean the same; of other text, marks in the place of what would steer a terminal.
    fn harmless(self, text: &str) -> Cow<'_, str> {
        if !text.chars().any(|c| steers(c) && c != '\t') {
            return text.into();
        }
        if self.json {
            let escaped = |c: char| {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
            };
            return text.chars().map(|c| if steers(c) { escaped(c) } else { c.to_string() }).collect();
        }
        text.chars().map(|c| if steers(c) && c != '\t' { '\u{fffd}' } else { c }).collect()
    }

    /// Writes to stdout as it is, at once. For those who must tidy up before they leave, whoever has closed the pipe.
    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
    }

    /// Tells a person something that is not data.
    pub(crate) fn talk(self, text: &str) {
        if !self.json {
            say_at_once(&self.talk_line(text));
        }
    }

    /// The line that [`Output::talk`] prints.
    pub(crate) fn talk_line(self, text: &str) -> String {
        format!("{}\n", self.told(text))
    }

    /// Tells a program something that is not data: an event, on stderr.
    pub(crate) fn event(self, data: &Value) {
        say_at_once(&Output { json: true }.talk_line(&data.to_string()));
    }

    /// As it goes to stderr.
    fn told(self, text: &str) -> Cow<'_, str> {
        if io::stderr().is_terminal() { self.harmless(text) } else { text.into() }
    }

    /// Tells that a store was made: who meant another one, in another folder, must learn of it.
    pub(crate) fn made_store(self, location: &str) {
        let text = format!("made a new store: {location}");
        self.talk(&text);
        if self.json {
            self.event(&json!({"event": "store-made", "store": location, "message": text}));
        }
    }

    /// Tells which store was taken, where nobody named it.
    pub(crate) fn found_store(self, url: &str) {
        let text = format!("uses the store {url}, found here or above; name another with --store");
        self.talk(&text);
        if self.json {
            self.event(&json!({"event": "store-found", "store": url, "message": text}));
        }
    }

    /// Tells of a failure.
    pub(crate) fn fail(self, failure: &Failure) {
        let message = with_tokens(&failure.message);
        if self.json {
            let mut object = Map::from_iter([
                ("outcome".to_string(), json!("error")),
                ("code".to_string(), json!(failure.code)),
                ("message".to_string(), json!(message)),
                ("hint".to_string(), json!(failure.hint)),
                ("exit".to_string(), json!(failure.exit.code())),
            ]);
            for (name, value) in &failure.facts {
                object.entry(name.clone()).or_insert_with(|| value.clone());
            }
            let _ = self.line(&Value::Object(object).to_string());
            return;
        }
        let (red, dim, plain) = if colour() { ("\x1b[31m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "{red}error:{plain} {}", clean_lines(&message));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(stderr, "{dim}hint: {}{plain}", clean_lines(hint));
        }
    }
}

/// In one piece: CMD, its warden and others write to the same stderr.
pub(crate) fn say_at_once(line: &str) {
    let _ = io::stderr().write_all(ended_for(&io::stderr(), line).as_bytes());
}

/// A terminal that CMD works at through us does not move to the left by itself.
fn ended_for<'a>(stderr: &io::Stderr, line: &'a str) -> Cow<'a, str> {
    let raw = tcgetattr(stderr).is_ok_and(|modes| !modes.output_modes.contains(OutputModes::OPOST));
    if raw { line.replace('\n', "\r\n").into() } else { line.into() }
}

/// Colour only for a person at a terminal who has not asked for none.
pub(crate) fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Text of others in one line, so that it cannot pass for another, and without what would steer a terminal.
pub(crate) fn clean(text: &str) -> String {
    clean_lines(text).replace('\n', " ⏎ ")
}

/// Text that may have several lines, without the control characters that would steer a terminal.
pub(crate) fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a character would steer a terminal (also U+007F to U+009F), turn the direction of what follows, end a line that looks whole, or hide: marks without a
/// width, joiners, tags.
fn steers(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() && c != '\n' || hides
}

/// Rows in columns as wide as their widest cell.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_string()).collect();
    std::iter::once(line(&head)).chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each kind one: a control, one of C1, marks of direction, a separator of lines, joiners, a tag.
    const ODD: &str = "\u{1b}\u{7f}\u{9b}\u{61c}\u{200c}\u{200d}\u{202e}\u{2028}\u{2029}\u{feff}\u{e0041}";

    #[test]
    fn the_number_of_a_leadership_is_its_token() {
        assert_eq!(with_tokens("held by a (epoch 12)"), "held by a (token 12)");
        assert_eq!(with_tokens("there is no election `epoch`"), "there is no election `epoch`");
        let stale = with_tokens("token 0 is stale (current epoch 1): a later epoch has begun");
        assert_eq!(stale, "token 0 is stale (current token 1): a later leadership has begun");
    }

    #[test]
    fn nothing_steers_a_terminal_and_json_means_the_same() {
        let data = json!({"text": ODD, "plain": "ü 汉 \t"});
        let shown = Output { json: true }.harmless(&data.to_string()).into_owned();
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), data);
        let shown = Output { json: false }.harmless(&format!("{ODD}a\tb\nc")).into_owned();
        assert_eq!(shown, format!("{}a\tb\nc", "\u{fffd}".repeat(ODD.chars().count())));
        assert_eq!(clean_lines(ODD), "\u{fffd}".repeat(ODD.chars().count()));
    }
}
