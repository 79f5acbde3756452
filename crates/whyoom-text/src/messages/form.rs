//! What a form of a message is, and matching a text with one.

use std::collections::HashMap;

use regex::{Captures, Regex};

use super::oom::{Backend, OomMessage, Process};
use super::release::Releases;
use crate::{Quantity, Units};

/// One row of the table of forms: the pieces of a message in their order. A text may end after any of them.
///
/// In a piece, a blank stands for any white space or none (terminals break lines anywhere), `{name}` for a size that
/// is caught under the name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Its name in [`OomMessage::form`].
    pub name: &'static str,
    /// Whose allocator, unless a group `backend` says it.
    pub backend: Backend,
    /// Releases that print it.
    pub releases: Releases,
    /// A message that stops before this many pieces is none of this form.
    pub least: usize,
    /// Regexes with named groups.
    pub pieces: &'static [&'static str],
}

/// A size as the messages print it.
const SIZE: &str = r"[0-9]+(?:\.[0-9]+)?\s*(?:bytes|[KMGTPE]i?B)";

impl Form {
    /// A regex for the first piece.
    pub(super) fn beginning(&self) -> String {
        self.pieces.first().map_or_else(String::new, |piece| expanded(piece))
    }
}

/// A piece as a regex.
fn expanded(piece: &str) -> String {
    let spaced = piece.replace(' ', r"\s*");
    let named =
        NAMES.iter().fold(spaced, |piece, name| piece.replace(&format!("{{{name}}}"), &format!("(?<{name}>{SIZE})")));
    named.replace("SIZE", SIZE)
}

/// A form, compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    pub form: &'static Form,
    regex: Regex,
}

/// A text that has the beginning of a form.
#[derive(Debug)]
pub(super) struct Match<'t> {
    pub form: &'static Form,
    groups: HashMap<&'static str, &'t str>,
    /// How many pieces are there.
    pub pieces: usize,
    /// Where in the text it lies.
    pub range: std::ops::Range<usize>,
}

impl Compiled {
    pub(super) fn new(form: &'static Form) -> Self {
        let mut pattern = String::from("(?s)");
        for (i, piece) in form.pieces.iter().enumerate() {
            if i > 0 {
                pattern.push_str(r"(?:\s*");
            }
            pattern.extend([&expanded(piece), "(?<", PIECES[i], ">)"]);
        }
        pattern.push_str(&")?".repeat(form.pieces.len() - 1));
        let regex = Regex::new(&pattern).unwrap_or_else(|e| unreachable!("{}: a constant pattern: {e}", form.name));
        Self { form, regex }
    }

    /// The text's longest beginning in this form, at its first place.
    pub(super) fn find<'t>(&self, text: &'t str) -> Option<Match<'t>> {
        let found = self.regex.captures(text)?;
        let pieces = (0..self.form.pieces.len()).take_while(|i| found.name(PIECES[*i]).is_some()).count();
        let groups = NAMES.iter().chain(&OTHER).filter_map(|name| Some((*name, group(&found, name)?))).collect();
        (pieces >= self.form.least).then(|| Match {
            form: self.form,
            groups,
            pieces,
            range: found.get(0).map_or(0..0, |g| g.range()),
        })
    }
}

fn group<'t>(found: &Captures<'t>, name: &str) -> Option<&'t str> {
    found.name(name).map(|g| g.as_str())
}

/// Marks of pieces.
const PIECES: [&str; 9] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"];
/// Groups that catch a size.
const NAMES: [&str; 12] = [
    "request",
    "total",
    "free",
    "allowed",
    "allocated",
    "private",
    "active",
    "reserved",
    "unallocated",
    "cached",
    "other",
    "block",
];
/// Groups that catch something else.
const OTHER: [&str; 6] = ["backend", "device", "raw", "processes", "request_raw", "capacity"];

impl Match<'_> {
    /// Whether every piece is there.
    pub(super) fn is_whole(&self) -> bool {
        self.pieces == self.form.pieces.len()
    }

    /// Whether a group caught something.
    pub(super) fn has(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The figures of it.
    pub(super) fn message(&self) -> OomMessage {
        let size = |name: &str| self.groups.get(name).and_then(|text| Quantity::parse(&squeezed(text), Units::Binary));
        let mut m = OomMessage::new(self.backend(), self.form.name, self.form.releases);
        m.device = self.device();
        m.request_bytes = size("request")
            .or_else(|| self.groups.get("request_raw").and_then(|n| n.parse().ok()).map(Quantity::exact));
        m.total_bytes = size("total");
        m.free_bytes = size("free");
        m.allowed_bytes = size("allowed");
        m.allocated_bytes = size("allocated");
        m.private_pool_bytes = size("private");
        m.active_bytes = size("active");
        m.reserved_bytes = size("reserved");
        m.reserved_unallocated_bytes = size("unallocated").or_else(|| size("cached"));
        m.outside_bytes = size("other");
        m.block_limit_bytes = size("block");
        if let Some(list) = self.groups.get("processes") {
            processes(list, &mut m);
        }
        m.is_cut = !self.is_whole();
        m
    }

    fn backend(&self) -> Backend {
        match self.groups.get("backend").copied() {
            Some("CUDA") => Backend::Cuda,
            Some("HIP") => Backend::Hip,
            Some("XPU") => Backend::Xpu,
            Some("NPU") => Backend::Npu,
            Some(_) => Backend::Other,
            None => self.form.backend,
        }
    }

    fn device(&self) -> Option<u32> {
        let raw = || self.groups.get("raw").and_then(|c| c.chars().next()).map(u32::from);
        self.groups.get("device").and_then(|n| n.parse().ok()).or_else(raw)
    }
}

/// The sentences on processes.
fn processes(list: &str, m: &mut OomMessage) {
    for sentence in list.split("in use.") {
        let sentence: String = sentence.split_whitespace().collect();
        if let Some(at) = sentence.find("thisprocesshas") {
            m.process_bytes = m.process_bytes.or(size_before_memory(&sentence[at + "thisprocesshas".len()..]));
        } else if let Some((pid, size)) = sentence.strip_prefix("Process").and_then(|s| s.split_once("has")) {
            // Bounded by what is held of one message.
            if let Ok(pid) = pid.parse() {
                m.other_processes.push(Process { pid, bytes: size_before_memory(size) });
            }
        }
    }
}

fn size_before_memory(text: &str) -> Option<Quantity> {
    Quantity::parse(text.strip_suffix("memory")?, Units::Binary)
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}
