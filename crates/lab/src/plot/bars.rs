//! Bars from left to right, in groups: a group's name is read without turning one's head, and each bar ends in its number.

use super::axis::Axis;
use super::legend::{self, Entry, Form, Ink};
use super::lines::{WIDTH, head};
use super::svg::{Anchor, Canvas, Setting, escape};

const EDGE: f64 = 10.0;
const BAR: f64 = 11.0;
const STEP: f64 = 14.0;
const BETWEEN: f64 = 12.0;

/// Groups of bars over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct BarPlot {
    /// What one sees, in a few words.
    pub title: String,
    /// What the length of a bar means.
    pub axis: Axis,
    /// What each bar of a group stands for.
    pub series: Vec<(String, Ink)>,
    /// From above to below.
    pub groups: Vec<BarGroup>,
}

/// Bars under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// The name.
    pub name: String,
    /// One for each series that has a number here.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Which of the plot's series.
    pub series: usize,
    /// How long; `None` if there is nothing to measure, which is not zero.
    pub value: Option<f64>,
}

impl BarPlot {
    /// The picture.
    pub fn svg(&self, setting: Setting) -> String {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let description = format!("{}: {}", self.axis.label, names.join(", "));
        let mut canvas = Canvas::new(WIDTH, &self.title, &description);
        let entries: Vec<Entry> = self
            .series
            .iter()
            .map(|(name, ink)| Entry { name: name.clone(), ink: *ink, form: Form::Box })
            .collect();
        let top = head(&mut canvas, &self.title, &entries) + 8.0;
        let bottom = top + self.height();
        let values = self.groups.iter().flat_map(|group| group.bars.iter()).filter_map(|bar| bar.value);
        let widest = self.groups.iter().map(|group| legend::width(&group.name)).fold(40.0, f64::max);
        let left = EDGE + widest.min(WIDTH / 3.0) + 8.0;
        // Room for the number at the end of the longest bar.
        let laid = self.axis.over(values, (left, WIDTH - EDGE - 52.0), 4);
        for &tick in &laid.ticks {
            let x = laid.at(tick);
            canvas.line("grid", (x, top), (x, bottom));
            canvas.text((x, bottom + 16.0), Anchor::Middle, "quiet", &self.axis.unit.tick(tick));
        }
        canvas.line("axis", (left, top), (left, bottom));
        canvas.text((WIDTH - EDGE, bottom + 34.0), Anchor::End, "quiet", &self.axis.label);
        let mut y = top + BETWEEN / 2.0;
        for group in &self.groups {
            let lines = legend::wrap(&group.name, WIDTH / 3.0);
            let middle = y + STEP * count(group.bars.len()) / 2.0 + 4.0 - 7.0 * (count(lines.len()) - 1.0);
            for (number, line) in lines.iter().enumerate() {
                canvas.text((left - 8.0, middle + 14.0 * count(number)), Anchor::End, "", line);
            }
            for bar in &group.bars {
                self.draw(&mut canvas, group, bar, (left, y), |value| laid.at(value));
                y += STEP;
            }
            y += BETWEEN;
        }
        canvas.finish(bottom + 44.0, setting)
    }

    fn height(&self) -> f64 {
        self.groups.iter().map(|group| STEP * count(group.bars.len()) + BETWEEN).sum()
    }

    fn draw(
        &self,
        canvas: &mut Canvas,
        group: &BarGroup,
        bar: &Bar,
        at: (f64, f64),
        place: impl Fn(f64) -> f64,
    ) {
        let Some((series, ink)) = self.series.get(bar.series) else { return };
        let (left, y) = at;
        let (value, end, text) = match bar.value.filter(|value| value.is_finite()) {
            Some(value) if self.axis.holds(value) => {
                (value.to_string(), place(value), self.axis.unit.write(value))
            }
            Some(value) => (value.to_string(), left, self.axis.unit.write(value)),
            None => ("none".to_string(), left, "–".to_string()),
        };
        let shown = format!("{}, {series}: {text}", group.name);
        canvas.raw(&format!(
            "<rect class=\"f{}\" fill=\"{}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\" \
             data-group=\"{}\" data-series=\"{}\" data-value=\"{value}\"><title>{}</title></rect>",
            ink.index(),
            ink.light(),
            // What is zero is drawn as a thin line: it was measured.
            (end - left).max(if bar.value.is_some() { 1.5 } else { 0.0 }),
            escape(&group.name),
            escape(series),
            escape(&shown),
        ));
        canvas.text((end.max(left) + 5.0, y + BAR - 1.0), Anchor::Start, "quiet", &text);
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(0.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Unit;

    #[test]
    fn each_bar_carries_its_number_and_nothing_is_not_zero() {
        let plot = BarPlot {
            title: "two leaders".to_string(),
            axis: Axis::linear("seconds", Unit::Seconds),
            series: vec![("bully".to_string(), Ink(0)), ("raft".to_string(), Ink(3))],
            groups: vec![
                BarGroup {
                    name: "partition".to_string(),
                    bars: vec![Bar { series: 0, value: Some(12.25) }, Bar { series: 1, value: Some(0.0) }],
                },
                BarGroup { name: "<pause>".to_string(), bars: vec![Bar { series: 1, value: None }] },
            ],
        };
        let svg = plot.svg(Setting::Page);
        assert!(svg.contains("data-group=\"partition\" data-series=\"bully\" data-value=\"12.25\""), "{svg}");
        assert!(svg.contains("data-series=\"raft\" data-value=\"0\""), "{svg}");
        assert!(
            svg.contains("data-group=\"&lt;pause&gt;\" data-series=\"raft\" data-value=\"none\""),
            "{svg}"
        );
        assert_eq!(svg.matches("<rect class=\"f").count(), 3 + 2, "two in the legend");
    }
}
