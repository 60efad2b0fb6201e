//! A run as a picture: one lane per place, time to the right, leaderships as bars, messages as thin lines.

use std::fmt::Write;

use baton_election::Span;

use crate::setup::Setup;
use crate::timeline::{Timeline, What};

/// The most messages that are drawn; of more, every so-manieth.
const MAX_MESSAGES: usize = 4_000;
const WIDTH: f64 = 1_600.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const LANE: f64 = 46.0;
const COLOURS: [&str; 8] =
    ["#2a6fdb", "#d9822b", "#2f9e6e", "#9b4dca", "#c23b5a", "#1f8a9e", "#8a6d3b", "#5a6b7b"];

/// Where things stand.
struct Frame {
    end: u64,
    lanes: usize,
}

impl Frame {
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
    let frame = Frame { end, lanes: setup.places() };
    let mut out = String::new();
    let height = frame.height() + 60.0;
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{LEFT}" y="22" font-size="15" fill="#1c2733">{}, seed {}: {} members, {} simulated</text>
<text x="{LEFT}" y="40" fill="#5a6b7b">bars: leaderships with their tokens · red: down · grey: paused · yellow: links are cut · dotted: a fault · thin lines: messages</text>
"##,
        setup.algorithm,
        setup.seed,
        setup.members,
        Span::nanos(end).whole_millis()
    );
    draw_cuts(&mut out, &frame, timeline);
    draw_lanes(&mut out, &frame);
    draw_absences(&mut out, &frame, timeline);
    draw_messages(&mut out, &frame, timeline);
    draw_leaderships(&mut out, &frame, timeline);
    draw_faults(&mut out, &frame, timeline);
    out.push_str("</svg>\n");
    out
}

fn draw_lanes(out: &mut String, frame: &Frame) {
    for lane in 0..frame.lanes {
        let (y, number) = (frame.y(lane), lane + 1);
        let right = WIDTH - 20.0;
        let _ = writeln!(
            out,
            r##"<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="#d5dce3"/><text x="{}" y="{}" text-anchor="end" fill="#1c2733">{number}</text>"##,
            LEFT - 10.0,
            y + 4.0
        );
    }
    for tick in 0..=10_u64 {
        let at = u64::try_from(u128::from(frame.end) * u128::from(tick) / 10).unwrap_or(0);
        let (x, y) = (frame.x(at), frame.height() + 18.0);
        let label = if frame.end > 20_000_000_000 {
            format!("{}s", at / 1_000_000_000)
        } else {
            format!("{}ms", at / 1_000_000)
        };
        let _ = writeln!(
            out,
            r##"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{:.1}" stroke="#eef1f4"/><text x="{x:.1}" y="{y:.1}" text-anchor="middle" fill="#5a6b7b">{label}</text>"##,
            frame.height()
        );
    }
}

/// When not all links were open.
fn draw_cuts(out: &mut String, frame: &Frame, timeline: &Timeline) {
    let mut cut_at = None;
    let changes = timeline.entries.iter().filter_map(|entry| {
        if let What::Links { whole } = entry.what { Some((entry.at.as_nanos(), whole)) } else { None }
    });
    for (at, whole) in changes.chain([(frame.end, true)]) {
        match (whole, cut_at) {
            (false, None) => cut_at = Some(at),
            (true, Some(from)) => {
                let (x, height) = (frame.x(from), frame.height() - TOP);
                let width = (frame.x(at) - x).max(0.5);
                let _ = writeln!(
                    out,
                    r##"<rect x="{x:.1}" y="{TOP}" width="{width:.1}" height="{height:.1}" fill="#fff3c4"/>"##
                );
                cut_at = None;
            }
            (false, Some(_)) | (true, None) => {}
        }
    }
}

/// When a place was down, or stood still.
fn draw_absences(out: &mut String, frame: &Frame, timeline: &Timeline) {
    for place in 0..frame.lanes {
        let (mut down, mut paused) = (None, None);
        let mine = timeline.entries.iter().filter(|entry| entry.place.map(usize::from) == Some(place));
        for entry in mine {
            let at = entry.at.as_nanos();
            match &entry.what {
                What::Crashed => down = Some(at),
                What::Started(_) => close(out, frame, place, &mut down, at, "#e8a0a0"),
                What::Paused => paused = Some(at),
                What::Resumed => close(out, frame, place, &mut paused, at, "#c9ced4"),
                What::Fault(_)
                | What::Links { .. }
                | What::Sent { .. }
                | What::Received { .. }
                | What::Kept(_)
                | What::Told(_)
                | What::Leads { .. }
                | What::Extended { .. }
                | What::Ended { .. }
                | What::Wrote { .. }
                | What::Healed
                | What::Broken(_) => {}
            }
        }
        close(out, frame, place, &mut down, frame.end, "#e8a0a0");
        close(out, frame, place, &mut paused, frame.end, "#c9ced4");
    }
}

