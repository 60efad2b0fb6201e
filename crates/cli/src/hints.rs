//! What to do about a command line that clap refuses.

use baton::election::InvalidName;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Words that people try first, and the commands that do it.
const MEANT: [(&[&str], &[&str]); 14] = [
    (&["lead", "start", "exec", "campaign"], &["run", "acquire"]),
    (&["elect", "election"], &["run", "acquire"]),
    (&["leader", "leaders"], &["status"]),
    (&["lock", "take", "get", "claim"], &["acquire"]),
    (&["leave", "stop", "quit", "unlock", "drop", "pass", "resign"], &["release"]),
    (&["list", "ls", "ps", "show", "who", "elections", "info"], &["status"]),
    (&["log", "logs"], &["history"]),
    (&["follow", "tail", "monitor"], &["watch"]),
    (&["sessions", "workers"], &["agents"]),
    (&["withdraw", "stand"], &["enlist"]),
    (&["note", "verify"], &["audit"]),
    (&["delete", "rm", "remove"], &["forget"]),
    (&["kill", "evict", "revoke"], &["depose"]),
    (&["server", "daemon"], &["serve"]),
];

/// A hint, if there is one better than clap's own; clap's list of similar commands is replaced by a sensible one.
pub(crate) fn of(error: &mut Error) -> Option<String> {
    let name = std::error::Error::source(error).and_then(|why| why.downcast_ref::<InvalidName>());
    if let Some(name) = name {
        return baton::Error::from(name.clone()).hint();
    }
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(several)) => several.join(" "),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let (usage, word) = (text(ContextKind::Usage), text(ContextKind::InvalidSubcommand));
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            suggest(error, &word);
            None
        }
        ErrorKind::UnknownArgument if usage.contains("CMD") && !argument.starts_with('-') => {
            Some(format!("put `--` before CMD: -- {argument} …"))
        }
        ErrorKind::ValueValidation if argument.contains("DURATION") && is_number(&value) => {
            Some(format!("did you mean {value}s?"))
        }
        ErrorKind::MissingRequiredArgument if usage.contains("pause") || usage.contains("resume") => {
            Some("name an election, or use --all for all of them".to_string())
        }
        ErrorKind::MissingRequiredArgument if usage.contains("baton history") => Some(
            "name an election, such as: baton history refactor-auth; baton status lists them".to_string(),
        ),
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names the commands that are meant by a word: those that do it, else those that are written like it.
fn suggest(error: &mut Error, word: &str) {
    let meant = MEANT.iter().find(|(words, _)| words.contains(&word)).map(|(_, commands)| commands.to_vec());
    let command = crate::help::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let nearest = names.iter().map(|name| distance(name, word)).min().filter(|far| *far <= 2);
    let alike = || names.into_iter().filter(|name| Some(distance(name, word)) == nearest).collect();
    let tips: Vec<&str> = meant.unwrap_or_else(alike);
    error.remove(ContextKind::SuggestedSubcommand);
    if !tips.is_empty() {
        let tips = tips.into_iter().map(ToString::to_string).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(tips));
    }
}

/// How many letters must be put in, taken out or changed to get from one word to the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let changed = corner + usize::from(a != b);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        let cases = [("acquire", "aquire", 1), ("status", "statsu", 2), ("run", "run", 0), ("", "abc", 3)];
        for (one, other, far) in cases {
            assert_eq!((distance(one, other), distance(other, one)), (far, far), "{one} {other}");
        }
    }

    #[test]
    fn every_suggestion_is_a_command() {
        let command = crate::help::command();
        for (words, commands) in MEANT {
            assert!(commands.iter().all(|name| command.find_subcommand(name).is_some()), "{commands:?}");
            assert!(words.iter().all(|word| command.find_subcommand(word).is_none()), "{words:?}");
        }
    }
}
