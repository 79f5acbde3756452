//! Tokens of 2.0 and later: words between the separators `,` `:` `[` `]`, which are tokens themselves.

use super::error::{SettingsError, SettingsErrorKind, shown};
use super::number::is_space;
use super::warning::{SettingsWarning, WarningCode};
use crate::Release;

/// One word or separator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// Characters before it.
    pub(super) at: usize,
    /// Blanks stood inside and were dropped.
    pub(super) joined: bool,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }
}

/// The tokens of a string, for one release.
#[derive(Debug)]
pub(super) struct Tokens {
    list: Vec<Token>,
    /// Characters in the string.
    pub(super) end: usize,
    /// 2.0 to 2.9 check every separator; 2.10 and later compare and go on.
    strict: bool,
}

impl Tokens {
    /// `CachingAllocatorConfig::lexArgs` (2.0, `c10/cuda/CUDACachingAllocator.cpp`; 2.2, `CUDAAllocatorConfig.cpp`)
    /// drops spaces only; `ConfigTokenizer` (2.10, `c10/core/AllocatorConfig.h`) drops all white space.
    pub(super) fn of(text: &str, release: Release) -> Self {
        let strict = !release.at_least(2, 10);
        let is_blank = |c: char| {
            if strict { c == ' ' } else { u8::try_from(c).is_ok_and(is_space) }
        };
        let mut list: Vec<Token> = Vec::new();
        let mut word: Option<Token> = None;
        let mut blank_before = false;
        let mut end = 0;
        for (at, c) in text.chars().enumerate() {
            end = at + 1;
            if matches!(c, ',' | ':' | '[' | ']') {
                list.extend(word.take());
                list.push(Token { text: c.to_string(), at, joined: false });
            } else if !is_blank(c) {
                let word = word.get_or_insert_with(|| Token { text: String::new(), at, joined: false });
                word.joined |= blank_before && !word.text.is_empty();
                word.text.push(c);
            }
            blank_before = is_blank(c);
        }
        list.extend(word);
        Self { list, end, strict }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Token> {
        self.list.get(index)
    }

    /// The token at `index`, a value of `key`.
    pub(super) fn value(&self, index: usize, key: &Token) -> Result<&Token, SettingsError> {
        self.get(index).ok_or_else(|| SettingsError::missing_value(key, self.end))
    }

    /// `consumeToken` up to 2.9, `checkToken` from 2.10: the separator `wanted` belongs at `index`.
    ///
    /// # Errors
    /// Up to 2.9 for any other token or none; from 2.10 only if the string ends.
    pub(super) fn separator(
        &self,
        index: usize,
        wanted: char,
        warnings: &mut Vec<SettingsWarning>,
    ) -> Result<(), SettingsError> {
        let found = self.get(index);
        if found.is_some_and(|token| token.text.chars().eq([wanted])) {
            return Ok(());
        }
        let at = found.map_or(self.end, |token| token.at);
        let found = found.map(|token| shown(&token.text));
        if let (false, Some(found)) = (self.strict, &found) {
            warnings.push(SettingsWarning {
                code: WarningCode::SeparatorIgnored,
                position: at,
                message: format!("`{found}` is taken for the missing `{wanted}`; write `{wanted}`"),
            });
            return Ok(());
        }
        let kind = if self.strict { SettingsErrorKind::WrongSeparator } else { SettingsErrorKind::MissingValue };
        let what = found.map_or_else(
            || format!("the string ends where `{wanted}` belongs"),
            |found| format!("`{found}` where `{wanted}` belongs"),
        );
        let why = "items are `key:value`, separated by commas";
        Err(SettingsError::new(kind, at, what, why, format!("write `{wanted}` here")))
    }

    /// 2.10 and later, `ConfigTokenizer::skipKey`: the index of the last token of the value of the key at `index`.
    pub(super) fn skip_value(&self, index: usize) -> Result<usize, SettingsError> {
        let key = &self.list[index];
        let mut last = index + 2;
        if !self.value(last, key)?.is("[") {
            return Ok(last);
        }
        loop {
            last += 1;
            match self.get(last) {
                Some(token) if token.is("]") => return Ok(last),
                Some(_) => {}
                None => return Err(self.unclosed(key)),
            }
        }
    }

    /// The list of `key` lacks its `]`.
    pub(super) fn unclosed(&self, key: &Token) -> SettingsError {
        SettingsError::new(
            SettingsErrorKind::UnclosedList,
            self.end,
            format!("the list of `{}` has no `]`", shown(&key.text)),
            "the string ends inside the list",
            "close the list with `]`",
        )
    }
}
