//! The three grammars: the splitter of 1.13, the lexer of 2.0 to 2.9, the two layers of 2.10 and later.

use super::Backend;
use super::draft::Draft;
use super::error::{SettingsError, SettingsErrorKind, shown};
use super::keys::{Key, Layer, ValueKind};
use super::lists;
use super::number::is_space;
use super::tokens::{Token, Tokens};
use super::warning::WarningCode;

/// `CachingAllocatorConfig::parseArgs`, `c10/cuda/CUDACachingAllocator.cpp`, 1.13: items between white space and commas,
/// parts between colons; an item of one part does nothing, and parts after the second do nothing.
pub(super) fn split(text: &str, draft: &mut Draft) -> Result<(), SettingsError> {
    for (item, at) in pieces(text, 0, is_item_separator) {
        let parts = pieces(item, at, |c| c == ':');
        let [(name, at), (value, value_at), rest @ ..] = parts.as_slice() else {
            // The empty piece before a leading separator is nobody's item.
            if !item.is_empty() {
                let message = format!("`{}` does nothing: items are `key:value`", shown(item));
                draft.warn(WarningCode::ItemIgnored, at, message);
            }
            continue;
        };
        let key_token = Token { text: (*name).to_owned(), at: *at, joined: false };
        let value = Token { text: (*value).to_owned(), at: *value_at, joined: false };
        let key = known(&key_token, draft)?;
        if let Some((extra, at)) = rest.first() {
            let message = format!("`:{}` does nothing: 1.13 reads one value", shown(extra));
            draft.warn(WarningCode::RestIgnored, at.saturating_sub(1), message);
        }
        draft.mention(key, &key_token);
        if key.value == ValueKind::Divisions {
            draft.settings().roundup_power2_divisions = [draft.divisions(key, &value, false)?; 16];
        } else {
            draft.set(key, &value)?;
        }
    }
    Ok(())
}

fn is_item_separator(c: char) -> bool {
    c == ',' || u8::try_from(c).is_ok_and(is_space)
}

/// What `std::sregex_token_iterator(…, "[…]+", -1)` yields: the pieces between runs of separators, with their
/// character positions; an empty piece before a leading run, none after a trailing one.
fn pieces(text: &str, start: usize, is_separator: fn(char) -> bool) -> Vec<(&str, usize)> {
    let mut pieces = Vec::new();
    let (mut rest, mut at) = (text, start);
    loop {
        let piece = &rest[..rest.find(is_separator).unwrap_or(rest.len())];
        let behind = &rest[piece.len()..];
        if !(behind.is_empty() && piece.is_empty() && !pieces.is_empty()) {
            pieces.push((piece, at));
        }
        let next = behind.trim_start_matches(is_separator);
        if next.is_empty() {
            return pieces;
        }
        at += piece.chars().count() + behind[..behind.len() - next.len()].chars().count();
        rest = next;
    }
}

/// `CUDAAllocatorConfig::parseArgs`, `c10/cuda/CUDAAllocatorConfig.cpp` (2.0: in `CUDACachingAllocator.cpp`), up to 2.9.
pub(super) fn lex(text: &str, draft: &mut Draft) -> Result<(), SettingsError> {
    let tokens = Tokens::of(text, draft.release);
    let loaded = backend_at_load(text);
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let key = known(token, draft)?;
        draft.mention(key, token);
        index = item(&tokens, index, key, draft)?;
        if key.value == ValueKind::Backend {
            same_backend(loaded, draft, &tokens, index)?;
        }
        index = next_item(&tokens, index, Some(draft))?;
    }
    Ok(())
}

