//! One page that needs nothing else: no script, no font, no picture from elsewhere.

use std::fmt::Write;

use super::svg::{Setting, escape, style};
use super::{BarPlot, LinePlot};

/// A page of figures and tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// What stands under the title: what was done, in a sentence or two.
    pub lead: String,
    /// The command that makes it again.
    pub command: String,
    /// From above to below.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What is to be known before one looks.
    pub text: Vec<String>,
    /// Its pictures.
    pub figures: Vec<Figure>,
    /// Its tables.
    pub tables: Vec<Table>,
}

/// A picture and what one sees on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The name of its file, without an ending, if it gets one of its own.
    pub name: String,
    /// The picture.
    pub plot: Plot,
    /// What one sees.
    pub caption: String,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Curves.
    Lines(LinePlot),
    /// Bars.
    Bars(BarPlot),
}

impl Figure {
    /// Curves, and what one sees.
    pub fn lines(name: &str, plot: LinePlot, caption: impl Into<String>) -> Figure {
        Figure { name: name.to_string(), plot: Plot::Lines(plot), caption: caption.into() }
    }

    /// Bars, and what one sees.
    pub fn bars(name: &str, plot: BarPlot, caption: impl Into<String>) -> Figure {
        Figure { name: name.to_string(), plot: Plot::Bars(plot), caption: caption.into() }
    }

    /// The picture.
    pub fn svg(&self, setting: Setting) -> String {
        match &self.plot {
            Plot::Lines(plot) => plot.svg(setting),
            Plot::Bars(plot) => plot.svg(setting),
        }
    }
}

/// Rows under a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// Only what stands in the page itself is used, and of that only the style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The heads of columns are broken into lines, so that no column is wider than its numbers; where a table is wider than the window all the same, a shadow
/// at its edge says that there is more.
const STYLE: &str = "\
:root{color-scheme:light dark}*{box-sizing:border-box}\
body{margin:0 auto;padding:1rem;max-width:72rem;background:#f6f8fa;color:#24292f;line-height:1.5;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}p{max-width:46rem}\
code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:.9em;overflow-wrap:anywhere}\
.figures{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));align-items:start}\
figure{margin:0;padding:.75rem;background:#fff;border:1px solid #d8dee4;border-radius:8px}\
figure svg{display:block;width:100%;height:auto}figcaption{margin-top:.5rem;font-size:.9rem;color:#57606a}\
.table{overflow-x:auto;margin:1rem 0;border:1px solid #d8dee4;border-radius:8px;padding:.5rem .75rem;--paper:#fff;--edge:#57606a66;\
background:linear-gradient(90deg,var(--paper) 30%,transparent) 0 0/2.5rem 100% no-repeat local,\
linear-gradient(270deg,var(--paper) 30%,transparent) 100% 0/2.5rem 100% no-repeat local,\
linear-gradient(90deg,var(--edge),transparent) 0 0/.9rem 100% no-repeat scroll,\
linear-gradient(270deg,var(--edge),transparent) 100% 0/.9rem 100% no-repeat scroll,var(--paper)}\
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;width:100%}\
caption{text-align:left;color:#57606a;padding:.25rem 0}th,td{text-align:right;padding:.2rem .6rem;\
border-bottom:1px solid #d8dee4}td{white-space:nowrap}th{vertical-align:bottom}th:first-child,td:first-child,th.word,td.word{text-align:left}tr:last-child td{border-bottom:0}\
footer{margin-top:2rem;font-size:.85rem;color:#57606a}\
@media (prefers-color-scheme:dark){body{background:#010409;color:#e6edf3}figure{background:#0d1117}figure,.table{border-color:#2b323b}\
.table{--paper:#0d1117;--edge:#9da7b366}\
figcaption,caption,footer{color:#9da7b3}th,td{border-color:#2b323b}}";

impl Page {
    /// The page.
    pub fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>{STYLE}{}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p>{}</p>\n<p>Made by <code>{}</code></p>\n",
            style(),
            escape(&self.lead),
            escape(&self.command),
            title = escape(&self.title),
        );
        for section in &self.sections {
            section.write(&mut html);
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// All pictures, to be kept in files of their own: their names and texts.
    pub fn pictures(&self) -> impl Iterator<Item = (String, String)> {
        let figures = self.sections.iter().flat_map(|section| section.figures.iter());
        figures.map(|figure| (format!("{}.svg", figure.name), figure.svg(Setting::Alone)))
    }
}

impl Section {
    fn write(&self, html: &mut String) {
        let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&self.title));
        for paragraph in &self.text {
            let _ = writeln!(html, "<p>{}</p>", escape(paragraph));
        }
        if !self.figures.is_empty() {
            html.push_str("<div class=\"figures\">\n");
            for figure in &self.figures {
                let _ = writeln!(
                    html,
                    "<figure id=\"{}\">\n{}<figcaption>{}</figcaption>\n</figure>",
                    escape(&figure.name),
                    figure.svg(Setting::Page),
                    escape(&figure.caption)
                );
            }
            html.push_str("</div>\n");
        }
        for table in &self.tables {
            table.write(html);
        }
        html.push_str("</section>\n");
    }
}

impl Table {
    fn write(&self, html: &mut String) {
        // A column of words is read from its left end, one of numbers from its right.
        let numeric = |column: usize| {
            let begins =
                |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '–' | '-'));
            self.rows.iter().filter_map(|row| row.get(column)).all(begins)
        };
        let class = |column: usize| if numeric(column) { "" } else { " class=\"word\"" };
        let _ = write!(
            html,
            "<div class=\"table\" tabindex=\"0\"><table>\n<caption>{}</caption>\n<tr>",
            escape(&self.caption)
        );
        for (column, name) in self.head.iter().enumerate() {
            let _ = write!(html, "<th{} scope=\"col\">{}</th>", class(column), escape(name));
        }
        html.push_str("</tr>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(html, "<td{}>{}</td>", class(column), escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_from_elsewhere_and_runs_nothing() {
        let table = Table {
            caption: "<b>".to_string(),
            head: vec!["name".to_string(), "seconds".to_string()],
            rows: vec![vec!["<script>alert(1)</script>".to_string(), "1.5".to_string()]],
        };
        let section = Section {
            title: "a & b".to_string(),
            text: vec!["\"".to_string()],
            figures: vec![],
            tables: vec![table],
        };
        let page = Page {
            title: "</title><script>".to_string(),
            lead: String::new(),
            command: "baton lab compare --seeds 3".to_string(),
            sections: vec![section],
        };
        let html = page.html();
        for never in
            ["<script", "<link", "<img", "@import", "url(", " src=", " href=", " style=", "javascript:"]
        {
            assert!(!html.contains(never), "{never}");
        }
        assert!(html.contains("default-src 'none'") && html.contains("a &amp; b"), "{html}");
        assert!(
            html.contains("<td class=\"word\">&lt;script&gt;") && html.contains("<td>1.5</td>"),
            "{html}"
        );
    }
}
