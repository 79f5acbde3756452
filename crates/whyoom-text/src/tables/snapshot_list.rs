//! `torch.cuda.memory_snapshot()` printed: a list of segments with their blocks, as Python's repr or as JSON. It is
//! summed up as it is read.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tokens::{Token, Tokens};
use crate::{Fact, Found, Line, Place, Recogniser};

/// The segments of one device, in bytes and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DeviceSegments {
    /// Segments.
    pub segments: u64,
    /// Sum of `total_size`.
    pub reserved_bytes: u64,
    /// Sum of `allocated_size`.
    pub allocated_bytes: u64,
    /// Sum of `active_size`.
    pub active_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Bytes in free blocks.
    pub free_bytes: u64,
    /// The largest free block.
    pub largest_free_block_bytes: u64,
}

/// A printed list of segments.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SnapshotList {
    /// By device index; a segment whose index is missing counts for device 0.
    pub devices: BTreeMap<u32, DeviceSegments>,
    /// The list's end is missing.
    pub is_cut: bool,
}

/// Finds the lists.
#[derive(Debug, Default)]
pub(super) struct SegmentList {
    open: Option<Open>,
}

/// Dicts inside each other; a real list has three levels.
const DEPTH: usize = 16;
/// Devices of one host, and more.
const DEVICES: usize = 256;

#[derive(Debug, Default)]
struct Open {
    place: Option<Place>,
    rank: Option<u32>,
    list: SnapshotList,
    dicts: Vec<Dict>,
    key: Option<String>,
    last: Option<String>,
    lists: u32,
    is_closed: bool,
    segments: u64,
}

#[derive(Debug, Default)]
struct Dict {
    device: Option<u32>,
    total: Option<u64>,
    allocated: u64,
    active: u64,
    size: Option<u64>,
    state: Option<bool>,
    /// Sums over the blocks below.
    blocks: DeviceSegments,
}

impl Recogniser for SegmentList {
    fn needles(&self) -> &'static [&'static str] {
        &["total_size", "active_size"]
    }

    fn is_inside(&self) -> bool {
        self.open.is_some()
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        let open =
            self.open.get_or_insert_with(|| Open { place: Some(line.place), rank: line.rank, ..Open::default() });
        let starts = line.text.trim_start().starts_with(['{', '}', '[', ']', '"', '\'', '(', ')']);
        if (open.segments > 0 || !open.dicts.is_empty()) && !starts {
            self.close(found);
            return false;
        }
        for token in Tokens::of(line.text) {
            open.token(token);
            if open.is_closed {
                break;
            }
        }
        let has_begun = open.segments > 0 || !open.dicts.is_empty();
        if open.is_closed || !has_begun {
            self.close(found);
        }
        has_begun
    }

    fn end(&mut self, found: &mut Found) {
        self.close(found);
    }
}

impl SegmentList {
    fn close(&mut self, found: &mut Found) {
        let Some(mut open) = self.open.take() else { return };
        // A segment that is cut counts as far as it goes.
        while let Some(dict) = open.dicts.pop() {
            open.dict(&dict);
        }
        if open.segments > 0
            && let Some(place) = open.place
        {
            open.list.is_cut = !open.is_closed;
            found.add(place, open.rank, Fact::SnapshotList(Box::new(open.list)));
        }
    }
}

impl Open {
    fn token(&mut self, token: Token<'_>) {
        match token {
            Token::Open => {
                if self.dicts.len() < DEPTH {
                    self.dicts.push(Dict::default());
                }
            }
            Token::Close => {
                if let Some(dict) = self.dicts.pop() {
                    self.dict(&dict);
                }
            }
            Token::ListOpen => self.lists = self.lists.saturating_add(1),
            Token::ListClose => {
                // The list's own bracket may stand on a line that was not seen.
                self.lists = self.lists.saturating_sub(1);
                self.is_closed = self.lists == 0 && self.dicts.is_empty() && self.segments > 0;
            }
            Token::Colon => self.key = self.last.take(),
            Token::Text(text) => match self.key.take() {
                Some(key) => self.text(&key, text),
                None => self.last = Some(text.chars().take(40).collect()),
            },
            Token::Number(number) => {
                if let Some(key) = self.key.take() {
                    self.number(&key, number);
                }
            }
            Token::Other(_) => self.key = None,
        }
        if matches!(token, Token::Open | Token::ListOpen) {
            self.key = None;
        }
    }

    /// The dict that a key belongs to. JSON in lines shows its first keys before the first line with a needle.
    fn top(&mut self) -> Option<&mut Dict> {
        if self.dicts.is_empty() && self.segments == 0 {
            self.dicts.push(Dict::default());
        }
        self.dicts.last_mut()
    }

    fn text(&mut self, key: &str, text: &str) {
        if key == "state"
            && let Some(dict) = self.top()
        {
            dict.state = Some(text == "inactive");
        }
    }

    fn number(&mut self, key: &str, number: i128) {
        let Ok(value) = u64::try_from(number) else { return };
        if !matches!(key, "device" | "total_size" | "allocated_size" | "active_size" | "size") {
            return;
        }
        let Some(dict) = self.top() else { return };
        match key {
            "device" => dict.device = u32::try_from(value).ok(),
            "total_size" => dict.total = Some(value),
            "allocated_size" => dict.allocated = value,
            "active_size" => dict.active = value,
            _ => dict.size = Some(value),
        }
    }

    fn dict(&mut self, dict: &Dict) {
        if let Some(total) = dict.total {
            let device = dict.device.unwrap_or(0);
            if self.list.devices.len() < DEVICES || self.list.devices.contains_key(&device) {
                let sums = self.list.devices.entry(device).or_default();
                let own = DeviceSegments {
                    segments: 1,
                    reserved_bytes: total,
                    allocated_bytes: dict.allocated,
                    active_bytes: dict.active,
                    ..dict.blocks
                };
                sums.add(own);
            }
            self.segments += 1;
        } else if let (Some(size), Some(is_free), Some(above)) = (dict.size, dict.state, self.dicts.last_mut()) {
            let free = if is_free { size } else { 0 };
            above.blocks.add(DeviceSegments {
                blocks: 1,
                free_blocks: u64::from(is_free),
                free_bytes: free,
                largest_free_block_bytes: free,
                ..DeviceSegments::default()
            });
        }
    }
}

impl DeviceSegments {
    fn add(&mut self, other: Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.segments, other.segments);
        sum(&mut self.reserved_bytes, other.reserved_bytes);
        sum(&mut self.allocated_bytes, other.allocated_bytes);
        sum(&mut self.active_bytes, other.active_bytes);
        sum(&mut self.blocks, other.blocks);
        sum(&mut self.free_blocks, other.free_blocks);
        sum(&mut self.free_bytes, other.free_bytes);
        self.largest_free_block_bytes = self.largest_free_block_bytes.max(other.largest_free_block_bytes);
    }
}