/// `AcceleratorAllocatorConfig::parseArgs` (`c10/core/AllocatorConfig.cpp`), then `CUDAAllocatorConfig::parseArgs`
/// (`c10/cuda/CUDAAllocatorConfig.cpp`), 2.10 and later: each passes over the keys of the other.
pub(super) fn two_layers(text: &str, draft: &mut Draft) -> Result<(), SettingsError> {
    let tokens = Tokens::of(text, draft.release);
    if draft.release.at_least(2, 11) {
        large_segment_first(&tokens, draft)?;
    }
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let key = known(token, draft)?;
        draft.mention(key, token);
        // Already read, wherever it stood.
        let mine = key.layer == Layer::Accelerator && key.name != LARGE_SEGMENT;
        index = if mine { item(&tokens, index, key, draft)? } else { tokens.skip_value(index)? };
        index = next_item(&tokens, index, Some(draft))?;
    }
    let mut loaded = None;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let key = known(token, draft)?;
        let mine = key.layer == Layer::Cuda;
        index = if mine { item(&tokens, index, key, draft)? } else { tokens.skip_value(index)? };
        if key.value == ValueKind::Backend {
            // The library was loaded with the first one.
            let loaded = *loaded.get_or_insert(draft.settings().backend);
            same_backend(loaded, draft, &tokens, index)?;
        }
        index = next_item(&tokens, index, None)?;
    }
    Ok(())
}

const LARGE_SEGMENT: &str = "large_segment_size_mb";

/// The first loop of `AcceleratorAllocatorConfig::parseArgs`, 2.11: it takes any token of that spelling for the key.
fn large_segment_first(tokens: &Tokens, draft: &mut Draft) -> Result<(), SettingsError> {
    let Some(key) = Key::named(LARGE_SEGMENT) else { return Ok(()) };
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        if token.is(LARGE_SEGMENT) {
            index = item(tokens, index, key, draft)?;
        }
        index += 1;
    }
    let settings = draft.settings();
    settings.max_non_split_rounding = settings.large_segment_size;
    Ok(())
}

/// Reads the value of the key at `index`; returns the index of the value's last token.
fn item(tokens: &Tokens, index: usize, key: &'static Key, draft: &mut Draft) -> Result<usize, SettingsError> {
    let Some(key_token) = tokens.get(index) else { return Ok(index) };
    tokens.separator(index + 1, ':', &mut draft.parsed.warnings).map_err(|error| match tokens.get(index + 1) {
        Some(_) => error,
        None => SettingsError { kind: error.kind, ..SettingsError::missing_value(key_token, tokens.end) },
    })?;
    let value = tokens.value(index + 2, key_token)?;
    match key.value {
        ValueKind::Divisions => lists::divisions(tokens, index + 2, key, draft),
        ValueKind::ReserveByClass => lists::reserve_by_class(tokens, index + 2, key_token, draft),
        _ => draft.set(key, value).map(|()| index + 2),
    }
}

/// The index of the next key, over the comma that belongs behind the value that ends at `index`.
fn next_item(tokens: &Tokens, index: usize, draft: Option<&mut Draft>) -> Result<usize, SettingsError> {
    if index + 1 >= tokens.len() {
        return Ok(index + 1);
    }
    let mut unheard = Vec::new();
    tokens.separator(index + 1, ',', draft.map_or(&mut unheard, |draft| &mut draft.parsed.warnings))?;
    Ok(index + 2)
}

fn known(token: &Token, draft: &Draft) -> Result<&'static Key, SettingsError> {
    Key::named(&token.text)
        .filter(|key| key.is_known(draft.release))
        .ok_or_else(|| SettingsError::unknown_key(token, draft.release))
}

/// `BackendStaticInitializer::parseEnvForBackend`, `c10/cuda/CUDACachingAllocator.cpp`, 2.0 to 2.9: chosen with the
/// splitter of 1.13 when the library is loaded, so blanks split here what the lexer joins.
fn backend_at_load(text: &str) -> Backend {
    for (item, at) in pieces(text, 0, is_item_separator) {
        match pieces(item, at, |c| c == ':').as_slice() {
            [("backend", _), ("cudaMallocAsync", _), ..] => return Backend::CudaMallocAsync,
            [("backend", _), ("native", _), ..] => return Backend::Native,
            _ => {}
        }
    }
    Backend::Native
}

fn same_backend(loaded: Backend, draft: &mut Draft, tokens: &Tokens, index: usize) -> Result<(), SettingsError> {
    if draft.settings().backend == loaded {
        return Ok(());
    }
    Err(SettingsError::new(
        SettingsErrorKind::BackendMismatch,
        tokens.get(index).map_or(tokens.end, |token| token.at),
        "`backend` is not the one that the library was loaded with",
        "the choice is made at load from the first plain `backend:NAME`, and every later reading must agree",
        "give `backend` once, without blanks around the colon",
    ))
}
