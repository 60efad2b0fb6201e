//! `baton completions`: a completion script for a shell, which also completes the names of elections.

use std::process::ExitCode;
use std::time::Duration;

use baton::store::Access;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::context::{Context, Global};
use crate::exit::Exit;
use crate::output::{Outcome, Output};

/// What the scripts call to learn the names of elections.
pub(crate) const ELECTIONS: &str = "complete-elections";
/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton completions bash > /etc/bash_completion.d/baton
  baton completions zsh > ~/.zfunc/_baton
  baton completions fish > ~/.config/fish/completions/baton.fish

The scripts for bash, zsh and fish also complete the names of elections, of $BATON_STORE or the store found here.")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) async fn perform(&self, _: &Global) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "baton", &mut script);
        let script = with_elections(self.shell, &String::from_utf8_lossy(&script));
        Output { json: false }.line(&script)?;
        Ok(Exit::Done)
    }
}

/// The commands whose first word is an election, such as `status` and `task add`.
fn commands() -> Vec<String> {
    fn takes_election(command: &clap::Command) -> bool {
        command.get_positionals().next().is_some_and(|first| first.get_id() == "election")
    }
    let cli = crate::Cli::command();
    let mut found = Vec::new();
    for command in cli.get_subcommands() {
        let name = command.get_name();
        found.extend(takes_election(command).then(|| name.to_string()));
        let below = command.get_subcommands().filter(|below| takes_election(below));
        found.extend(below.map(|below| format!("{name} {}", below.get_name())));
    }
    found
}

/// The script, with what completes names of elections.
fn with_elections(shell: Shell, script: &str) -> String {
    let commands = commands();
    match shell {
        Shell::Bash => {
            let words = commands.iter().map(|words| format!("\"{words} \"")).collect::<Vec<_>>().join("|");
            format!(
                "{script}
_baton_with_elections() {{
    _baton \"$@\"
    [[ ${{COMP_WORDS[COMP_CWORD]}} == -* ]] && return
    case \"${{COMP_WORDS[*]:1:COMP_CWORD-1}} \" in
        {words})
            COMPREPLY=( $(compgen -W \"$(baton {ELECTIONS} 2>/dev/null)\" -- \"${{COMP_WORDS[COMP_CWORD]}}\") )
            ;;
    esac
}}
complete -F _baton_with_elections -o nosort -o bashdefault baton
"
            )
        }
        // It names what stands at each place of a command.
        Shell::Zsh => {
            let named: Vec<String> = script.lines().map(of_an_election).collect();
            let function = format!(
                "_baton_elections() {{
    local -a elections
    elections=(${{(f)\"$(baton {ELECTIONS} 2>/dev/null)\"}})
    compadd -a elections
}}
"
            );
            let (first, rest) = named.split_at(1.min(named.len()));
            format!("{}\n\n{function}{}\n", first.join("\n"), rest.join("\n"))
        }
        Shell::Fish => {
            let condition = |words: &String| {
                let seen = words.split(' ').map(|word| format!("__fish_seen_subcommand_from {word}"));
                format!(
                    "complete -c baton -n \"{}\" -f -a \"(baton {ELECTIONS} 2>/dev/null)\"",
                    seen.collect::<Vec<_>>().join("; and ")
                )
            };
            format!("{script}\n{}\n", commands.iter().map(condition).collect::<Vec<_>>().join("\n"))
        }
        _ => script.to_string(),
    }
}

/// A line of the script for zsh; what stands for an election is completed by its name.
fn of_an_election(line: &str) -> String {
    let place = line.trim_start();
    let is_election = place.starts_with("':election ") || place.starts_with("'::election ");
    if is_election { line.replace(":_default'", ":_baton_elections'") } else { line.to_string() }
}

/// Prints the names of elections, a line each. Whatever goes wrong, a shell is not disturbed.
pub(crate) fn elections() -> ExitCode {
    let names = async {
        let global = Global { store: None, json: false, input: None };
        let context = Context::open(&global, Access::Read).await.ok()?;
        context.coordinator.elections().await.ok()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime.ok().and_then(|runtime| {
        let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, names).await });
        runtime.shutdown_background();
        found.ok().flatten()
    });
    let lines: Vec<String> = found.into_iter().flatten().map(|name| name.to_string()).collect();
    if !lines.is_empty() {
        let _ = Output { json: false }.write(&(lines.join("\n") + "\n"));
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_asks_for_elections() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::Cli::command(), "baton", &mut script);
            let plain = String::from_utf8(script).unwrap();
            let script = with_elections(shell, &plain);
            assert!(script.contains(&format!("baton {ELECTIONS}")), "{shell}");
            assert_eq!(
                script.lines().next(),
                plain.lines().next(),
                "{shell}: its first line stays the first"
            );
        }
        assert!(commands().iter().any(|words| words == "task add"));
        assert!(commands().iter().any(|words| words == "status"));
    }

    #[test]
    fn zsh_completes_each_place_of_an_election() {
        let line = "':election -- The election:_default' \\";
        assert_eq!(of_an_election(line), "':election -- The election:_baton_elections' \\");
        let other = "':agent -- The agent:_default' \\";
        assert_eq!(of_an_election(other), other);
    }
}
