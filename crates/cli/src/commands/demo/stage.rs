//! What the audience sees: lines that stay, and at a terminal a last line that shows how the agents stand.

use std::io::{self, IsTerminal};

use baton::election::Moment;
use baton::election::time::Span;
use baton::store::boot;
use serde_json::{Value, json};

use super::Stop;
use crate::output::{Output, clean_lines};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";
/// One for each agent.
const AGENTS: [(&str, &str); 3] = [("agent-a", "\x1b[36m"), ("agent-b", "\x1b[33m"), ("agent-c", "\x1b[35m")];
/// Where the text begins, after the time.
const INDENT: &str = "          ";
/// How wide a terminal is taken to be if it does not say, and the widest that is still easy to read.
const USUAL_WIDTH: usize = 80;
const MAX_WIDTH: usize = 110;

/// The stage.
pub(super) struct Stage {
    output: Output,
    /// Somebody watches at a terminal: the last line lives, and there are pauses.
    live: bool,
    colour: bool,
    paused: bool,
    /// Columns; none where lines may be as long as they are.
    width: Option<usize>,
    start: Moment,
    /// The living line is on the screen.
    drawn: bool,
}

impl Stage {
    pub(super) fn open(output: Output, fast: bool) -> Stage {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let terminal = io::stdout().is_terminal() && !output.json && !dumb;
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        let width = terminal.then(|| {
            let told = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
            if told == 0 { USUAL_WIDTH } else { told.clamp(USUAL_WIDTH / 2, MAX_WIDTH) }
        });
        let (paused, start) = (terminal && !fast, boot::now());
        Stage { output, live: terminal, colour, paused, width, start, drawn: false }
    }

    /// The first lines, before anything is done.
    pub(super) fn open_curtain(&mut self) -> Result<(), Stop> {
        let title = "baton demo: three agents, one election, one leader at a time";
        self.put(
            &json!({"event": "begin", "title": title}),
            &format!("{}{title}{}", self.ink(BOLD), self.off()),
        )
    }

    /// Whether there are pauses to read.
    pub(super) fn pauses(&self) -> bool {
        self.paused
    }

    pub(super) fn act(&mut self, number: u32, title: &str) -> Result<(), Stop> {
        let text = format!("\n{}{number}. {title}{}", self.ink(BOLD), self.off());
        self.put(&json!({"event": "act", "act": number, "title": title}), &text)
    }

    /// A headline that begins no act.
    pub(super) fn heading(&mut self, title: &str) -> Result<(), Stop> {
        if self.output.json {
            return Ok(());
        }
        self.put(&Value::Null, &format!("\n{}{title}{}", self.ink(BOLD), self.off()))
    }

    /// Tells of something that happened just now.
    pub(super) fn tell(&mut self, event: &str, data: Value, text: &str) -> Result<(), Stop> {
        let at = boot::now().since(self.start);
        let time = format!("{:>7}", seconds(at));
        let lines: Vec<String> = self.folded(text).iter().map(|line| self.painted(line)).collect();
        let text = format!("{}{time}{}   {}", self.ink(DIM), self.off(), lines.join(&format!("\n{INDENT}")));
        self.put(&with_event(event, data), &text)
    }

    /// Tells of something that is not as it must be.
    pub(super) fn complain(&mut self, text: &str) -> Result<(), Stop> {
        let line = format!("{INDENT}{}NOT AS IT MUST BE:{} {}", self.ink(RED), self.off(), clean_lines(text));
        self.put(&json!({"event": "failed", "expectation": text}), &line)
    }

    /// Shows a command that was really run, and what it printed.
    pub(super) fn screen(&mut self, command: &str, printed: &str) -> Result<(), Stop> {
        let mut lines = vec![format!("{INDENT}{}$ {command}{}", self.ink(DIM), self.off())];
        let printed_lines = printed.lines().flat_map(|line| self.folded(line));
        lines.extend(printed_lines.map(|line| format!("{INDENT}{}", self.painted(&line))));
        self.put(&json!({"event": "command", "command": command, "printed": printed}), &lines.join("\n"))
    }

