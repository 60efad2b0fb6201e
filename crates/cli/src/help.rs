//! The help screens: the commands in groups, the short list of `baton --help`, and the topics of `baton help TOPIC`.

use std::fmt::Write as _;

use clap::CommandFactory;

use crate::Cli;

/// Commands that belong together.
struct Group {
    name: &'static str,
    /// The commands of a first week, which `baton --help` shows.
    first: &'static [&'static str],
    /// The others, which only `baton help all` shows.
    more: &'static [&'static str],
}

/// Every command, once.
const GROUPS: &[Group] = &[
    Group {
        name: "Lead",
        first: &["run", "acquire", "renew", "release", "fence"],
        more: &["check", "enlist", "report", "judge", "peer"],
    },
    Group {
        name: "Look",
        first: &["status", "history"],
        more: &["watch", "top", "tree", "agents", "alerts"],
    },
    Group { name: "Hand over", first: &["checkpoint", "handover"], more: &[] },
    Group { name: "Share work", first: &[], more: &["task", "proposal", "quota", "state", "breaker"] },
    Group {
        name: "Operate",
        first: &["init", "depose", "pause", "resume"],
        more: &[
            "approve",
            "reject",
            "appoint",
            "vote",
            "cosign",
            "policy",
            "audit",
            "forget",
            "operator",
            "token",
            "dashboard",
        ],
    },
    Group { name: "Serve", first: &["serve"], more: &["observe", "restore", "guard"] },
    Group { name: "Tools", first: &["demo", "doctor"], more: &["lab", "completions"] },
];

/// A page of help that is about no single command.
struct Topic {
    name: &'static str,
    about: &'static str,
    text: fn() -> String,
}

const TOPICS: &[Topic] = &[
    Topic { name: "stores", about: "Where elections are kept, and how to name a store", text: stores },
    Topic {
        name: "tokens",
        about: "Fencing tokens, access tokens and model tokens",
        text: || TOKENS.to_string(),
    },
    Topic {
        name: "exit-codes",
        about: "What each exit code means, and what to do",
        text: || EXIT_CODES.to_string(),
    },
];

const STORES: &str = "\
A store keeps the elections. All agents that compete for an election must use the same store.

Name it with --store URL or $BATON_STORE. Without either, Baton uses the nearest .baton folder, in
this folder or above it; `baton init` creates one.

  file:DIR               a folder on this machine
  git:DIR?remote=NAME    a git repository, shared through its remote
  http://HOST:PORT       a Baton server (baton serve); https://HOST:PORT with TLS
  unix:/PATH             a Baton server's Unix socket
  embedded:FILE          the file of a Baton server, while that server is not running
  etcd://HOST:PORT       etcd
  k8s://NAMESPACE        Kubernetes
  postgres://HOST/DB     PostgreSQL
  firestore://PROJECT    Google Firestore
  spanner://P/I/DB       Google Spanner

One machine: use the folder. Several machines: use a server, or the database that you already run.
A git remote needs no set-up, but a candidate polls it and takes longer to replace a dead leader.

The last five are optional features of the build.";

/// The schemes of the stores that STORES calls optional.
const OPTIONAL_STORES: [&str; 5] = ["etcd", "k8s", "postgres", "firestore", "spanner"];

const TOKENS: &str = "\
Three different things are called tokens.

Fencing token
  A number that Baton gives to each leadership of an election, higher every time. A leader shows it
  when it writes. `baton check`, `baton fence` and `baton guard` refuse a token that is stale: its
  leadership has ended. Under `baton run`, CMD finds it in $BATON_TOKEN and $BATON_TOKEN_FILE.
  Stored documents, and the JSON that prints them as they are, call the same number `epoch`.

Access token
  A secret that lets a client use a Baton server. An operator creates it with `baton token create`
  and revokes it with `baton token revoke`. Clients read it from $BATON_HTTP_TOKEN, or from the file
  that $BATON_HTTP_TOKEN_FILE names. See `baton help token`.

Model tokens
  The tokens of a language model that an agent has used. A leader reports them with
  `baton renew --spent N`, and --budget-tokens limits them.";

const EXIT_CODES: &str = "\
These are Baton's own exit codes.

  0  Done.
  1  An error that has no code of its own. Read the message.
  2  Wrong usage. Read `baton help COMMAND`.
  3  Another agent holds the lease. Wait (--wait), or do something else.
  4  The leadership is lost. Stop acting as the leader.
  5  The token is stale. Stop: another leadership has begun, or this one has ended.
  6  The election is paused, or waits for an operator. Ask a person.
  7  The store is unreachable, refuses the request, or is corrupt. Try `baton doctor`.

`baton run` and `baton fence RESOURCE -- CMD` exit with CMD's own code if CMD ended by itself. A
signal that ends `baton run` while it waits gives 128 + the signal's number.

Every command that runs CMD exits with 127 if CMD's program does not exist, and with 126 if it
cannot be executed.

With --json, an error is an object with `code`, `exit`, `message` and `hint`.";

/// The options that every command has, in one line on the screen of each.
const EVERYWHERE: &str = "Everywhere: --store <URL>, --json, --input <FILE>; see `baton --help`";
/// The same where the command takes no store, or describes `--store` itself.
const EVERYWHERE_ELSE: &str = "Everywhere: --json, --input <FILE>; see `baton --help`";

