//! A run as a picture: one lane per place, time to the right, leaderships as bars, messages as thin lines.

mod key;

use std::fmt::Write;

use baton_election::Span;

use crate::compare::seconds;
use crate::plot::{Axis, Unit, escape};
use crate::setup::Setup;
use crate::timeline::{EventKind, Timeline};
use key::{COLOURS, draw_legend, style};

/// The most messages that are drawn; of more, every so-manieth.
const MAX_MESSAGES: usize = 4_000;
const WIDTH: f64 = 1_600.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 64.0;
const LANE: f64 = 46.0;
/// Numbers beside the axis of time, about.
const TICKS: u32 = 12;

/// Where things stand.
struct PictureLayout {
    end: u64,
    lanes: usize,
}

impl PictureLayout {
    #[expect(clippy::cast_precision_loss, reason = "a pixel is coarser")]
    fn x(&self, at: u64) -> f64 {
        LEFT + (WIDTH - LEFT - 20.0) * (at.min(self.end) as f64 / self.end.max(1) as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "lanes are few")]
    fn y(&self, lane: usize) -> f64 {
        TOP + LANE * (lane as f64 + 0.5)
    }

    #[expect(clippy::cast_precision_loss, reason = "lanes are few")]
    fn height(&self) -> f64 {
        TOP + LANE * self.lanes as f64
    }
}

/// Something with a beginning and an end.
struct Bar {
    place: u8,
    from: u64,
    until: u64,
    number: u64,
    term: u64,
}

/// Draws a run as an SVG.
pub fn svg(setup: &Setup, timeline: &Timeline) -> String {
    let end = timeline.entries.last().map_or(1, |entry| entry.at.as_nanos());
    let frame = PictureLayout { end, lanes: setup.places() };
    let mut out = String::new();
    let height = frame.height() + 40.0;
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" class="run" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">
<style>{}</style>
<rect class="paper" fill="#ffffff" width="100%" height="100%"/>
<text class="ink" x="{LEFT}" y="22" font-size="15">{}, seed {}: {} members, {} simulated</text>
"##,
        style(),
        setup.algorithm,
        setup.seed,
        setup.members,
        Span::nanos(end).whole_millis()
    );
    draw_legend(&mut out);
    draw_cuts(&mut out, &frame, timeline);
    draw_lanes(&mut out, &frame);
    draw_absences(&mut out, &frame, timeline);
    draw_messages(&mut out, &frame, timeline);
    draw_leaderships(&mut out, &frame, timeline);
    draw_faults(&mut out, &frame, timeline);
    out.push_str("</svg>\n");
    out
}

fn draw_lanes(out: &mut String, frame: &PictureLayout) {
    for lane in 0..frame.lanes {
        let (y, number) = (frame.y(lane), lane + 1);
        let right = WIDTH - 20.0;
        let _ = writeln!(
            out,
            r#"<line class="lane" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/><text class="ink" x="{}" y="{}" text-anchor="end">{number}</text>"#,
            LEFT - 10.0,
            y + 4.0
        );
    }
    let axis = Axis::linear("time", Unit::Seconds);
    let end = seconds(Span::nanos(frame.end));
    for (at, label) in axis.ticks_until(end, TICKS) {
        let x = LEFT + (WIDTH - LEFT - 20.0) * at / end.max(f64::MIN_POSITIVE);
        let y = frame.height() + 18.0;
        let _ = writeln!(
            out,
            r#"<line class="grid" x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{:.1}"/><text class="quiet" x="{x:.1}" y="{y:.1}" text-anchor="middle">{label}</text>"#,
            frame.height()
        );
    }
}

/// When not all links were open.
fn draw_cuts(out: &mut String, frame: &PictureLayout, timeline: &Timeline) {
    let mut cut_at = None;
    let changes = timeline.entries.iter().filter_map(|entry| {
        if let EventKind::Links { whole } = entry.event { Some((entry.at.as_nanos(), whole)) } else { None }
    });
    for (at, whole) in changes.chain([(frame.end, true)]) {
        match (whole, cut_at) {
            (false, None) => cut_at = Some(at),
            (true, Some(from)) => {
                let (x, height) = (frame.x(from), frame.height() - TOP);
                let width = (frame.x(at) - x).max(0.5);
                let _ = writeln!(
                    out,
                    r#"<rect class="cut" x="{x:.1}" y="{TOP}" width="{width:.1}" height="{height:.1}"/>"#
                );
                cut_at = None;
            }
            (false, Some(_)) | (true, None) => {}
        }
    }
}

/// When a place was down, or stood still.
fn draw_absences(out: &mut String, frame: &PictureLayout, timeline: &Timeline) {
    for place in 0..frame.lanes {
        let (mut down, mut paused) = (None, None);
        let mine = timeline.entries.iter().filter(|entry| entry.place.map(usize::from) == Some(place));
        for entry in mine {
            let at = entry.at.as_nanos();
            match &entry.event {
                EventKind::Crashed => {
                    // Who dies in a pause does not go on.
                    close(out, frame, place, &mut paused, at, "still");
                    down = Some(at);
                }
                EventKind::Started(_) => close(out, frame, place, &mut down, at, "down"),
                EventKind::Paused => paused = Some(at),
                EventKind::Resumed => close(out, frame, place, &mut paused, at, "still"),
                _ => {}
            }
        }
        close(out, frame, place, &mut down, frame.end, "down");
        close(out, frame, place, &mut paused, frame.end, "still");
    }
}

fn close(
    out: &mut String,
    frame: &PictureLayout,
    place: usize,
    from: &mut Option<u64>,
    to: u64,
    class: &str,
) {
    let Some(from) = from.take() else { return };
    let (x, y) = (frame.x(from), frame.y(place) - 12.0);
    let width = (frame.x(to) - x).max(1.0);
    let _ = writeln!(
        out,
        r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="24" opacity="0.7"/>"#
    );
}