    /// Shows lines as they are, and to programs one object for each of `data`.
    pub(super) fn table(&mut self, data: &[Value], text: &str) -> Result<(), Stop> {
        if !self.output.json {
            let line = |line: &str| self.painted(&self.cut(&format!("   {line}")));
            return self.put(&Value::Null, &text.lines().map(line).collect::<Vec<_>>().join("\n"));
        }
        data.iter().try_for_each(|object| self.put(object, ""))
    }

    /// The last word.
    pub(super) fn conclude(&mut self, data: &Value, good: bool, text: &str) -> Result<(), Stop> {
        let ink = self.ink(if good { GREEN } else { RED });
        self.put(data, &format!("\n{ink}{}{}", clean_lines(text), self.off()))
    }

    /// Shows how the agents stand, on the line that lives.
    pub(super) fn draw(&mut self, text: &str) -> Result<(), Stop> {
        if !self.live {
            return Ok(());
        }
        self.drawn = true;
        self.write(&format!("\r\x1b[2K{}", self.painted(&self.cut(&format!("   {text}")))))
    }

    /// Takes the living line away.
    pub(super) fn wipe(&mut self) -> Result<(), Stop> {
        if std::mem::take(&mut self.drawn) { self.write("\r\x1b[2K") } else { Ok(()) }
    }

    fn put(&mut self, data: &Value, text: &str) -> Result<(), Stop> {
        self.wipe()?;
        let mut data = data.clone();
        if self.output.json {
            data["at_ms"] = json!(boot::now().since(self.start).as_millis());
        }
        let line = if self.output.json { data.to_string() } else { text.to_string() };
        self.write(&format!("{line}\n"))
    }

    fn write(&self, text: &str) -> Result<(), Stop> {
        self.output.write(text).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::Deaf,
            _ => error.into(),
        })
    }

    /// In lines that fit beside the time, broken between words.
    fn folded(&self, text: &str) -> Vec<String> {
        // A line of its own columns is not folded, or they would not be columns.
        let Some(width) = self.width.filter(|_| !text.contains("  ")) else { return vec![text.to_string()] };
        let room = width.saturating_sub(INDENT.len() + 1);
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                    line.push(' ');
                    line.push_str(word);
                }
                Some(_) | None => lines.push(word.to_string()),
            }
        }
        lines
    }

    /// What fits into one line.
    fn cut(&self, text: &str) -> String {
        match self.width {
            Some(width) if text.chars().count() >= width => {
                text.chars().take(width.saturating_sub(2)).chain(['…']).collect()
            }
            Some(_) | None => text.to_string(),
        }
    }

    fn ink(&self, ink: &'static str) -> &'static str {
        if self.colour { ink } else { "" }
    }

    fn off(&self) -> &'static str {
        self.ink(PLAIN)
    }

    /// Agents in their colours, tokens and refusals so that they are seen.
    fn painted(&self, text: &str) -> String {
        let text = clean_lines(text);
        if !self.colour {
            return text;
        }
        let mut painted = text.replace("refused", &format!("{RED}refused{PLAIN}"));
        for (agent, ink) in AGENTS {
            painted = painted.replace(agent, &format!("{ink}{agent}{PLAIN}"));
        }
        let words = painted.split(' ');
        let bold = |(previous, word): (&str, &str)| {
            let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if previous == "token" && digits > 0 {
                format!("{BOLD}{}{PLAIN}{}", &word[..digits], &word[digits..])
            } else {
                word.to_string()
            }
        };
        let pairs = std::iter::once("").chain(painted.split(' ')).zip(words);
        pairs.map(bold).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.wipe();
    }
}

fn with_event(event: &str, mut data: Value) -> Value {
    data["event"] = json!(event);
    data
}

/// A length of time as it is read aloud: `38 ms`, `1.63 s`.
pub(super) fn spoken(span: Span) -> String {
    if span < Span::secs(1) { format!("{} ms", span.as_millis()) } else { seconds(span) }
}

fn seconds(span: Span) -> String {
    let hundredths = span.as_millis() / 10;
    format!("{}.{:02} s", hundredths / 100, hundredths % 100)
}
