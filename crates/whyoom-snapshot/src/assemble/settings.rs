//! `allocator_settings`.

use whyoom_pickle::{Kind, Value};

use crate::collect::{Collector, kind};
use crate::{RecordedSettings, StrId};

/// The settings that the dict `value` records.
pub(super) fn settings(collector: &Collector, value: Value) -> Option<RecordedSettings> {
    let dict = value.as_ref().filter(|r| r.kind == kind::DICT || r.kind == Kind::EMPTY_DICT)?;
    let mut settings = RecordedSettings::default();
    for (key, value) in collector.items(dict) {
        let Some(name) = key.as_text().map(|k| collector.text_of(StrId(k))) else { continue };
        match (name, *value) {
            ("PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_ALLOC_CONF", value) if value.as_text().is_some() => {
                settings.conf = Some(collector.render(value, 1));
            }
            // -1 is `SIZE_MAX` read as a signed number: no limit.
            ("max_split_size", Value::Int(n)) => settings.max_split_size = u64::try_from(n).ok(),
            ("max_split_size", Value::Big(_)) => settings.max_split_size = None,
            ("garbage_collection_threshold", Value::Float(f)) => settings.garbage_collection_threshold = f,
            ("garbage_collection_threshold", Value::Int(n)) => settings.garbage_collection_threshold = n as f64,
            ("expandable_segments", Value::Bool(b)) => settings.expandable_segments = b,
            ("expandable_segments", Value::Int(n)) => settings.expandable_segments = n != 0,
            ("roundup_power2_divisions", Value::Ref(r)) if r.kind == kind::DICT => {
                settings.roundup_power2_divisions = Some(divisions(collector, r));
            }
            (name, value) => settings.other.push((name.to_owned(), collector.render(value, 3))),
        }
    }
    Some(settings)
}

fn divisions(collector: &Collector, dict: whyoom_pickle::Ref) -> [u32; 16] {
    let mut divisions = [0; 16];
    for (key, value) in collector.items(dict) {
        let mib = match *key {
            Value::Int(n) => u64::try_from(n).ok(),
            other => other.as_text().and_then(|k| collector.text_of(StrId(k)).parse().ok()),
        };
        if let (Some(mib), Value::Int(n)) = (mib, *value)
            && mib.is_power_of_two()
            && let Some(slot) = divisions.get_mut(mib.trailing_zeros() as usize)
        {
            *slot = u32::try_from(n).unwrap_or(0);
        }
    }
    divisions
}
