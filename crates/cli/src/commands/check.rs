//! `baton check`: is this token current?

use baton::election::document::Phase;
use baton::election::{ElectionName, Epoch, Refusal};
use baton::store::Access;
use baton::{Renewal, View};
use clap::Args;
use serde_json::json;

use super::renew::renew;
use crate::context::{AgentOption, Context, Global, current_token};
use crate::exit::Speaker;
use crate::output::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton check refactor-auth --token 3 && deploy     exits 0 or 5
  baton check refactor-auth                         under baton run: its own token
  baton check refactor-auth --serving               also require the phase serving

Between the check and the act the token can become stale: baton fence RESOURCE -- CMD closes that gap.")]
pub(crate) struct Check {
    /// The election
    election: ElectionName,
    /// The token [default: $BATON_TOKEN_FILE or $BATON_TOKEN]
    #[arg(long, value_name = "N")]
    token: Option<Epoch>,
    #[command(flatten)]
    who: AgentOption,
    /// Refuse also while the leader is synchronising or draining
    #[arg(long)]
    serving: bool,
}

impl Check {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let token = token_or_inherited(self.token, Some(&self.election))?;
        let mut context = Context::open(global, Access::Read).await?;
        let mine = context.lease(&self.election, &self.who).ok().filter(|held| held.epoch == token);
        let checked = context.coordinator.check(&self.election, token).await;
        context.remember();
        let view = checked.map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
        if self.serving {
            serves(&view, &self.election)?;
        }
        if let Some(held) = mine {
            // The holder's own check is a sign of life.
            context = Context::open(global, Access::Write).await?;
            let renewal = Renewal::new(held.epoch, held.credential);
            let renewed = renew(&context, &self.election, &held, &renewal).await;
            context.remember();
            renewed?;
        }
        let phase = view.leader().map(|leader| leader.phase).filter(|_| !view.native);
        let leader = view.leader().map(|leader| leader.agent.clone());
        let data = json!({
            "outcome": "current", "election": self.election, "token": token, "leader": leader, "phase": phase,
        });
        let whose = leader.map_or(String::new(), |leader| format!(", {leader}'s"));
        let text = format!("token {token} of {} is current{whose}", self.election);
        Screen::new(data, text).print(context.output)
    }
}

/// Refuses while the leader does not serve.
fn serves(view: &View, election: &ElectionName) -> Result<(), Failure> {
    let Some(leader) = view.leader().filter(|leader| leader.phase != Phase::Serving) else { return Ok(()) };
    let hint = match leader.phase {
        Phase::Synchronising => {
            format!("it serves once it has taken on what was left: baton handover {election}")
        }
        Phase::Draining => "it is stopping its work: wait for its successor".to_string(),
        Phase::Serving => String::new(),
    };
    let refusal = Refusal::out_of_turn(format!("{} is {}", leader.agent, leader.phase), hint);
    Err(Failure::from_error(&refusal.into(), Speaker::Guard))
}

/// The token that was given, else that of the surrounding `baton run`.
pub(crate) fn token_or_inherited(
    given: Option<Epoch>,
    election: Option<&ElectionName>,
) -> Result<Epoch, Failure> {
    match given {
        Some(token) => Ok(token),
        None => current_token(election)?.ok_or_else(|| {
            Failure::usage(
                "no token is given",
                "say which: --token N, or run under the `baton run` of this election",
            )
        }),
    }
}
