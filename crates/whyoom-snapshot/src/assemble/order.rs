//! Traces whose entries are out of order.

use crate::{Device, Events, Warnings};

/// A step back in time by less than this is jitter of the clock conversion: the list order is the truth there.
const JITTER_US: i64 = 1_000;

/// Repairs the order of a ring that was not re-linearised: it was resized while recording went on, so that later
/// entries stand before earlier ones. The pieces, each in order, are put in order of their times.
pub(super) fn by_time(device: &mut Device, warnings: &mut Warnings) {
    let times = &device.events.time_us;
    let back = |pair: &[i64]| pair[0].saturating_sub(pair[1]);
    let steps_back = times.windows(2).filter(|pair| back(pair) > 0).count();
    if steps_back == 0 {
        return;
    }
    let cuts: Vec<usize> =
        times.windows(2).enumerate().filter(|(_, p)| back(p) >= JITTER_US).map(|(i, _)| i + 1).collect();
    if cuts.is_empty() {
        warnings.add("time_jitter", || {
            format!(
                "{steps_back} trace entries are some microseconds older than the entry before; their order was kept"
            )
        });
        return;
    }
    let order = order(times, &cuts);
    warnings.add("reordered", || {
        format!("the trace runs back in time at {} places, as a ring that was resized does; it was put in order of its times", cuts.len())
    });
    apply(&mut device.events, &order);
}

/// The order in which entries are to be read.
fn order(times: &[i64], cuts: &[usize]) -> Vec<u32> {
    let bounds: Vec<usize> = std::iter::once(0).chain(cuts.iter().copied()).chain([times.len()]).collect();
    let mut pieces: Vec<(i64, i64, usize, usize)> = bounds
        .windows(2)
        .map(|b| {
            let piece = &times[b[0]..b[1]];
            let first = piece.iter().copied().min().unwrap_or(0);
            let last = piece.iter().copied().max().unwrap_or(0);
            (first, last, b[0], b[1])
        })
        .collect();
    pieces.sort_by_key(|p| (p.0, p.2));
    let disjoint = pieces.windows(2).all(|p| p[0].1.saturating_sub(p[1].0) < JITTER_US);
    if disjoint {
        return pieces.iter().flat_map(|p| p.2 as u32..p.3 as u32).collect();
    }
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by_key(|i| times[*i as usize]);
    order
}

fn apply(events: &mut Events, order: &[u32]) {
    permute(&mut events.action, order);
    permute(&mut events.addr, order);
    permute(&mut events.size, order);
    permute(&mut events.stream, order);
    permute(&mut events.stack, order);
    permute(&mut events.time_us, order);
    permute(&mut events.pool, order);
    let mut place = vec![0u32; order.len()];
    for (new, old) in order.iter().enumerate() {
        place[*old as usize] = new as u32;
    }
    for note in &mut events.notes {
        note.0 = place.get(note.0 as usize).copied().unwrap_or(note.0);
    }
    events.notes.sort_by_key(|n| n.0);
}

fn permute<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
    if !column.is_empty() {
        *column = order.iter().filter_map(|i| column.get(*i as usize).copied()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, NoteKind, StackId, StrId, StreamId};

    /// A trace whose addresses number the entries, with a note on the first.
    fn device(times: &[i64]) -> Device {
        let n = times.len();
        let events = Events {
            action: vec![Action::Alloc; n],
            addr: (0..n as u64).collect(),
            size: vec![512; n],
            stream: vec![StreamId(0); n],
            stack: vec![StackId::EMPTY; n],
            time_us: times.to_vec(),
            pool: Vec::new(),
            notes: vec![(0, NoteKind::UserMetadata, StrId(0))],
        };
        Device { events, ..Device::default() }
    }

    fn sorted(times: &[i64]) -> (Vec<u64>, Vec<&'static str>, u32) {
        let (mut device, mut warnings) = (device(times), Warnings::default());
        by_time(&mut device, &mut warnings);
        (device.events.addr, warnings.iter().map(|(code, _)| code).collect(), device.events.notes[0].0)
    }

    #[test]
    fn a_trace_in_order_stays() {
        assert_eq!(sorted(&[5, 5, 6, 9]), (vec![0, 1, 2, 3], vec![], 0));
    }

    #[test]
    fn jitter_is_told_and_left() {
        assert_eq!(sorted(&[5, 8, 6, 9]), (vec![0, 1, 2, 3], vec!["time_jitter"], 0));
    }

    #[test]
    fn a_wrapped_ring_is_put_in_order() {
        let s = 1_000_000;
        assert_eq!(sorted(&[7 * s, 8 * s, s, 2 * s]), (vec![2, 3, 0, 1], vec!["reordered"], 2));
        // Jitter within a piece stays as it is.
        assert_eq!(sorted(&[7 * s + 3, 7 * s, s, 2 * s]), (vec![2, 3, 0, 1], vec!["reordered"], 2));
        // Entries appended after the wrap, before the ring was full again.
        assert_eq!(sorted(&[5 * s, s, 3 * s, 7 * s]), (vec![1, 2, 0, 3], vec!["reordered"], 2));
    }
}
