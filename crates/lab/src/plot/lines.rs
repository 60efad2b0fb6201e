//! Curves over an axis.

use std::fmt::Write;

use super::axis::{Axis, PlacedAxis};
use super::legend::{self, Entry, Form, Ink};
use super::svg::{Anchor, Canvas, Setting, escape};

pub(super) const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 230.0;
const EDGE: f64 = 10.0;

/// Curves in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePlot {
    /// What one sees, in a few words.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From below to above.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// Points that are pointed out.
    pub marks: Vec<PointLabel>,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// Its colour and form.
    pub ink: Ink,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// A line with a mark at each point: these were measured.
    Measured,
    /// A plain line: these were computed.
    Computed,
    /// Dashes: something to compare with.
    Reference,
}

/// A point that is pointed out.
#[derive(Debug, Clone, PartialEq)]
pub struct PointLabel {
    /// What it is.
    pub label: String,
    /// Of which colour.
    pub ink: Ink,
    /// The coordinates of the point.
    pub at: (f64, f64),
}

impl LinePlot {
    /// The picture.
    pub fn svg(&self, setting: Setting) -> String {
        let mut canvas = Canvas::new(WIDTH, &self.title, &self.description());
        let top = head(&mut canvas, &self.title, &self.entries());
        let frame = self.frame(top);
        draw_frame(&mut canvas, self, &frame);
        for series in &self.series {
            draw_series(&mut canvas, series, self, &frame);
        }
        draw_marks(&mut canvas, self, &frame);
        canvas.finish(frame.y.pixels.0 + 42.0, setting)
    }

    fn description(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        format!("{} over {}: {}", self.y.label, self.x.label, names.join(", "))
    }

    fn entries(&self) -> Vec<Entry> {
        let form = |stroke| match stroke {
            Stroke::Measured => Form::Line,
            Stroke::Computed => Form::Line,
            Stroke::Reference => Form::Dashes,
        };
        let entry =
            |series: &Series| Entry { name: series.name.clone(), ink: series.ink, form: form(series.stroke) };
        self.series.iter().map(entry).collect()
    }

    fn held(&self, point: (f64, f64)) -> bool {
        self.x.holds(point.0) && self.y.holds(point.1)
    }

    fn frame(&self, top: f64) -> PlotArea {
        let points = || {
            let series = self.series.iter().flat_map(|series| series.points.iter().copied());
            series.chain(self.marks.iter().map(|mark| mark.at)).filter(|&point| self.held(point))
        };
        let bottom = top + 20.0 + HEIGHT;
        let y = self.y.over(points().map(|point| point.1), (bottom, top + 24.0), 6);
        let widest = y.ticks.iter().map(|&tick| legend::width(&self.y.unit.tick(tick))).fold(0.0, f64::max);
        let left = EDGE + widest + 8.0;
        let x = self.x.over(points().map(|point| point.0), (left, WIDTH - EDGE - 14.0), 6);
        PlotArea { x, y }
    }
}

struct PlotArea {
    x: PlacedAxis,
    y: PlacedAxis,
}

/// Draws title and legend, and says where they end.
pub(super) fn head(canvas: &mut Canvas, title: &str, entries: &[Entry]) -> f64 {
    let mut y = EDGE;
    // The title's letters are a quarter wider than those that are measured.
    for line in legend::wrap(title, (WIDTH - 2.0 * EDGE) / 1.25) {
        y += 18.0;
        canvas.text((EDGE, y - 4.0), Anchor::Start, "title", &line);
    }
    legend::draw(canvas, entries, (EDGE, y + 4.0), WIDTH - EDGE)
}

fn draw_frame(canvas: &mut Canvas, plot: &LinePlot, frame: &PlotArea) {
    let ((left, right), (bottom, top)) = (frame.x.pixels, frame.y.pixels);
    canvas.text((EDGE, top - 10.0), Anchor::Start, "quiet", &plot.y.label);
    for &tick in &frame.y.ticks {
        let y = frame.y.at(tick);
        canvas.line("grid", (left, y), (right, y));
        canvas.text((left - 6.0, y + 4.0), Anchor::End, "quiet", &plot.y.unit.tick(tick));
    }
    let mut taken = f64::NEG_INFINITY;
    for &tick in &frame.x.ticks {
        let (x, text) = (frame.x.at(tick), plot.x.unit.tick(tick));
        canvas.line("grid", (x, bottom), (x, top));
        let half = legend::width(&text) / 2.0;
        // A number that would touch its neighbour is left out; its line stays.
        if x - half > taken + 4.0 {
            canvas.text((x, bottom + 16.0), Anchor::Middle, "quiet", &text);
            taken = x + half;
        }
    }
    canvas.line("axis", (left, bottom), (right, bottom));
    canvas.line("axis", (left, bottom), (left, top));
    canvas.text((right, bottom + 34.0), Anchor::End, "quiet", &plot.x.label);
}

