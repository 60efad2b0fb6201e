//! The form of a scenario file: blocks of commands, a line `----`, and the trace that they leave.

/// A part of a scenario file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A comment or an empty line, kept as it is.
    Prose(String),
    /// Commands and their trace.
    Block { commands: Vec<String>, trace: String },
}

/// Takes a file apart. A block ends at an empty line.
pub(crate) fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            parts.push(Part::Prose(line.to_string()));
            continue;
        }
        let mut commands = vec![line.to_string()];
        let mut trace = String::new();
        while let Some(line) = lines.next_if(|line| *line != "----" && !line.is_empty()) {
            commands.push(line.to_string());
        }
        if lines.next_if(|line| *line == "----").is_some() {
            while let Some(line) = lines.next_if(|line| !line.is_empty()) {
                trace.push_str(line);
                trace.push('\n');
            }
        }
        parts.push(Part::Block { commands, trace });
    }
    parts
}

/// Puts a file together.
pub(crate) fn render(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Prose(line) => {
                text.push_str(line);
                text.push('\n');
            }
            Part::Block { commands, trace } => {
                for command in commands {
                    text.push_str(command);
                    text.push('\n');
                }
                text.push_str("----\n");
                text.push_str(trace);
            }
        }
    }
    text
}
