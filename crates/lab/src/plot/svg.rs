//! Writing SVG, and the colours of light and dark.

use std::fmt::Write;

/// Where a picture stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// In a file of its own: it brings its style.
    Alone,
    /// In a page that has the style.
    Page,
}

/// Light values stand in the shapes' attributes too, for viewers that know no style.
pub(super) const INKS: [(&str, &str); 8] = [
    ("#c2410c", "#ff9a62"),
    ("#8a6d00", "#e8c547"),
    ("#8b3fa8", "#d59bf0"),
    ("#0062b1", "#63b3ff"),
    ("#00734d", "#45d6a0"),
    ("#007a8a", "#5cd6e8"),
    ("#6b7280", "#a3acb9"),
    ("#b0124a", "#ff8fb0"),
];

/// The style of all plots, for light and dark.
pub(super) fn style() -> String {
    let mut css = String::from(
        ".plot{max-width:100%;height:auto;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}\
         .plot text{fill:#24292f}.plot .quiet{fill:#57606a}.plot .title{font-weight:600;font-size:14px}\
         .plot .paper{fill:#fff}.plot .grid{stroke:#d8dee4}.plot .axis{stroke:#57606a}.plot path,.plot .key{fill:none}\
         .plot .halo{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}",
    );
    for (number, (light, _)) in INKS.iter().enumerate() {
        let _ = write!(css, ".plot .s{number}{{stroke:{light}}}.plot .f{number}{{fill:{light}}}");
    }
    css.push_str(
        "@media (prefers-color-scheme:dark){.plot text{fill:#e6edf3}.plot .quiet{fill:#9da7b3}.plot .paper{fill:#0d1117}\
         .plot .grid{stroke:#2b323b}.plot .axis{stroke:#9da7b3}.plot .halo{stroke:#0d1117}",
    );
    for (number, (_, dark)) in INKS.iter().enumerate() {
        let _ = write!(css, ".plot .s{number}{{stroke:{dark}}}.plot .f{number}{{fill:{dark}}}");
    }
    css.push('}');
    css
}

/// Text that is only text, also between quotes. What XML has no room for becomes a replacement character.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if (c.is_control() && c != '\n' && c != '\t') || c == '\u{fffe}' || c == '\u{ffff}' => {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// On which side of its place a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that is being drawn.
pub(super) struct Canvas {
    body: String,
    width: f64,
    title: String,
    description: String,
}

impl Canvas {
    pub(super) fn new(width: f64, title: &str, description: &str) -> Canvas {
        Canvas { body: String::new(), width, title: title.to_string(), description: description.to_string() }
    }

    /// Anything; what is not a number of ours must be escaped.
    pub(super) fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = at;
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let text = escape(text);
        self.raw(&format!("<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let stroke = if class == "axis" { "#57606a" } else { "#d8dee4" };
        self.raw(&format!(
            "<line class=\"{class}\" stroke=\"{stroke}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// The whole picture, so high.
    pub(super) fn finish(self, height: f64, setting: Setting) -> String {
        let Canvas { body, width, title, description } = self;
        let style = match setting {
            Setting::Alone => format!("<style>{}</style>\n", style()),
            Setting::Page => String::new(),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n<desc>{}</desc>\n{style}\
             <rect class=\"paper\" fill=\"#fff\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{body}</svg>\n",
            escape(&title),
            escape(&description),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escape("<a href=\"x\" b='c'>&\u{1b}[0m"),
            "&lt;a href=&quot;x&quot; b=&#39;c&#39;&gt;&amp;\u{fffd}[0m"
        );
        let mut canvas = Canvas::new(10.0, "</title><script>", "]]>");
        canvas.text((0.0, 0.0), Anchor::Start, "", "<script>");
        let svg = canvas.finish(10.0, Setting::Alone);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn colours_can_be_told_from_their_paper() {
        // WCAG 2.1, 1.4.11: shapes need a contrast of 3 to 1; ours are also lines' and labels' colours, so 4.5 where it is text.
        let contrast = |one: &str, other: &str| {
            let (one, other) = (luminance(one), luminance(other));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        };
        for (light, dark) in INKS {
            assert!(contrast(light, "#ffffff") >= 4.5, "{light} on white: {}", contrast(light, "#ffffff"));
            assert!(contrast(dark, "#0d1117") >= 4.5, "{dark} on black: {}", contrast(dark, "#0d1117"));
        }
    }

    fn luminance(colour: &str) -> f64 {
        let part = |from: usize| {
            f64::from(u8::from_str_radix(&colour[from..from + 2], 16).expect("a colour")) / 255.0
        };
        let linear =
            |part: f64| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
    }
}
