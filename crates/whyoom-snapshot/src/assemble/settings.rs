//! `allocator_settings`.

use whyoom_pickle::{Item, Kind, Value};

use crate::collect::{Collector, kind};
use crate::{RecordedSettings, StrId};

/// The settings that the dict `value` records.
pub(super) fn settings(collector: &Collector, value: Value) -> Option<RecordedSettings> {
    let dict = value.as_ref().filter(|r| r.kind == kind::DICT || r.kind == Kind::EMPTY_DICT)?;
    let mut settings = RecordedSettings::default();
    for (key, value) in collector.items(dict) {
        let Some(name) = key.as_text().map(|k| collector.text_of(StrId(k))) else { continue };
        match (name, value.item()) {
            ("PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_ALLOC_CONF", Item::Ref(r)) if r.kind == Kind::TEXT => {
                settings.conf = Some(collector.text_of(StrId(r.index)).to_owned());
            }
            // -1 is `SIZE_MAX` read as a signed number: no limit.
            ("max_split_size", Item::Int(n)) => settings.max_split_size = u64::try_from(n).ok(),
            ("max_split_size", Item::Big(_)) => settings.max_split_size = None,
            ("garbage_collection_threshold", Item::Float(f)) => settings.garbage_collection_threshold = f,
            ("garbage_collection_threshold", Item::Int(n)) => settings.garbage_collection_threshold = n as f64,
            ("expandable_segments", Item::Bool(b)) => settings.expandable_segments = b,
            ("expandable_segments", Item::Int(n)) => settings.expandable_segments = n != 0,
            ("roundup_power2_divisions", Item::Ref(r)) if r.kind == kind::DICT => {
                settings.roundup_power2_divisions = Some(divisions(collector, r));
            }
            _ => settings.other.push((name.to_owned(), collector.render(*value, 3))),
        }
    }
    Some(settings)
}

fn divisions(collector: &Collector, dict: whyoom_pickle::Ref) -> [u32; 16] {
    let mut divisions = [0; 16];
    for (key, value) in collector.items(dict) {
        let mib = match key.as_int() {
            Some(n) => u64::try_from(n).ok(),
            None => key.as_text().and_then(|k| collector.text_of(StrId(k)).parse().ok()),
        };
        if let (Some(mib), Some(n)) = (mib, value.as_int())
            && mib.is_power_of_two()
            && let Some(slot) = divisions.get_mut(mib.trailing_zeros() as usize)
        {
            *slot = u32::try_from(n).unwrap_or(0);
        }
    }
    divisions
}
