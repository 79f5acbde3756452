//! Values that are lists: `roundup_power2_divisions` and `expandable_segments_reserve_by_class`.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::error::{SettingsError, SettingsErrorKind};
use super::keys::Key;
use super::tokens::{Token, Tokens};
use super::warning::WarningCode;

/// `kRoundUpPowerOfTwoIntervals`, `c10/cuda/CUDACachingAllocator.cpp`, 2.0.
const OCTAVES: usize = 16;

/// `parseRoundUpPower2Divisions` (2.0; `c10/core/AllocatorConfig.cpp` from 2.10): one number for every size, or a list.
/// Entry `k:d` of a list serves `[k MiB, 2k MiB)`, the first one also all below; `>:d` serves all above.
/// Returns the index of the last token.
pub(super) fn divisions(
    tokens: &Tokens,
    first: usize,
    key: &'static Key,
    draft: &mut Draft,
) -> Result<usize, SettingsError> {
    let Some(token) = tokens.get(first) else { return Ok(first) };
    if !token.is("[") {
        draft.settings().roundup_power2_divisions = [draft.divisions(key, token, false)?; OCTAVES];
        return Ok(first);
    }
    let shared_layer = draft.release.at_least(2, 10);
    let zero = draft.release.at_least(2, 4);
    // A second list in the string writes over the first one's table.
    let mut table = draft.settings().roundup_power2_divisions;
    let mut listed: Vec<usize> = Vec::new();
    let mut above = None;
    let mut index = first + 1;
    while let Some(boundary) = tokens.get(index).filter(|token| !token.is("]")) {
        tokens.separator(index + 1, ':', &mut draft.parsed.warnings)?;
        let value = draft.divisions(key, tokens.value(index + 2, boundary)?, zero)?;
        let last = listed.last().copied();
        if boundary.is(">") {
            // Up to 2.9 the fill begins with the last listed entry, which it replaces.
            let from = last.unwrap_or(0) + usize::from(shared_layer);
            if !shared_layer && last.is_some_and(|last| table[last] != value) {
                let message = format!(
                    "`>:{value}` also replaces the entry before it in PyTorch {}; list the size above it as well",
                    draft.release
                );
                draft.warn(WarningCode::DivisionsOverwritten, boundary.at, message);
            }
            table[from.min(OCTAVES)..].fill(value);
            above = Some(from);
        } else {
            let octave = (draft.boundary(key, boundary)?.ilog2() as usize).min(OCTAVES - 1);
            if listed.is_empty() {
                table[..octave].fill(value);
            }
            table[octave] = value;
            listed.push(octave);
        }
        index += 2;
        if tokens.get(index + 1).is_none() {
            return Err(unclosed(tokens, boundary, key, shared_layer));
        }
        index += 1;
        if !tokens.get(index).is_some_and(|token| token.is("]")) {
            tokens.separator(index, ',', &mut draft.parsed.warnings)?;
            index += 1;
        }
    }
    if tokens.get(index).is_none() {
        if shared_layer {
            return Err(tokens.unclosed(token));
        }
        draft.warn(WarningCode::ListUnclosed, tokens.end, format!("the list of `{key}` has no `]`; add it"));
    }
    note_gaps(&listed, above, token.at, draft);
    draft.settings().roundup_power2_divisions = table;
    Ok(index)
}

/// The string ends behind an entry. Up to 2.9 the parser looks one token further than there are.
fn unclosed(tokens: &Tokens, entry: &Token, key: &Key, shared_layer: bool) -> SettingsError {
    if shared_layer {
        return tokens.unclosed(&Token { text: key.name.to_owned(), ..entry.clone() });
    }
    SettingsError::new(
        SettingsErrorKind::Undefined,
        tokens.end,
        format!("the list of `{key}` has no `]`"),
        "the parser reads past the end of its tokens, which crashes most builds",
        "close the list with `]`",
    )
}

/// Sizes that a reader of the list would take for covered, and that are not.
fn note_gaps(listed: &[usize], above: Option<usize>, at: usize, draft: &mut Draft) {
    let mut sorted = listed.to_vec();
    sorted.sort_unstable();
    let mut gaps: Vec<String> = sorted
        .windows(2)
        .filter(|pair| pair[0] + 1 < pair[1] && above.is_none_or(|from| pair[1] <= from))
        .map(|pair| format!("{} to {} MiB", 2_u64 << pair[0], 1_u64 << pair[1]))
        .collect();
    if let (Some(last), None) = (sorted.last().filter(|last| **last + 1 < OCTAVES), above) {
        gaps.push(format!("{} MiB and more", 2_u64 << last));
    }
    if !gaps.is_empty() {
        let message =
            format!("requests of {} are not rounded up: an entry serves its own octave only", gaps.join(", "));
        draft.warn(WarningCode::DivisionsGap, at, message);
    }
}

/// `parseExpandableSegmentsReserveByClass`, `c10/cuda/CUDAAllocatorConfig.cpp`, 2.15; replaces the table whole.
/// Returns the index of the last token.
pub(super) fn reserve_by_class(
    tokens: &Tokens,
    first: usize,
    key: &Token,
    draft: &mut Draft,
) -> Result<usize, SettingsError> {
    tokens.separator(first, '[', &mut draft.parsed.warnings)?;
    let mut classes = BTreeMap::new();
    let mut index = first + 1;
    while !tokens.value(index, key)?.is("]") {
        let name = tokens.value(index, key)?;
        tokens.separator(index + 1, ':', &mut draft.parsed.warnings)?;
        if let Some(reserve) = draft.reserve(tokens.value(index + 2, key)?) {
            classes.insert(name.text.clone(), reserve);
        }
        index += 3;
        index += usize::from(tokens.value(index, key)?.is(","));
    }
    draft.parsed.reserve_by_class = classes;
    Ok(index)
}
