//! The colours of a run's picture, and what they stand for.

use std::fmt::Write;

use super::LEFT;
use crate::plot::width;

/// Names, and colours in the light and in the dark. Bars are so dark in both that white can be read on them.
pub(super) const COLOURS: [(&str, &str, &str); 8] = [
    ("p0", "#2a6fdb", "#2a6fdb"),
    ("p1", "#b3640f", "#b3640f"),
    ("p2", "#23805a", "#23805a"),
    ("p3", "#9b4dca", "#9b4dca"),
    ("p4", "#c23b5a", "#c23b5a"),
    ("p5", "#1b7a8c", "#1b7a8c"),
    ("p6", "#8a6d3b", "#8a6d3b"),
    ("p7", "#5a6b7b", "#5a6b7b"),
];
const SHADES: [(&str, &str, &str); 6] = [
    ("paper", "#ffffff", "#0d1117"),
    ("ink", "#1c2733", "#e6edf3"),
    ("quiet", "#5a6b7b", "#9da7b3"),
    ("cut", "#fff3c4", "#3d3413"),
    ("down", "#e8a0a0", "#8a3b3b"),
    ("still", "#c9ced4", "#4a525c"),
];
const STROKES: [(&str, &str, &str); 7] = [
    ("lane", "#d5dce3", "#2b323b"),
    ("grid", "#eef1f4", "#1d232b"),
    ("message", "#7f8c99", "#7f8c99"),
    ("lost", "#c23b5a", "#ff8fb0"),
    ("fault", "#d9822b", "#ff9a62"),
    ("healed", "#2f9e6e", "#45d6a0"),
    ("broken", "#c23b5a", "#ff8fb0"),
];

/// The colours, in the light and in the dark.
pub(super) fn style() -> String {
    let mut css = String::new();
    for dark in [false, true] {
        css.push_str(if dark { "@media (prefers-color-scheme:dark){" } else { "" });
        for (property, names) in [("fill", &COLOURS[..]), ("fill", &SHADES[..]), ("stroke", &STROKES[..])] {
            for (name, light, other) in names {
                let _ = write!(css, ".run .{name}{{{property}:{}}}", if dark { other } else { light });
            }
        }
        css.push_str(if dark { "}" } else { "" });
    }
    css
}

/// What stands for what.
pub(super) fn draw_legend(out: &mut String) {
    let rect = |class: &str| format!(r#"<rect class="{class}" width="18" height="10" y="-9"/>"#);
    let line = |class: &str, dashes: &str| {
        format!(r#"<path class="{class}" fill="none" stroke-width="2"{dashes} d="M0 -4h18"/>"#)
    };
    let dotted = r#" stroke-dasharray="2 3""#;
    let entries = [
        (rect("p0"), "a leadership, with its term"),
        (rect("down"), "down"),
        (rect("still"), "paused"),
        (rect("cut"), "links are cut"),
        (line("message", ""), "a message"),
        (line("lost", ""), "a lost message"),
        (line("fault", dotted), "a fault"),
        (line("healed", dotted), "all faults have ended"),
        (line("broken", dotted), "a promise is broken"),
    ];
    let mut x = LEFT;
    for (swatch, text) in entries {
        let _ = writeln!(
            out,
            r#"<g transform="translate({x:.1} 44)">{swatch}<text class="quiet" x="24">{text}</text></g>"#
        );
        x += 24.0 + width(text) + 22.0;
    }
}
