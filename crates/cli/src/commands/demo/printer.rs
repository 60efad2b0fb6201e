//! What is printed: lines that stay, and at a terminal a last line that shows how the agents are.

use std::io::{self, IsTerminal};

use baton::election::Moment;
use baton::election::time::Span;
use baton::store::boot;
use serde_json::{Value, json};

use super::agent::NAMES;
use crate::output::{Failure, Output, clean_lines};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";
/// One for each agent.
const COLOURS: [&str; 3] = ["\x1b[36m", "\x1b[33m", "\x1b[35m"];
/// Where the text begins, after the time.
const INDENT: &str = "          ";
/// How wide a terminal is taken to be if it does not say, and the widest that is still easy to read.
const USUAL_WIDTH: usize = 80;
const MAX_WIDTH: usize = 110;

/// Prints events: an object for programs, lines for people.
pub(super) struct Printer {
    output: Output,
    /// Columns of the terminal; none where lines may be as long as they are.
    width: Option<usize>,
    colour: bool,
    /// Whether there are pauses to read.
    pub(super) pauses: bool,
    start: Moment,
    /// The last line shows how the agents are, and is to be replaced.
    drawn: bool,
    /// The reader has closed the pipe.
    pub(super) closed: bool,
}

impl Printer {
    pub(super) fn new(output: Output, fast: bool) -> Printer {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let terminal = io::stdout().is_terminal() && !output.json && !dumb;
        let width = terminal.then(|| {
            let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col.into());
            if columns == 0 { USUAL_WIDTH } else { columns.clamp(USUAL_WIDTH / 2, MAX_WIDTH) }
        });
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        Printer {
            output,
            width,
            colour,
            pauses: terminal && !fast,
            start: boot::now(),
            drawn: false,
            closed: false,
        }
    }

    /// The first line, before anything is done.
    pub(super) fn open(&mut self) -> Result<(), Failure> {
        let title = "baton demo: three agents, one election, one leader at a time";
        self.put("begin", json!({"title": title}), &self.inked(BOLD, title))
    }

    pub(super) fn act(&mut self, number: u32, title: &str) -> Result<(), Failure> {
        let text = format!("\n{}", self.inked(BOLD, &format!("{number}. {title}")));
        self.put("act", json!({"act": number, "title": title}), &text)
    }

    /// Something that happened just now.
    pub(super) fn tell(&mut self, event: &str, data: Value, text: &str) -> Result<(), Failure> {
        let time = format!("{:>7}", seconds(boot::now().since(self.start)));
        let text = format!("{}   {}", self.inked(DIM, &time), self.painted(&self.folded(text)));
        self.put(event, data, &text)
    }

    /// Something that is not as it must be.
    pub(super) fn complain(&mut self, expectation: &str) -> Result<(), Failure> {
        let text = format!("{INDENT}{} {expectation}", self.inked(RED, "NOT AS IT MUST BE:"));
        self.put("failed", json!({"expectation": expectation}), &text)
    }

    /// A command that was really run, and what it printed.
    pub(super) fn command(&mut self, command: &str, printed: &str) -> Result<(), Failure> {
        let mut text = format!("{INDENT}{}", self.inked(DIM, &format!("$ {command}")));
        for line in printed.lines() {
            // A line of columns is not folded.
            let line = if line.contains("  ") { line.to_string() } else { self.folded(line) };
            text.push_str(&format!("\n{INDENT}{}", self.painted(&line)));
        }
        self.put("command", json!({"command": command, "printed": printed}), &text)
    }

    /// Lines below a heading; for programs one object for each of `data`.
    pub(super) fn table(
        &mut self,
        heading: &str,
        event: &str,
        data: Vec<Value>,
        text: &str,
    ) -> Result<(), Failure> {
        if self.output.json {
            return data.into_iter().try_for_each(|object| self.put(event, object, ""));
        }
        let lines = text.lines().map(|line| format!("\n{}", self.painted(&self.cut(line))));
        let text = format!("\n{}{}", self.inked(BOLD, heading), lines.collect::<String>());
        self.put(event, Value::Null, &text)
    }

    /// The last line.
    pub(super) fn conclude(&mut self, data: Value, good: bool, text: &str) -> Result<(), Failure> {
        let text = format!("\n{}", self.inked(if good { GREEN } else { RED }, text));
        self.put("verdict", data, &text)
    }

    /// Shows at a terminal how the agents are.
    pub(super) fn draw(&mut self, text: &str) -> Result<(), Failure> {
        if self.width.is_none() {
            return Ok(());
        }
        self.drawn = true;
        self.write(&format!("\r\x1b[2K{}", self.painted(&self.cut(text))))
    }

    /// Takes that line away.
    pub(super) fn wipe(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.drawn) { self.write("\r\x1b[2K") } else { Ok(()) }
    }

    fn put(&mut self, event: &str, mut data: Value, text: &str) -> Result<(), Failure> {
        if self.output.json {
            data["event"] = json!(event);
            data["at_ms"] = json!(boot::now().since(self.start).as_millis());
            return self.write(&format!("{data}\n"));
        }
        self.wipe()?;
        self.write(&format!("{text}\n"))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.output.write(text).map_err(|error| {
            self.closed |= error.kind() == io::ErrorKind::BrokenPipe;
            error.into()
        })
    }

    /// In lines that fit beside the time, broken between words.
    fn folded(&self, text: &str) -> String {
        let Some(width) = self.width else { return text.to_string() };
        let mut column = INDENT.len();
        let mut folded = String::new();
        for word in text.split_inclusive(' ') {
            column += word.chars().count();
            if column > width {
                column = INDENT.len() + word.chars().count();
                folded.push_str(&format!("\n{INDENT}"));
            }
            folded.push_str(word);
        }
        folded
    }

    /// What fits into one line, indented.
    fn cut(&self, text: &str) -> String {
        let text = format!("   {text}");
        match self.width {
            Some(width) if text.chars().count() >= width => {
                text.chars().take(width - 2).chain(['…']).collect()
            }
            Some(_) | None => text,
        }
    }

    fn inked(&self, ink: &str, text: &str) -> String {
        let text = clean_lines(text);
        if self.colour { format!("{ink}{text}{PLAIN}") } else { text }
    }

    /// Agents in their colours, and refusals in red.
    fn painted(&self, text: &str) -> String {
        let words = NAMES.into_iter().zip(COLOURS).chain([("refused", RED)]);
        words.fold(clean_lines(text), |text, (word, ink)| text.replace(word, &self.inked(ink, word)))
    }
}

/// A length of time for people: `38 ms`, `1.63 s`.
pub(super) fn length(span: Span) -> String {
    if span < Span::secs(1) { format!("{} ms", span.as_millis()) } else { seconds(span) }
}

fn seconds(span: Span) -> String {
    let hundredths = span.as_millis() / 10;
    format!("{}.{:02} s", hundredths / 100, hundredths % 100)
}
