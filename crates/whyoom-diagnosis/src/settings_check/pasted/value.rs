//! Values as each syntax ends and quotes them.

/// A shell word: quotes and backslashes are resolved, the word ends at a blank, and where `ends_commands` at `;`, `&`, `|`,
/// a bracket or a redirection too. Returns the rest.
pub(super) fn shell(text: &str, ends_commands: bool) -> (String, &str) {
    let mut value = String::new();
    let mut quote: Option<char> = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None | Some('"'), '\\') => match chars.next() {
                Some((_, escaped)) => value.push(escaped),
                // The line goes on in the next, which the shell joins.
                None if quote.is_none() => {}
                None => value.push('\\'),
            },
            (None, c) if c.is_whitespace() || (ends_commands && ";&|()<>`".contains(c)) => {
                return (value, &text[at..]);
            }
            (_, c) => value.push(c),
        }
    }
    (value, "")
}

/// The rest of a line behind `set NAME=`: quotes are part of the value, unless they opened before the name.
pub(super) fn windows(text: &str, before: &str) -> String {
    if before.ends_with('"') {
        return text.rsplit_once('"').map_or(text, |(value, _)| value).to_owned();
    }
    text.split('&').next().unwrap_or("").to_owned()
}

/// A plain scalar of YAML: to the end of the line, less a comment.
pub(super) fn plain(text: &str) -> String {
    let end = text.find(" #").unwrap_or(text.len());
    text[..end].trim().to_owned()
}

/// A scalar of YAML behind its colon, or a string of JSON: quoted, plain, or a block in the lines that follow.
pub(super) fn yaml(text: &str, following: &[&str]) -> Option<String> {
    let text = text.trim();
    if text.starts_with(['"', '\'']) {
        return python(text).map(|(value, _)| value);
    }
    if !text.starts_with(['|', '>']) {
        // A bare mapping ends in a flow's bracket or comma.
        return Some(plain(text)).filter(|value| !value.is_empty() && !value.starts_with(['{', '[', '&', '*']));
    }
    let mut lines = following.iter().take_while(|line| line.starts_with([' ', '\t'])).map(|line| line.trim());
    let joint = if text.starts_with('|') { "\n" } else { " " };
    let first = lines.next()?.to_owned();
    let block = lines.fold(first, |block, line| block + joint + line);
    Some(if text.contains('-') { block } else { block + "\n" })
}

/// A string literal of Python, with a prefix or without; returns what follows it.
pub(super) fn python(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches(['r', 'R', 'f', 'F', 'u', 'U', 'b', 'B']);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut value = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            c if c == quote => return Some((value, &text[at + 2..])),
            c => value.push(c),
        }
    }
    None
}
