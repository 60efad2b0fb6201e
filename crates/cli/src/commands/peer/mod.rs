//! `baton peer`: a member of a group that elects its leader by messages alone, and runs CMD while it leads.

mod events;
mod network;
mod options;
mod query;
mod report;
mod status;
mod work;

use std::path::PathBuf;
use std::pin::Pin;

use baton_election::ElectionName;
use baton_election::time::Span;
use baton_node::{GroupSettings, ListedMember, Node, NodeError, RunningNode, StateError, control_channel};
use baton_peer::{Algorithm, Machine, MachineVisitor, NodeId};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Subcommand};

use crate::context::{Global, NoStore};
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};
use crate::warden_process;
use events::EventPrinter;
use network::Network;
use options::{Authentication, MemberSetup, TimingOptions};
use work::Work;

#[derive(Args, Debug)]
#[command(
    override_usage = "baton peer [OPTIONS] --algorithm <NAME> --id <ID> [-- <CMD>...]\n       baton peer <COMMAND>",
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  baton peer --algorithm raft --id 1 --peer 1=127.0.0.1:7001 --peer 2=127.0.0.1:7002 --peer 3=127.0.0.1:7003 -- ./work.sh
  baton peer --algorithm raft --id 3 --members FILE --secret-file SECRET --witness
  baton peer status

All members get the same list; only --id differs. A majority elects the leader: of three members, one may fail. A \
witness votes and never leads, and needs no CMD. CMD finds BATON_ELECTION (the group), BATON_AGENT (peer-ID), \
BATON_MODE_FILE (`leading` or `read-only`), and, with raft and paxos, BATON_TOKEN and BATON_TOKEN_FILE.

When the leadership is lost, CMD and everything it started gets SIGTERM, then SIGKILL, and is gone before the \
lease ends: before others can elect another. SIGTERM to baton peer stops CMD, hands over, and leaves.

With bully and ring TWO MEMBERS MAY LEAD AT ONCE, whenever the network splits or a message is late, and there is \
no token: use them to learn, or where two leaders do no harm."
)]
pub(crate) struct Peer {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    lead: Lead,
    #[command(flatten)]
    store: NoStore,
}

/// What a member is told that stands before another command, which would not heed it. Options that every command has may stand there.
pub(crate) fn misplaced(matches: &ArgMatches) -> Option<String> {
    let (name, peer) = matches.subcommand()?;
    let action = peer.subcommand_name().filter(|_| name == "peer")?;
    let own = Lead::augment_args(clap::Command::new("peer"));
    let is_given = |arg: &&Arg| peer.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let option = own.get_arguments().find(is_given)?.get_long()?;
    Some(format!("`--{option}` stands before `{action}`: write what is for `{action}` behind it"))
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the state of a running member, and the leader it knows
    Status(status::Status),
    /// Hand the leadership over, after its work has stopped
    Transfer(query::Transfer),
    /// Add and remove members, one at a time
    Members(query::Members),
}

/// What every member must be told. None where another command is given.
#[derive(Args, Clone, Copy, Debug)]
struct MemberIdentity {
    /// The algorithm: raft and paxos have one leader at most; bully and ring may have two
    #[arg(long, value_name = "NAME", value_parser = algorithms())]
    algorithm: Algorithm,
    /// This member's id, a number from 1 to 1023
    #[arg(long, value_name = "ID")]
    id: NodeId,
}

#[derive(Args, Debug)]
struct Lead {
    #[command(flatten)]
    who: Option<MemberIdentity>,
    /// A member: ID=HOST:PORT, and behind it ,witness or ,priority=N; repeat it for each
    #[arg(long = "peer", value_name = "MEMBER", conflicts_with = "members")]
    peers: Vec<ListedMember>,
    /// A file with one member per line, read again when it changes; the leader applies changes one by one
    #[arg(long, value_name = "FILE")]
    members: Option<PathBuf>,
    /// Where to listen [default: this member's address in the list]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The group's name
    #[arg(long, value_name = "NAME", default_value = "peers")]
    group: ElectionName,
    /// This member votes and never leads
    #[arg(long)]
    witness: bool,
    /// The priority: among members that can lead, the highest wins [default: 0]
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// The folder for this member's data [default: below the user's state folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Found a new group, of which no member has ever run: do not ask the others first
    #[arg(long)]
    found: bool,
    /// The time from SIGTERM to SIGKILL, at most a third of the shortest timeout [default: min(5s, a quarter of it)]
    #[arg(long, value_name = "DURATION")]
    grace: Option<Span>,
    /// Do not campaign again after a loss: exit 4
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    report: report::ReportOptions,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    timing_options: TimingOptions,
    #[command(flatten)]
    known: Authentication,
    /// The command to run while leading; a witness needs none
    #[arg(last = true, value_name = "CMD", required_unless_present = "witness")]
    command: Vec<String>,
}

fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)).try_map(|name| name.parse::<Algorithm>())
}

/// Runs a member, whatever its algorithm.
struct Member<'a> {
    lead: &'a Lead,
    settled: MemberSetup,
    output: Output,
}

impl<'a> MachineVisitor for Member<'a> {
    type Output = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn visit<M: Machine>(self) -> Self::Output {
        Box::pin(self.lead.run::<M>(self.settled, self.output))
    }
}

impl Peer {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        self.store.refuse("baton peer")?;
        let output = Output { json: global.json };
        match &self.action {
            Some(Action::Status(command)) => command.perform(output).await,
            Some(Action::Transfer(command)) => command.perform(output).await,
            Some(Action::Members(command)) => command.perform(output).await,
            None => self.lead.perform(output).await,
        }
    }
}

impl Lead {
    async fn perform(&self, output: Output) -> Outcome {
        warden_process::look_for_program(&self.command)?;
        let Some(who) = self.who else {
            return Err(Failure::usage("nothing is asked for", "see baton peer --help"));
        };
        self.report.check()?;
        let settled = MemberSetup::of(self, who.id)?;
        who.algorithm.visit(Member { lead: self, settled, output }).await
    }

    async fn run<M: Machine>(&self, settled: MemberSetup, output: Output) -> Outcome {
        let id = settled.node.config.id;
        let events = EventPrinter::new(output, &self.group, id)?;
        let work = Work::prepare(self, &settled, M::NAME, M::TERMS_ARE_TOKENS, events.clone())?;
        let timing = settled.node.config.timing;
        let node = Node::<M>::open(settled.node).map_err(|error| memory(&error))?;
        let size = node.group().size();
        let (control, questions) = control_channel();
        let (transport, local) =
            settled.reached.open(GroupSettings::new(M::NAME, &timing), control.clone()).await?;
        let text = format!(
            "member {id} of {size} of group {} listens at {local} ({}, {})",
            self.group,
            M::NAME,
            node.start_text(),
        );
        events.tell("started", None, &text);
        if !M::TERMS_ARE_TOKENS {
            let text = format!("with {} two members may lead at once, and there is no token", M::NAME);
            events.tell("no-token", None, &format!("WARNING: {text}"));
        }
        if self.witness && !self.command.is_empty() {
            events.tell("unused", None, "WARNING: a witness never leads, so CMD is never run");
        }
        let running: RunningNode = node.run(transport, control, questions);
        let _reporting = self.report.start(&self.group, id, running.leadership.clone(), events.clone());
        let outcome = work.run(running).await;
        events.finish();
        outcome
    }
}

/// Why a member's memory cannot be used.
fn memory(error: &NodeError) -> Failure {
    let hint = match error {
        NodeError::State(StateError::InUse(_)) => "each member has a folder of its own: --data DIR",
        NodeError::State(StateError::Damaged { .. }) => {
            "move the folder away; without its memory the member asks the others before it votes again"
        }
        NodeError::State(StateError::OtherVersion(_)) => {
            "start the version that wrote it; or move the folder away, and the member asks the others before it votes again"
        }
        NodeError::State(StateError::Foreign { .. }) => "each member has a folder of its own: --data DIR",
        NodeError::State(StateError::Io { .. }) | NodeError::Control { .. } => {
            "the folder must be on a local disk with room, and this user's own"
        }
        NodeError::Network => "see the network",
    };
    let exit = match error {
        NodeError::State(StateError::InUse(_) | StateError::Foreign { .. }) => Exit::Usage,
        NodeError::State(
            StateError::Damaged { .. } | StateError::OtherVersion(_) | StateError::Io { .. },
        ) => Exit::Store,
        NodeError::Control { .. } | NodeError::Network => Exit::Error,
    };
    let code = if exit == Exit::Usage { "usage" } else { "memory" };
    Failure::new(exit, code, error.to_string(), hint)
}
