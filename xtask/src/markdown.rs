//! What the checks need of Markdown: headings with their anchors, and links. Code is not looked into.
//!
//! Headings are those with `#`; an underlined heading is not recognised, and we do not write them.

use std::collections::BTreeMap;

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Line from 1.
    pub line: usize,
    /// 1 for `#`, 2 for `##`, and so on.
    pub level: usize,
    /// The text, with its markup.
    pub text: String,
}

/// A link or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Line from 1.
    pub line: usize,
    /// What it points to, as it is written.
    pub target: String,
}

/// The headings in order.
pub fn headings(text: &str) -> Vec<Heading> {
    let mut headings = Vec::new();
    for (number, line) in outside_fences(text) {
        let level = line.bytes().take_while(|&b| b == b'#').count();
        let rest = &line[level..];
        if (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with(' ')) {
            let text = rest.trim().trim_end_matches('#').trim_end();
            headings.push(Heading { line: number, level, text: text.to_owned() });
        }
    }
    headings
}

/// The anchors that the usual renderers give to a text: one per heading, and those written in HTML.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for heading in headings(text) {
        let slug = slug(&heading.text);
        let times = seen.entry(slug.clone()).or_default();
        anchors.push(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    for (_, line) in outside_fences(text) {
        let prose = without_code_spans(line);
        anchors.extend(["id=\"", "name=\""].iter().flat_map(|mark| attributes(&prose, mark)));
    }
    anchors
}

/// The links: inline ones, definitions of references, and those written in HTML.
pub fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (number, line) in outside_fences(text) {
        let prose = without_code_spans(line);
        let mut targets: Vec<String> =
            prose.match_indices("](").map(|(at, _)| destination(&prose[at + 2..])).collect();
        targets.extend(definition(&prose));
        targets.extend(["href=\"", "src=\""].iter().flat_map(|mark| attributes(&prose, mark)));
        links.extend(targets.into_iter().map(|target| Link { line: number, target }));
    }
    links
}

/// The lines outside fenced code, each with its number from 1.
pub fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let start = line.trim_start();
        let length = start.len() - start.trim_start_matches(['`', '~']).len();
        let mark = &start[..length];
        match fence {
            None if length >= 3 => fence = Some(mark),
            None => return Some((number + 1, line)),
            Some(open) if mark.starts_with(open) && start[length..].trim().is_empty() => fence = None,
            Some(_) => {}
        }
        None
    })
}

/// Blanks code spans: what is between two runs of backticks of one length.
pub fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let (before, after) = (&rest[..start], &rest[start + ticks..]);
        out.push_str(before);
        match closing(after, ticks) {
            Some(end) => {
                out.push(' ');
                rest = &after[end + ticks..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`') {
        let from = at + start;
        let length = text[from..].len() - text[from..].trim_start_matches('`').len();
        if length == ticks {
            return Some(from);
        }
        at = from + length;
    }
    None
}

/// The target of an inline link, given what follows its `](`: up to the closing parenthesis or a title.
fn destination(text: &str) -> String {
    let text = text.trim_start();
    if let Some(angled) = text.strip_prefix('<') {
        return angled.split('>').next().unwrap_or_default().to_owned();
    }
    let mut depth = 0_usize;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' | ' ' => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    text[..end].to_owned()
}

/// The target of `[label]: target`.
fn definition(line: &str) -> Option<String> {
    let (label, target) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    let is_footnote = label.starts_with('^');
    (!label.contains(['[', ']']) && !is_footnote).then(|| destination(target))
}

fn attributes<'a>(line: &'a str, mark: &'a str) -> impl Iterator<Item = String> + 'a {
    line.match_indices(mark)
        .filter_map(|(at, mark)| Some(line[at + mark.len()..].split_once('"')?.0.to_owned()))
}

fn slug(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    // Of a link in a heading only its text is shown.
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let kept = shown.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_of_all_kinds() {
        assert_eq!(
            targets("[a](b.md) ![c](d.png \"e\") [f](<g h.md>) [`i`](j_(k).md)"),
            ["b.md", "d.png", "g h.md", "j_(k).md"]
        );
        assert_eq!(
            targets("[a]: b.md\n[^n]: text\n<a href=\"c.md\"><img src=\"d.svg\">"),
            ["b.md", "c.md", "d.svg"]
        );
        assert_eq!(links("x\n\n[a](b)"), [Link { line: 3, target: "b".to_owned() }]);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(targets("`[a](b)` ``c ` [d](e)`` [f](g)"), ["g"]);
        assert_eq!(
            targets("```sh\n[a](b)\n```\n[c](d)\n  ~~~~\n[e](f)\n~~~\n[g](h)\n  ~~~~\n[i](j)"),
            ["d", "j"]
        );
    }

    #[test]
    fn anchors_are_those_of_the_renderers() {
        let text = "# Who leads?\n## `decide` & co_op: a *b*\n## Who leads?\n```\n# not\n```\n## [A](b.md) c ##\n<a id=\"x-y\"></a>\n";
        assert_eq!(anchors(text), ["who-leads", "decide--co_op-a-b", "who-leads-1", "a-c", "x-y"]);
    }

    #[test]
    fn headings_have_levels() {
        let found: Vec<_> =
            headings("# A\n#no\n### B\n").into_iter().map(|h| (h.line, h.level, h.text)).collect();
        assert_eq!(found, [(1, 1, "A".to_owned()), (3, 3, "B".to_owned())]);
    }
}
