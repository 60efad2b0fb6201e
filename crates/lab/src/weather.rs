//! Networks drawn from a seed.

use baton_election::Span;
use baton_peer::Random;

use crate::network::Network;

/// A network on which messages take up to a fair part of a round, overtake each other, get lost, come twice, or come rounds later.
pub(crate) fn bad(round: Span, random: &mut Random) -> Network {
    let delay_min = part(round, 1, 500, random);
    let delay_max = delay_min.plus(part(round, 2, [20, 100, 400][draw(random, 3)], random));
    Network {
        delay_min,
        delay_max,
        late_permille: [0, 5, 50][draw(random, 3)],
        late_max: part(round, 100, 40_000, random),
        loss_permille: [0, 0, 10, 50, 200][draw(random, 5)],
        twice_permille: [0, 10, 100][draw(random, 3)],
    }
}

/// Between two shares of a round, in ten-thousandths.
fn part(round: Span, low: u64, high: u64, random: &mut Random) -> Span {
    let (low, high) = (round.scaled(low, 10_000), round.scaled(high, 10_000));
    Span::nanos(random.between(low.as_nanos(), high.as_nanos()))
}

fn draw(random: &mut Random, many: u64) -> usize {
    usize::try_from(random.below(many)).unwrap_or(0)
}
