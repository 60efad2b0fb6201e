//! An operator who acts without the others that a policy asks for.

use clap::Args;

/// Where a policy asks for several operators.
#[derive(Args, Debug)]
pub(crate) struct BreakGlass {
    /// Act without the other operators that the policy requires; needs --reason, and the audit log keeps it for ever
    #[arg(long)]
    break_glass: bool,
}

impl BreakGlass {
    /// The reason to act alone, if that is wanted.
    pub(crate) fn reason<'a>(&self, reason: &'a str) -> Option<&'a str> {
        self.break_glass.then_some(reason)
    }
}

/// The same, of an act that takes no reason otherwise.
#[derive(Args, Debug)]
pub(crate) struct BreakGlassWithReason {
    /// The reason for --break-glass
    #[arg(
        long,
        value_name = "TEXT",
        requires = "break_glass",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

impl BreakGlassWithReason {
    /// The reason to act alone, if that is wanted.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.break_glass.reason(&self.reason)
    }
}
