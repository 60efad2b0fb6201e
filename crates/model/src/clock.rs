//! Clocks that drift: each runs at a constant rate near that of true time.

use std::fmt;

use baton_election::{Moment, Span};

/// One step of true time.
pub(crate) const TICK: Span = Span::secs(1);

/// How fast a clock runs, in thousandths of true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate(pub u16);

impl Rate {
    /// What the clock shows at a tick of true time.
    pub(crate) fn at(self, tick: u8) -> Moment {
        Moment::default() + self.between(0, tick)
    }

    /// What the clock measures between two ticks of true time.
    pub(crate) fn between(self, from: u8, to: u8) -> Span {
        TICK.scaled(u64::from(to.saturating_sub(from)) * u64::from(self.0), 1_000)
    }
}

/// The clocks of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clocks {
    /// Of the agents.
    pub agents: [Rate; 2],
    /// Of the store.
    pub store: Rate,
}

impl Clocks {
    /// Every way in which three clocks can have one of these rates.
    pub fn all(rates: &[Rate]) -> Vec<Clocks> {
        let mut all = Vec::new();
        for a in rates {
            for b in rates {
                for store in rates {
                    all.push(Clocks { agents: [*a, *b], store: *store });
                }
            }
        }
        all
    }

    /// The same beside a store that has no clock.
    pub fn of_agents(rates: &[Rate]) -> Vec<Clocks> {
        let all = Clocks::all(rates).into_iter();
        all.filter(|clocks| Some(&clocks.store) == rates.first()).collect()
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.agents.map(|rate| rate.0);
        write!(f, "clocks in ‰ of true time: a {a}, b {b}, store {}", self.store.0)
    }
}
