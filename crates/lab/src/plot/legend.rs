//! What stands for what: colours with their forms, and text that keeps its distance.

use super::svg::{Anchor, Canvas, INKS};

/// One of eight colours, each with a form of its own for those who cannot tell colours apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub usize);

impl Ink {
    pub(super) fn index(self) -> usize {
        self.0 % INKS.len()
    }

    pub(super) fn light(self) -> &'static str {
        INKS[self.index()].0
    }

    /// The mark of a point, about six pixels wide.
    pub(super) fn mark(self, x: f64, y: f64) -> String {
        let shape = match self.index() % 4 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\""),
            1 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6.4\" height=\"6.4\"", x - 3.2, y - 3.2),
            2 => polygon(&[(x, y - 4.2), (x + 4.0, y + 3.0), (x - 4.0, y + 3.0)]),
            _ => polygon(&[(x, y - 4.4), (x + 4.4, y), (x, y + 4.4), (x - 4.4, y)]),
        };
        // The second half of the colours has hollow marks.
        if self.index() < 4 {
            format!("{shape} class=\"f{}\" fill=\"{}\"", self.index(), self.light())
        } else {
            let (index, light) = (self.index(), self.light());
            format!("{shape} class=\"s{index} paper\" fill=\"#fff\" stroke=\"{light}\" stroke-width=\"1.6\"")
        }
    }
}

fn polygon(corners: &[(f64, f64)]) -> String {
    let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!("<polygon points=\"{}\"", corners.join(" "))
}

/// How wide a text of 12 pixels is at most, as fonts go.
pub(crate) fn width(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '(' | ')' | '[' | ']' | ' ' | 't'
        | 'f' | 'r' => 4.6,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 11.2,
        c if c.is_ascii() => 7.5,
        _ => 9.0,
    };
    text.chars().map(width).sum()
}

/// The lines into which a text is broken so that none is wider, at spaces.
pub(super) fn wrap(text: &str, widest: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| width(line) + width(" ") + width(word) <= widest) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_string()),
        }
    }
    lines
}

/// What an entry of a legend looks like.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) ink: Ink,
    pub(super) form: Form,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Box,
    Line,
    Dashes,
}

const KEY: f64 = 24.0;
const ROW: f64 = 18.0;

/// Draws the legend from `top`, in as many rows as it needs, and says where it ends.
pub(super) fn draw(canvas: &mut Canvas, entries: &[Entry], from: (f64, f64), right: f64) -> f64 {
    let (left, mut y) = from;
    let mut x = left;
    for entry in entries {
        let needs = KEY + width(&entry.name) + 14.0;
        if x > left && x + needs > right {
            (x, y) = (left, y + ROW);
        }
        let (index, light) = (entry.ink.index(), entry.ink.light());
        let middle = y + 8.0;
        match entry.form {
            Form::Box => canvas.raw(&format!(
                "<rect class=\"f{index}\" fill=\"{light}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"10\" rx=\"2\"/>",
                y + 3.0
            )),
            Form::Line | Form::Dashes => {
                let dashes = if entry.form == Form::Dashes { " stroke-dasharray=\"4 3\"" } else { "" };
                canvas.raw(&format!(
                    "<path class=\"s{index} key\" fill=\"none\" stroke=\"{light}\" stroke-width=\"2\"{dashes} d=\"M{x:.1} {middle:.1}h18\"/>"
                ));
                if entry.form == Form::Line {
                    canvas.raw(&format!("{}/>", entry.ink.mark(x + 9.0, middle)));
                }
            }
        }
        canvas.text((x + KEY, y + 12.0), Anchor::Start, "", &entry.name);
        x += needs;
    }
    if entries.is_empty() { y } else { y + ROW }
}

/// Moves places apart so that neighbours are at least `gap` from each other, as little as it can, between `low` and `high`.
///
/// The answer is in the order of the wishes. Where there is no room for all, they stand as close as they must.
pub(super) fn spread(wishes: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|&a, &b| wishes[a].total_cmp(&wishes[b]).then(a.cmp(&b)));
    let between = u32::try_from(wishes.len().saturating_sub(1)).map_or(1.0, f64::from);
    let gap = gap.min((high - low) / between.max(1.0));
    let mut places = vec![0.0; wishes.len()];
    let mut floor = low;
    for &index in &order {
        places[index] = wishes[index].max(floor);
        floor = places[index] + gap;
    }
    let mut ceiling = high;
    for &index in order.iter().rev() {
        places[index] = places[index].min(ceiling);
        ceiling = places[index] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_distance_and_stay_inside() {
        assert_eq!(spread(&[10.0, 50.0], 12.0, (0.0, 100.0)), [10.0, 50.0]);
        assert_eq!(spread(&[50.0, 50.0, 10.0], 12.0, (0.0, 100.0)), [50.0, 62.0, 10.0]);
        assert_eq!(spread(&[98.0, 99.0, 100.0], 12.0, (0.0, 100.0)), [76.0, 88.0, 100.0]);
        assert_eq!(spread(&[5.0; 5], 50.0, (0.0, 100.0)), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert!(spread(&[], 1.0, (0.0, 1.0)).is_empty());
    }

    #[test]
    fn long_names_are_broken_at_spaces() {
        assert_eq!(wrap("a lease on a stamped store", 90.0), ["a lease on a", "stamped store"]);
        assert_eq!(wrap("indivisiblewordthatislong", 10.0), ["indivisiblewordthatislong"]);
        assert!(wrap("", 10.0).is_empty());
    }
}
