//! A message with what stands around it, and the arithmetic that several rules share.

use whyoom_text::Quantity;
use whyoom_text::messages::OomMessage;

use super::super::dossier::{About, Seen};
use crate::causes::{in_bytes, in_number};
use crate::explanation::Evidence;
use crate::words;

/// What contexts, libraries and kernels of one process take on a card at most, as far as it is usual: 0.3 to 0.6 GiB
/// for a context with its kernels, more with cuDNN's, cuBLAS's and NCCL's buffers.
pub(super) const OWN_OUTSIDE: u64 = 5 << 28;

/// One message.
pub(super) struct Scene<'a> {
    pub(super) message: &'a OomMessage,
    pub(super) seen: Seen<'a>,
    pub(super) about: &'a About<'a>,
}

fn least(q: Quantity) -> u64 {
    q.bytes.saturating_sub(q.within)
}

fn most(q: Quantity) -> u64 {
    q.bytes.saturating_add(q.within)
}

impl Scene<'_> {
    /// Request and what is live.
    pub(super) fn needed(&self) -> Option<u64> {
        Some(self.message.request_bytes?.bytes.saturating_add(self.message.allocated_bytes?.bytes))
    }

    /// `needed`, less all roundings.
    pub(super) fn needed_at_least(&self) -> Option<u64> {
        Some(least(self.message.request_bytes?).saturating_add(least(self.message.allocated_bytes?)))
    }

    pub(super) fn total_at_most(&self) -> Option<u64> {
        self.message.total_bytes.map(most)
    }

    /// The driver had well more free than was asked, whatever the rounding.
    pub(super) fn is_in_free(&self) -> bool {
        let (Some(request), Some(free)) = (self.message.request_bytes, self.message.free_bytes) else { return false };
        // Some pages that are free make no room: the driver's granularity, its page tables, and the moment between the
        // failure and the message.
        let floor = self.message.total_bytes.map_or(0, |total| total.bytes / 100);
        most(request).saturating_mul(2) <= least(free) && free.bytes >= floor
    }

    /// So much is missing even if nothing lay between blocks, whatever the rounding; `None` if the request would fit.
    pub(super) fn short_of_compact(&self) -> Option<u64> {
        let message = self.message;
        let (request, unused) = (message.request_bytes?, message.reserved_unallocated_bytes?);
        let can_have = most(unused).saturating_add(most(message.takeable_bytes()?));
        least(request).checked_sub(can_have).filter(|short| *short > 0)
    }

    /// What is left once the request is served without gaps.
    pub(super) fn spare_if_compact(&self) -> Option<u64> {
        let message = self.message;
        let can_have = message.reserved_unallocated_bytes?.bytes.saturating_add(message.takeable_bytes()?.bytes);
        can_have.checked_sub(message.request_bytes?.bytes)
    }

    /// Bytes of the card that are neither free nor, as far as it can be told, this process's. What the message says
    /// of this process is taken; else its allocator's bytes and what a process usually takes beside them.
    pub(super) fn held_by_others(&self) -> Option<u64> {
        let message = self.message;
        let taken = message.total_bytes?.bytes.checked_sub(message.free_bytes?.bytes)?;
        let own = match message.process_bytes {
            Some(process) => process.bytes,
            None => message.reserved_bytes?.bytes.saturating_add(OWN_OUTSIDE),
        };
        Some(taken.saturating_sub(own))
    }

    /// Card, live, unused, free, request and the rest as statements.
    pub(super) fn figures(&self) -> Vec<Evidence> {
        let message = self.message;
        let mut list = Vec::new();
        let mut say = |what: &str, quantity: Option<Quantity>| {
            if let Some(q) = quantity {
                list.push(in_bytes(format!("{what} {}", words::bytes(q.bytes)), q.bytes, &[]));
            }
        };
        say("asked for", message.request_bytes);
        say("live in PyTorch", message.allocated_bytes);
        say("reserved but unused", message.reserved_unallocated_bytes);
        say("of that, in private pools", message.private_pool_bytes);
        say("free on the card", message.free_bytes);
        say("allowed", message.allowed_bytes);
        say("the card has", message.total_bytes);
        say("outside PyTorch's allocator", message.outside_bytes);
        say("of that, in this process", message.own_outside_bytes);
        list
    }

    /// What the failing line itself suggests: one that adds up or collects what a model returns.
    pub(super) fn lead(&self) -> Vec<Evidence> {
        let Some(code) = self.message.user_frame.as_ref().and_then(|frame| frame.code.as_deref()) else {
            return Vec::new();
        };
        let said = if code.contains("+=") {
            "adds up"
        } else if code.contains(".append(") || code.contains(".extend(") {
            "collects"
        } else {
            return Vec::new();
        };
        let text = format!(
            "the failing line {said} a result: if that is a tensor with a graph, each step's graph stays alive"
        );
        vec![in_number(text, 1, "count", &[])]
    }

    /// `A request for 1.50 GiB failed`.
    pub(super) fn request(&self) -> String {
        match self.message.request_bytes {
            Some(q) if q.bytes > 0 => format!("A request for {} failed", words::bytes(q.bytes)),
            _ => "A request failed".to_owned(),
        }
    }

    /// `with 75.2 GiB live and 1.31 GiB reserved but unused`.
    pub(super) fn state(&self) -> String {
        let live = self.message.allocated_bytes.map(|q| format!("{} live", words::bytes(q.bytes)));
        let unused = self.message.reserved_unallocated_bytes.map(|q| match q.bytes {
            0 => "nothing reserved but unused".to_owned(),
            bytes => format!("{} reserved but unused", words::bytes(bytes)),
        });
        let parts: Vec<String> = live.into_iter().chain(unused).collect();
        if parts.is_empty() { String::new() } else { format!(" with {}", parts.join(" and ")) }
    }
}
