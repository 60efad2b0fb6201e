//! Rust source without its comments and literals.

/// Blanks every comment and the content of every string and character literal with spaces. Lines and
/// columns (in characters) stay where they are, so that a position found here is one in the file.
pub fn code_only(text: &str) -> String {
    blank(text, |_| true)
}

/// Blanks every comment with spaces, and leaves literals.
pub fn without_comments(text: &str) -> String {
    blank(text, |first| first == '/')
}

/// Blanks the comments and literals whose first character is one of those.
fn blank(text: &str, is_blanked: impl Fn(char) -> bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else if !is_blanked(chars[at]) {
            out.extend(&chars[at..end]);
            at = end;
        } else {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// The identifiers of a piece of code (of what [`code_only`] returns) with the byte each starts at.
pub fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_word)?;
        let end = code[start..].find(|c| !is_word(c)).map_or(code.len(), |length| start + length);
        rest = end;
        Some((start, &code[start..end]))
    })
}

/// The line, from 1, of a byte position.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The end of the comment or literal that starts at `at`; `at` itself when none does.
fn literal_or_comment_end(chars: &[char], at: usize) -> usize {
    let starts_word = at == 0 || !(chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], chars.get(at + 1)) {
        ('/', Some('/')) => find_from(chars, at, |c| c == '\n'),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at + 1),
        ('r', Some('"' | '#')) if starts_word => raw_string_end(chars, at, at + 1),
        ('b' | 'c', Some('r')) if starts_word => raw_string_end(chars, at, at + 2),
        ('\'', _) => character_end(chars, at),
        _ => at,
    }
}

fn find_from(chars: &[char], from: usize, is: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| is(c)).map_or(chars.len(), |length| from + length)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `start` when no raw string begins here: `r#type` is an identifier.
fn raw_string_end(chars: &[char], start: usize, hashes_from: usize) -> usize {
    let quote = find_from(chars, hashes_from, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return start;
    }
    let hashes = quote - hashes_from;
    let mut at = quote + 1;
    while at < chars.len() {
        let closes = chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
        if closes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    chars.len()
}

/// `start` when this is a lifetime.
fn character_end(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), Some(_)) => (find_from(chars, start + 3, |c| c == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, words: &[&str]) {
        let code = code_only(source);
        assert_eq!(code.chars().count(), source.chars().count());
        assert_eq!(identifiers(&code).map(|(_, word)| word).collect::<Vec<_>>(), words, "{code}");
    }

    #[test]
    fn comments_go() {
        check("a // b\nc", &["a", "c"]);
        check("a /* b /* c */ d */ e", &["a", "e"]);
        check("a /* b", &["a"]);
        check("//! é\nx", &["x"]);
    }

    #[test]
    fn literals_go() {
        check(r#"a "b \" c" d"#, &["a", "d"]);
        check(r##"a r#"b " c"# d"##, &["a", "d"]);
        check(r##"a br#"b"# d b"e" f"##, &["a", "d", "b", "f"]);
        check(r"a '\'' b '\u{1F600}' c 'd' e '\\' f", &["a", "b", "c", "e", "f"]);
        check("\"a\nb\" c", &["c"]);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay() {
        check("fn f<'a>(x: &'a str, r#type: u8)", &["fn", "f", "a", "x", "a", "str", "r", "type", "u8"]);
    }

    #[test]
    fn lines_stay() {
        let source = "/*\n\n*/ here";
        let code = code_only(source);
        let (at, word) = identifiers(&code).next().expect("one word");
        assert_eq!((line_of(&code, at), word), (3, "here"));
    }
}
