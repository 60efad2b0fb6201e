//! `baton`: decides who is in charge of a fleet of agents, and makes it stick.

#[cfg(any(feature = "guard", feature = "server"))]
mod address_file;
mod candidate_queue;
mod checkpoint_file;
mod commands;
mod context;
mod description;
mod exit;
mod help;
mod hints;
mod input;
mod keys;
mod line_writer;
mod manifest;
mod options;
mod output;
mod region;
mod screen;
mod secrets;
mod state_folder;
mod suspend;
#[cfg(feature = "server")]
mod unserved_store;
mod warden_process;
mod worker_keys;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use commands::Command;
use context::Global;
use exit::Exit;
use output::{Failure, Outcome, Output};

/// A server's requests are many small pieces of memory, taken by one thread and given back by another.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Decides who is in charge of a fleet of agents, and makes it stick.
#[derive(Parser, Debug)]
#[command(
    name = "baton",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Examples:
  baton run refactor-auth -- claude -p 'coordinate the refactoring'   lead while CMD runs
  baton acquire refactor-auth --as agent-a                            lead without a process
  baton status                                                        who leads what
  baton fence db/orders --election refactor-auth --token 3 -- psql …  act only with a current token
  baton demo                                                          see it all in 25 seconds

More: baton help all                           every command
      baton help COMMAND                       one command in full
      baton help stores | tokens | exit-codes  a topic

Exit codes: 0 done, 1 error, 2 wrong usage, 3 held by another, 4 leadership lost, 5 stale token,
            6 paused or waiting for an operator, 7 store unreachable, refused or corrupt"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let (arguments, odd) = arguments();
    if let Some(code) = commands::hidden(&arguments) {
        return code;
    }
    let output = Output { json: wants_json(&arguments) };
    if let Some(odd) = odd {
        // To pass it on changed would be worse.
        let message = format!("the argument `{odd}` is not UTF-8");
        return finish(
            output,
            Err(Failure::usage(message, "give it by a file, or let a script of yours be CMD")),
        );
    }
    if let Some(text) = help::topic(&arguments) {
        return finish(output, output.line(&text).map(|()| Exit::Done));
    }
    let requests = match input::requests(Cli::command(), arguments) {
        Ok(requests) => requests,
        Err(failure) => return finish(output, Err(failure)),
    };
    let mut last = ExitCode::from(Exit::Done.code());
    for request in requests {
        let (output, outcome) = match parse(request) {
            Ok(cli) => (Output { json: cli.global.json }, perform(cli)),
            Err(error) => return refuse(output, error),
        };
        let failed = !matches!(outcome, Ok(Exit::Done));
        last = finish(output, outcome);
        if failed {
            break;
        }
    }
    last
}

/// The arguments, and the first of them that is not text.
fn arguments() -> (Vec<String>, Option<String>) {
    let mut odd = None;
    let text = |argument: std::ffi::OsString| {
        argument.into_string().unwrap_or_else(|argument| {
            let shown = argument.to_string_lossy().into_owned();
            odd.get_or_insert_with(|| shown.clone());
            shown
        })
    };
    (std::env::args_os().map(text).collect(), odd)
}

/// What stands after `--` is CMD's, not ours.
fn wants_json(arguments: &[String]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

fn parse(mut arguments: Vec<String>) -> Result<Cli, clap::Error> {
    // `baton help --help` is help too.
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.retain(|word| word != "--help" && word != "-h");
    }
    let matches = help::command().try_get_matches_from(arguments)?;
    if let Some(misplaced) = commands::misplaced(&matches) {
        return Err(help::command().error(clap::error::ErrorKind::ArgumentConflict, misplaced));
    }
    Cli::from_arg_matches(&matches)
}

fn perform(cli: Cli) -> Outcome {
    let mut builder = match cli.command.serves() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let outcome = runtime.block_on(commands::perform(cli.command, cli.global));
    // A read that hangs on a sick disk must not keep the process.
    runtime.shutdown_background();
    outcome
}

fn finish(output: Output, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output.fail(&failure);
            ExitCode::from(failure.exit.code())
        }
    }
}

fn refuse(output: Output, mut error: clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let hint = hints::of(&mut error);
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if output.json && !help {
        let text = error.to_string();
        // The first paragraph: what is missing stands below the line that says so.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let message = lines.join(" ").trim_start_matches("error: ").to_string();
        output.fail(&Failure::usage(message, hint.as_deref().unwrap_or("see baton --help")));
    } else {
        let _ = error.print();
        hint.into_iter().for_each(|hint| output.talk(&format!("hint: {hint}")));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()))
}