fn draw_messages(out: &mut String, frame: &PictureLayout, timeline: &Timeline) {
    let sent = timeline.entries.iter().filter(|entry| matches!(entry.event, EventKind::Sent { .. }));
    let step = (sent.clone().count() / MAX_MESSAGES) + 1;
    for entry in sent.step_by(step) {
        let (EventKind::Sent { to, arrives, kind, .. }, Some(from)) = (&entry.event, entry.place) else {
            continue;
        };
        let (from, to, at) = (usize::from(from), usize::from(*to), entry.at.as_nanos());
        if to >= frame.lanes {
            continue;
        }
        let arrives_at = arrives.map_or(at, |at| at.as_nanos());
        let (y1, mut y2) = (frame.y(from), frame.y(to));
        if arrives.is_none() {
            // What is lost ends on the way.
            y2 = y1 + (y2 - y1) * 0.3;
        }
        let class = if arrives.is_none() { "lost" } else { "message" };
        let _ = writeln!(
            out,
            r#"<line class="{class}" x1="{:.1}" y1="{y1:.1}" x2="{:.1}" y2="{y2:.1}" stroke-width="0.4" opacity="0.45"><title>{kind}</title></line>"#,
            frame.x(at),
            frame.x(arrives_at)
        );
    }
}

fn draw_leaderships(out: &mut String, frame: &PictureLayout, timeline: &Timeline) {
    let mut bars: Vec<Bar> = Vec::new();
    for entry in &timeline.entries {
        let at = entry.at.as_nanos();
        match &entry.event {
            EventKind::Leads { number, term, until } => bars.push(Bar {
                place: entry.place.unwrap_or(0),
                from: at,
                until: until.map_or(u64::MAX, |until| until.as_nanos()),
                number: *number,
                term: *term,
            }),
            EventKind::Extended { number, until } => set_end(&mut bars, *number, until.as_nanos()),
            EventKind::Ended { number } => set_end(&mut bars, *number, at),
            _ => {}
        }
    }
    for bar in bars {
        let (x, y) = (frame.x(bar.from), frame.y(usize::from(bar.place)) - 9.0);
        let width = (frame.x(bar.until) - x).max(1.5);
        let (class, ..) = COLOURS[usize::from(bar.place) % COLOURS.len()];
        let _ = writeln!(
            out,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="18" rx="3"><title>term {}, work {}</title></rect>"#,
            bar.term, bar.number
        );
        if width > 26.0 {
            let _ = writeln!(
                out,
                r##"<text x="{:.1}" y="{:.1}" fill="#ffffff" font-size="11">{}</text>"##,
                x + 4.0,
                y + 13.0,
                bar.term
            );
        }
    }
}

fn set_end(bars: &mut [Bar], number: u64, until: u64) {
    if let Some(bar) = bars.iter_mut().rev().find(|bar| bar.number == number) {
        bar.until = until;
    }
}

fn draw_faults(out: &mut String, frame: &PictureLayout, timeline: &Timeline) {
    for entry in &timeline.entries {
        let (class, width, text) = match &entry.event {
            EventKind::Fault(text) => ("fault", 0.8, text.as_str()),
            EventKind::Healed => ("healed", 2.0, "all faults have ended"),
            EventKind::Broken(text) => ("broken", 2.5, text.as_str()),
            _ => continue,
        };
        let x = frame.x(entry.at.as_nanos());
        let _ = writeln!(
            out,
            r#"<line class="{class}" x1="{x:.1}" y1="{:.1}" x2="{x:.1}" y2="{:.1}" stroke-width="{width}" stroke-dasharray="2 3"><title>{}</title></line>"#,
            TOP - 8.0,
            frame.height() + 4.0,
            escape(text)
        );
    }
}

#[cfg(test)]
mod tests {
    use baton_peer::Timing;

    use super::*;
    use crate::Elector;

    fn seen(whats: &[(u64, EventKind)]) -> String {
        let mut timeline = Timeline::default();
        for (second, what) in whats {
            timeline.push(second * 1_000_000_000, Some(0), what.clone());
        }
        svg(&Setup::quiet(Elector::BULLY, 1, Timing::AGENTS), &timeline)
    }

    #[test]
    fn who_dies_in_a_pause_is_down_and_no_longer_paused() {
        let picture = seen(&[
            (10, EventKind::Paused),
            (20, EventKind::Crashed),
            (30, EventKind::Started("again")),
            (200, EventKind::Healed),
        ]);
        // From 70 to 1580 for 200 s: the pause is 75 pixels wide, and so is the time that it was down.
        for (class, x) in [("still", "145.5"), ("down", "221.0")] {
            let bar = format!(r#"<rect class="{class}" x="{x}" y="75.0" width="75.5""#);
            assert!(picture.contains(&bar), "{bar}\n{picture}");
        }
    }

    #[test]
    fn time_is_written_in_round_numbers_and_what_is_drawn_stands_in_the_legend() {
        let picture = seen(&[(1, EventKind::Paused), (215, EventKind::Healed)]);
        for label in [">30s<", ">1min<", ">3.5min<"] {
            assert!(picture.contains(label), "{label}\n{picture}");
        }
        let drawn = ["p0", "down", "still", "cut", "message", "lost", "fault", "healed", "broken"];
        let legend = &picture[..picture.find(">1<").unwrap_or(picture.len())];
        for class in drawn {
            assert!(legend.contains(&format!(r#"class="{class}""#)), "{class}");
        }
        assert!(picture.contains("prefers-color-scheme:dark"));
    }
}
