//! Arguments as JSON: each object of `--input` is one call, its fields the command's arguments by their names.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::output::Failure;

/// The largest input that is read.
const MAX_INPUT_BYTES: u64 = 16 * 1024 * 1024;

/// The calls to make: one, or one for each object of the input.
pub(crate) fn requests(mut cli: clap::Command, arguments: Vec<String>) -> Result<Vec<Vec<String>>, Failure> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (ours, theirs) = arguments.split_at(end);
    let Some((source, rest)) = take_input(ours)? else { return Ok(vec![arguments]) };
    // Only a built command knows the places of its arguments.
    cli.build();
    let mut found = None;
    for word in rest.iter().skip(1) {
        found = found.unwrap_or(&cli).find_subcommand(word).or(found);
    }
    let Some(command) = found else {
        return Err(Failure::usage("--input needs a command", "such as: baton acquire --input -"));
    };
    let objects = read(&source)?;
    objects.iter().map(|object| call(&cli, command, &rest, theirs, object)).collect()
}

/// A text as it was given, or what `@FILE` or `-` says to read.
pub(crate) fn text_of(given: &str, what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    match given.strip_prefix('@') {
        Some(path) => {
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(MAX_INPUT_BYTES).read_to_string(&mut text));
            read.map_err(|error| {
                Failure::usage(format!("cannot read the {what} from {path}: {error}"), "give a file of text")
            })?;
        }
        None if given == "-" => {
            std::io::stdin().take(MAX_INPUT_BYTES).read_to_string(&mut text)?;
        }
        None => text.push_str(given),
    }
    Ok(text)
}

/// What one JSON object says. A list of its fields, which serde would take for one, is none.
pub(crate) fn object_of<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = baton::election::object(&mut reader)?;
    reader.end()?;
    Ok(read)
}

/// Opens a file that another program writes, and keeps nobody waiting if it is none: a pipe that nobody writes to would.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file")),
    }
}

/// The value of `--input`, and the other arguments.
fn take_input(arguments: &[String]) -> Result<Option<(String, Vec<String>)>, Failure> {
    let mut rest = Vec::new();
    let mut source = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(value) = word.strip_prefix("--input=") {
            source = Some(value.to_string());
        } else if word == "--input" {
            let missing = || Failure::usage("--input needs a file, or - for stdin", "such as: --input -");
            source = Some(words.next().ok_or_else(missing)?.clone());
        } else {
            rest.push(word.clone());
        }
    }
    Ok(source.map(|source| (source, rest)))
}

fn read(source: &str) -> Result<Vec<Map<String, Value>>, Failure> {
    let mut text = String::new();
    let read = if source == "-" {
        std::io::stdin().take(MAX_INPUT_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(source).and_then(|file| file.take(MAX_INPUT_BYTES).read_to_string(&mut text))
    };
    read.map_err(|error| {
        Failure::usage(format!("cannot read the input {source}: {error}"), "give a file of JSON, or -")
    })?;
    let objects: Result<Vec<Map<String, Value>>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    match objects {
        Ok(objects) if objects.is_empty() => {
            Err(Failure::usage("the input is empty", "give at least one JSON object"))
        }
        Ok(objects) => Ok(objects),
        Err(error) => Err(Failure::usage(
            format!("the input is not JSON objects: {error}"),
            "such as: {\"election\": \"refactor-auth\", \"as\": \"agent-a\"}",
        )),
    }
}

/// The words of one call.
fn call(
    cli: &clap::Command,
    command: &clap::Command,
    given: &[String],
    theirs: &[String],
    object: &Map<String, Value>,
) -> Result<Vec<String>, Failure> {
    let mut words = given.to_vec();
    let mut places: Vec<(usize, Vec<String>)> = Vec::new();
    for (name, value) in object {
        let known =
            command.get_arguments().chain(cli.get_arguments().filter(|argument| argument.is_global_set()));
        let wanted = name.replace('_', "-");
        let argument = known.into_iter().find(|argument| {
            argument.get_long() == Some(wanted.as_str())
                || argument.get_id().as_str().replace('_', "-") == wanted
        });
        let Some(argument) = argument else {
            return Err(Failure::usage(
                format!("`baton {}` has no argument `{name}`", command.get_name()),
                format!("see baton {} --help", command.get_name()),
            ));
        };
        match (argument.get_index(), argument.get_long()) {
            (Some(index), _) => places.push((index, texts(value))),
            (None, Some(long)) if argument.get_action().takes_values() => {
                words.extend(texts(value).into_iter().map(|text| format!("--{long}={text}")));
            }
            (None, Some(long)) => words.extend((value == &Value::Bool(true)).then(|| format!("--{long}"))),
            (None, None) => {}
        }
    }
    places.sort_by_key(|(index, _)| *index);
    let trailing = command.get_positionals().any(clap::Arg::is_last_set);
    let (named, last): (Vec<_>, Vec<_>) = places.into_iter().partition(|(index, _)| {
        !trailing || command.get_positionals().any(|p| p.get_index() == Some(*index) && !p.is_last_set())
    });
    words.extend(named.into_iter().flat_map(|(_, texts)| texts));
    words.extend(theirs.iter().cloned());
    if !last.is_empty() {
        words.extend(theirs.is_empty().then(|| "--".to_string()));
        words.extend(last.into_iter().flat_map(|(_, texts)| texts));
    }
    Ok(words)
}

/// A JSON value as the words that a shell would give.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec![value.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_no_object() {
        #[derive(serde::Deserialize)]
        struct Named {
            #[serde(default)]
            name: String,
        }
        assert_eq!(object_of::<Named>(r#" {"name": "x"} "#).unwrap().name, "x");
        for text in ["[]", r#"["x"]"#, "null", r#"{"name": "x"} {}"#, ""] {
            assert!(object_of::<Named>(text).is_err(), "{text:?}");
        }
    }

    /// A pipe without a writer: to open it as any file would last until there is one.
    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let (mode, no_device) = (rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, no_device).unwrap();
        for odd in [pipe.as_path(), folder.path(), Path::new("/dev/null")] {
            assert_eq!(open_plain(odd).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", odd.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let mut text = String::new();
        open_plain(&file).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
}
