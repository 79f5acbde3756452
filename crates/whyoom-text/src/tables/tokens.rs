//! Tokens of Python reprs and JSON alike.

/// A token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `[` or `(`
    ListOpen,
    /// `]` or `)`
    ListClose,
    /// `:`
    Colon,
    /// A string, escapes not resolved.
    Text(&'a str),
    /// A whole number.
    Number(i128),
    /// `True`, `null`, a name, another number.
    Other(&'a str),
}

/// The tokens of a line, commas left out.
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(rest: &'a str) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        let first = self.rest.chars().next()?;
        let simple = match first {
            '{' => Some(Token::Open),
            '}' => Some(Token::Close),
            '[' | '(' => Some(Token::ListOpen),
            ']' | ')' => Some(Token::ListClose),
            ':' => Some(Token::Colon),
            _ => None,
        };
        if let Some(token) = simple {
            self.rest = &self.rest[1..];
            return Some(token);
        }
        if matches!(first, '"' | '\'') {
            let body = &self.rest[1..];
            let mut escaped = false;
            let end = body.char_indices().find(|(_, c)| {
                let is_end = *c == first && !escaped;
                escaped = *c == '\\' && !escaped;
                is_end
            });
            let end = end.map_or(body.len(), |e| e.0);
            self.rest = body.get(end + 1..).unwrap_or("");
            return Some(Token::Text(&body[..end]));
        }
        let is_end =
            |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}' | '[' | ']' | '(' | ')' | ':' | '"' | '\'');
        let len = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = &self.rest[..len];
        self.rest = &self.rest[len..];
        Some(word.parse().map_or(Token::Other(word), Token::Number))
    }
}
