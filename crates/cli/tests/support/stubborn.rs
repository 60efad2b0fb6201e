//! A CMD that does all it can to stay, and looks whether its predecessor did.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use super::{HANG, World, happens, processes, until};

/// What the scenes lead.
pub(crate) const ELECTION: &str = "e";

/// Notes who of another leadership is alive, then starts a child, and a daemon that has left its parent, session and
/// group. All of them ignore whatever can be ignored.
const EVIL: &str = r#"
trap '' TERM HUP INT QUIT USR1
seen=""
for file in $(grep -lazF "E2E_WORLD=$E2E_WORLD" /proc/[0-9]*/environ 2>/dev/null); do
    if grep -qazF "BATON_KEY=" "$file" 2>/dev/null && ! grep -qazxF "BATON_TOKEN=$BATON_TOKEN" "$file" 2>/dev/null
    then seen="$seen $file:$(tr '\0' ' ' < "${file%environ}cmdline" 2>/dev/null)"; fi
done
cat > "$E2E_WORLD/daemon-$BATON_TOKEN.sh" <<'END'
trap '' TERM HUP INT QUIT USR1
echo $$ > "$E2E_WORLD/daemon-$BATON_TOKEN.new"
mv "$E2E_WORLD/daemon-$BATON_TOKEN.new" "$E2E_WORLD/daemon-$BATON_TOKEN"
while :; do sleep 1; done
END
(setsid sh "$E2E_WORLD/daemon-$BATON_TOKEN.sh" </dev/null >/dev/null 2>&1 &)
sh -c 'while :; do sleep 1; done' &
while [ ! -e "$E2E_WORLD/daemon-$BATON_TOKEN" ]; do sleep 0.02; done
printf '%s|%s|%s\n' "$BATON_TOKEN" "$BATON_AGENT" "$seen" > "$E2E_WORLD/start.new"
mv "$E2E_WORLD/start.new" "$E2E_WORLD/start-$BATON_AGENT"
"#;

/// A validator that stays, with a daemon that has left its parent, session and group. Neither obeys SIGTERM.
pub(crate) const VALIDATOR: &str = r#"
trap '' TERM
(setsid sh -c 'trap "" TERM; echo > "$E2E_WORLD/validating"; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &)
while :; do sleep 1; done
"#;

/// A `baton run` of such a CMD.
pub(crate) struct StubbornRun {
    pub(crate) agent: &'static str,
    pub(crate) child: Child,
}

impl StubbornRun {
    /// Starts one that goes on for ever.
    pub(crate) fn start(world: &World, agent: &'static str, options: &[&str]) -> StubbornRun {
        let command = world.command(&[]);
        StubbornRun::launch(world, command, agent, options, "while :; do sleep 1; done")
    }

    /// Starts one with another end, by a command that has no arguments yet.
    pub(crate) fn launch(
        world: &World,
        mut command: Command,
        agent: &'static str,
        options: &[&str],
        end: &str,
    ) -> StubbornRun {
        let script = format!("{EVIL}{end}");
        command.args(["run", ELECTION, "--as", agent]).args(options).args(["--", "sh", "-c", &script]);
        let log =
            File::options().append(true).create(true).open(world.file(&format!("{agent}.err"))).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        StubbornRun { agent, child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn warden(&self) -> u32 {
        let mut found = None;
        until("the warden is there", || {
            found = processes::warden(self.pid());
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until its CMD runs in full. Returns the token and whom it saw of others. Fails at once, with what `baton run`
    /// printed, if that has ended.
    pub(crate) fn started(&self, world: &World) -> (u64, String) {
        let path = world.file(&format!("start-{}", self.agent));
        let log = || fs::read_to_string(world.file(&format!("{}.err", self.agent))).unwrap_or_default();
        let mut text = String::new();
        let there = happens(HANG, || {
            let ended = processes::has_ended(self.pid());
            text = fs::read_to_string(&path).unwrap_or_default();
            assert!(!ended || !text.is_empty(), "{} ended without CMD: {}", self.agent, log());
            !text.is_empty()
        });
        assert!(there, "{} never started CMD: {}", self.agent, log());
        let words: Vec<&str> = text.trim_end().split('|').collect();
        (words[0].parse().unwrap(), words[2].to_string())
    }

    /// Waits until its CMD runs in full, and fails if anything of another leadership was alive at its start.
    pub(crate) fn started_alone(&self, world: &World) -> u64 {
        let (token, seen) = self.started(world);
        assert_eq!(seen, "", "{} started beside the CMD of another", self.agent);
        token
    }
}

/// The processes of the tree of a token.
pub(crate) fn tree_of(world: &World, token: u64) -> Vec<processes::Process> {
    let of_token = |process: &processes::Process| process.command.as_ref().is_some_and(|t| t.token == token);
    processes::of_commands(world.mark()).into_iter().filter(of_token).collect()
}