fn close(out: &mut String, frame: &Frame, place: usize, from: &mut Option<u64>, to: u64, colour: &str) {
    let Some(from) = from.take() else { return };
    let (x, y) = (frame.x(from), frame.y(place) - 12.0);
    let width = (frame.x(to) - x).max(1.0);
    let _ = writeln!(
        out,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="24" fill="{colour}" opacity="0.7"/>"#
    );
}

fn draw_messages(out: &mut String, frame: &Frame, timeline: &Timeline) {
    let sent = timeline.entries.iter().filter(|entry| matches!(entry.what, What::Sent { .. }));
    let step = (sent.clone().count() / MAX_MESSAGES) + 1;
    for entry in sent.step_by(step) {
        let (What::Sent { to, arrives, kind, .. }, Some(from)) = (&entry.what, entry.place) else { continue };
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
        let colour = if arrives.is_none() { "#c23b5a" } else { "#7f8c99" };
        let _ = writeln!(
            out,
            r#"<line x1="{:.1}" y1="{y1:.1}" x2="{:.1}" y2="{y2:.1}" stroke="{colour}" stroke-width="0.4" opacity="0.45"><title>{kind}</title></line>"#,
            frame.x(at),
            frame.x(arrives_at)
        );
    }
}

fn draw_leaderships(out: &mut String, frame: &Frame, timeline: &Timeline) {
    let mut bars: Vec<Bar> = Vec::new();
    for entry in &timeline.entries {
        let at = entry.at.as_nanos();
        match &entry.what {
            What::Leads { number, term, until } => bars.push(Bar {
                place: entry.place.unwrap_or(0),
                from: at,
                until: until.map_or(u64::MAX, |until| until.as_nanos()),
                number: *number,
                term: *term,
            }),
            What::Extended { number, until } => set_end(&mut bars, *number, until.as_nanos()),
            What::Ended { number } => set_end(&mut bars, *number, at),
            What::Fault(_)
            | What::Links { .. }
            | What::Started(_)
            | What::Crashed
            | What::Paused
            | What::Resumed
            | What::Sent { .. }
            | What::Received { .. }
            | What::Kept(_)
            | What::Told(_)
            | What::Wrote { .. }
            | What::Healed
            | What::Broken(_) => {}
        }
    }
    for bar in bars {
        let (x, y) = (frame.x(bar.from), frame.y(usize::from(bar.place)) - 9.0);
        let width = (frame.x(bar.until) - x).max(1.5);
        let colour = COLOURS[usize::from(bar.place) % COLOURS.len()];
        let _ = writeln!(
            out,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="18" rx="3" fill="{colour}" opacity="0.9"><title>token {}, work {}</title></rect>"#,
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

fn draw_faults(out: &mut String, frame: &Frame, timeline: &Timeline) {
    for entry in &timeline.entries {
        let (colour, width, text) = match &entry.what {
            What::Fault(text) => ("#d9822b", 0.8, text.as_str()),
            What::Healed => ("#2f9e6e", 2.0, "healed"),
            What::Broken(text) => ("#c23b5a", 2.5, text.as_str()),
            What::Links { .. }
            | What::Started(_)
            | What::Crashed
            | What::Paused
            | What::Resumed
            | What::Sent { .. }
            | What::Received { .. }
            | What::Kept(_)
            | What::Told(_)
            | What::Leads { .. }
            | What::Extended { .. }
            | What::Ended { .. }
            | What::Wrote { .. } => continue,
        };
        let x = frame.x(entry.at.as_nanos());
        let _ = writeln!(
            out,
            r#"<line x1="{x:.1}" y1="{:.1}" x2="{x:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}" stroke-dasharray="2 3"><title>{}</title></line>"#,
            TOP - 8.0,
            frame.height() + 4.0,
            escaped(text)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