/// The command line as it is parsed, with our help screens.
///
/// Completions are made from `Cli::command()`: what is hidden here, to keep screens short, must complete.
pub(crate) fn command() -> clap::Command {
    let cli = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&cli, false)
    );
    let everywhere: Vec<clap::Arg> = cli.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    cli.mut_subcommands(|command| with_short_screen(command, &everywhere)).help_template(template)
}

/// Hides the options that every command has, and names them in one line.
fn with_short_screen(mut command: clap::Command, everywhere: &[clap::Arg]) -> clap::Command {
    let own_store = command.get_arguments().any(|argument| argument.get_id() == "store");
    for argument in everywhere.iter().filter(|argument| !own_store || argument.get_id() != "store") {
        command = command.arg(argument.clone().hide(true));
    }
    with_line(command, if own_store { EVERYWHERE_ELSE } else { EVERYWHERE })
}

fn with_line(command: clap::Command, line: &'static str) -> clap::Command {
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{all-args}}\n\n{line}{{after-help}}"
    );
    command.mut_subcommands(|command| with_line(command, line)).help_template(template)
}

/// What `baton help TOPIC` prints, if these arguments ask for a topic.
pub(crate) fn topic(arguments: &[String]) -> Option<String> {
    let [_, help, name, ..] = arguments else { return None };
    if help != "help" {
        return None;
    }
    if ["all", "--all"].contains(&name.as_str()) {
        return Some(everything());
    }
    if name == "topics" {
        return Some(format!("{}\nbaton help TOPIC prints one.", topics()));
    }
    TOPICS.iter().find(|topic| topic.name == name).map(|topic| (topic.text)())
}

/// The topic `stores`, with what this build has.
fn stores() -> String {
    let schemes = baton::schemes();
    let built: Vec<&str> = OPTIONAL_STORES.into_iter().filter(|store| schemes.contains(store)).collect();
    let built = match built.len() {
        0 => "none of them".to_string(),
        count if count == OPTIONAL_STORES.len() => "all of them".to_string(),
        _ => format!("only {}", built.join(", ")),
    };
    format!("{STORES}\nThis build has {built}. `baton doctor` checks the store.")
}

/// All commands in their groups, and all topics.
fn everything() -> String {
    let mut text = groups(&Cli::command(), true);
    let _ = write!(text, "\n{}\nbaton help COMMAND or baton help TOPIC says more.", topics());
    text
}

/// The topics, each with the line that says what it is about.
fn topics() -> String {
    let mut text = "Topics:\n".to_string();
    let width = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or(0);
    for topic in TOPICS {
        let _ = writeln!(text, "  {:width$}  {}", topic.name, topic.about);
    }
    text
}

/// The commands in their groups, each with the line that says what it does. A build may lack some of them.
fn groups(cli: &clap::Command, all: bool) -> String {
    let mut text = String::new();
    let width = cli.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    for group in GROUPS {
        let rest: &[&str] = if all { group.more } else { &[] };
        let names = group.first.iter().chain(rest);
        let commands: Vec<&clap::Command> = names
            .filter_map(|name| cli.get_subcommands().find(|command| command.get_name() == *name))
            .collect();
        if commands.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}{}:", if text.is_empty() { "" } else { "\n" }, group.name);
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:width$}  {about}", command.get_name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped() -> Vec<&'static str> {
        GROUPS.iter().flat_map(|group| group.first.iter().chain(group.more)).copied().collect()
    }

    #[test]
    fn every_command_is_in_one_group_once() {
        let cli = Cli::command();
        for command in cli.get_subcommands() {
            let times = grouped().into_iter().filter(|name| *name == command.get_name()).count();
            assert_eq!(times, 1, "`{}` is in GROUPS {times} times", command.get_name());
        }
    }

    #[test]
    #[cfg(all(feature = "guard", feature = "server"))]
    fn every_name_in_the_groups_is_a_command() {
        let cli = Cli::command();
        for name in grouped() {
            assert!(cli.find_subcommand(name).is_some(), "`{name}` is no command");
        }
    }

    #[test]
    fn a_topic_hides_no_command_and_fits_the_screen() {
        for topic in TOPICS {
            assert!(Cli::command().find_subcommand(topic.name).is_none(), "`{}` is a command", topic.name);
            for line in (topic.text)().lines() {
                assert!(line.chars().count() <= 100, "`{line}` is too long");
            }
        }
    }

    #[test]
    fn the_list_of_topics_names_each_and_hides_no_command() {
        let list = topic(&["baton", "help", "topics"].map(str::to_string)).unwrap_or_default();
        let missing: Vec<&str> =
            TOPICS.iter().map(|topic| topic.name).filter(|name| !list.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?} are not in {list}");
        assert!(Cli::command().find_subcommand("topics").is_none(), "`topics` is a command");
    }

    #[test]
    fn the_first_screen_is_short() {
        let shown: usize = GROUPS.iter().map(|group| group.first.len()).sum();
        assert!((12..=16).contains(&shown), "{shown} commands");
    }
}