fn draw_series(canvas: &mut Canvas, series: &Series, plot: &LinePlot, frame: &PlotArea) {
    let points: Vec<(f64, f64)> = series.points.iter().copied().filter(|&point| plot.held(point)).collect();
    let (index, light) = (series.ink.index(), series.ink.light());
    let mut path = String::new();
    for (number, &(x, y)) in points.iter().enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", frame.x.at(x), frame.y.at(y));
    }
    let dashes = if series.stroke == Stroke::Reference { " stroke-dasharray=\"4 3\"" } else { "" };
    canvas.raw(&format!(
        "<path class=\"s{index}\" fill=\"none\" stroke=\"{light}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dashes} d=\"{path}\"/>"
    ));
    for (number, &(x, y)) in points.iter().enumerate() {
        let (at_x, at_y) = (frame.x.at(x), frame.y.at(y));
        let every = points.len().div_ceil(6).max(1);
        let shape = match series.stroke {
            Stroke::Measured => series.ink.mark(at_x, at_y),
            // A mark here and there shows the form of the curve; the other points carry their numbers unseen.
            Stroke::Computed if number % every == 0 => series.ink.mark(at_x, at_y),
            Stroke::Computed | Stroke::Reference => unseen(at_x, at_y),
        };
        let shown = format!("{}: {} at {}", series.name, plot.y.unit.write(y), plot.x.unit.write(x));
        canvas.raw(&format!(
            "{shape} data-series=\"{}\" data-x=\"{x}\" data-y=\"{y}\"><title>{}</title>{}",
            escape(&series.name),
            escape(&shown),
            closing(&shape),
        ));
    }
}

/// A place to point at.
fn unseen(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill-opacity=\"0\"")
}

fn closing(shape: &str) -> String {
    let name: String = shape.chars().skip(1).take_while(char::is_ascii_alphabetic).collect();
    format!("</{name}>")
}

fn draw_marks(canvas: &mut Canvas, plot: &LinePlot, frame: &PlotArea) {
    let marks: Vec<&PointLabel> = plot.marks.iter().filter(|mark| plot.held(mark.at)).collect();
    let ((left, right), (bottom, top)) = (frame.x.pixels, frame.y.pixels);
    let fits = |mark: &PointLabel| frame.x.at(mark.at.0) + 12.0 + legend::width(&mark.label) <= right;
    // On the right above its ring, and above those that come after it; on the left below it: curves fall, and few run through a label there.
    let lift = |place: usize| u32::try_from(marks.len() - place).map_or(0.0, f64::from) * 15.0;
    let wish = |(place, mark): (usize, &&PointLabel)| {
        let shift = if fits(mark) { -6.0 - lift(place) } else { 14.0 };
        frame.y.at(mark.at.1) + shift
    };
    let wishes: Vec<f64> = marks.iter().enumerate().map(wish).collect();
    let places = legend::spread(&wishes, 15.0, (top + 12.0, bottom - 4.0));
    for (mark, &label_y) in marks.iter().zip(&places) {
        let (x, y) = (frame.x.at(mark.at.0), frame.y.at(mark.at.1));
        let (index, light) = (mark.ink.index(), mark.ink.light());
        canvas.raw(&format!(
            "<circle class=\"s{index} key\" fill=\"none\" stroke=\"{light}\" stroke-width=\"2\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\" \
             data-mark=\"{}\" data-x=\"{}\" data-y=\"{}\"/>",
            escape(&mark.label),
            mark.at.0,
            mark.at.1
        ));
        let (label_x, anchor) =
            if fits(mark) { (x + 12.0, Anchor::Start) } else { ((x - 12.0).max(left), Anchor::End) };
        canvas.text((label_x, label_y + 4.0), anchor, &format!("f{index} halo"), &mark.label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Unit;

    fn plot(points: Vec<(f64, f64)>) -> LinePlot {
        let series = Series { name: "a & b".to_string(), ink: Ink(0), stroke: Stroke::Measured, points };
        LinePlot {
            title: "a title".to_string(),
            x: Axis::log("members", Unit::Count),
            y: Axis::linear("messages", Unit::Count),
            series: vec![series],
            marks: vec![],
        }
    }

    #[test]
    fn each_point_carries_its_numbers() {
        let svg = plot(vec![(3.0, 0.1), (9.0, 12.5)]).svg(Setting::Page);
        assert!(svg.contains("data-series=\"a &amp; b\" data-x=\"3\" data-y=\"0.1\""), "{svg}");
        assert!(svg.contains("data-x=\"9\" data-y=\"12.5\""), "{svg}");
        assert!(!svg.contains("<style>"));
        assert!(plot(vec![]).svg(Setting::Alone).contains("<style>"));
    }

    #[test]
    fn points_without_a_place_are_left_out() {
        let svg =
            plot(vec![(0.0, 1.0), (f64::NAN, 1.0), (2.0, f64::INFINITY), (2.0, 7.0)]).svg(Setting::Page);
        assert_eq!(svg.matches("data-x").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
