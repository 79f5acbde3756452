//! Traces of `torch.profiler` (Kineto, Chrome's trace format).
//!
//! With `profile_memory=True` each allocation and free is an instant event `[memory]` whose arguments are `Bytes`
//! (negative for a free), `Addr`, `Device Type`, `Device Id`, `Total Allocated` and `Total Reserved`
//! (`libkineto`'s `CpuTraceActivity`, `torch/csrc/profiler/kineto_shim.cpp`); a failed request is `[OutOfMemory]`.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::ProfilerTrace;
use super::memory::{Event, Memory};

/// `c10::DeviceType::CPU`.
const CPU: i64 = 0;

/// Why a trace was not read.
#[derive(Debug, thiserror::Error)]
pub enum KinetoError {
    /// It is no JSON, or ends before its first event.
    #[error("this is not a profiler trace: {0}; a trace that torch.profiler's export_chrome_trace wrote is expected")]
    NotATrace(#[from] serde_json::Error),
}

/// Reads a trace as a stream; memory is bounded by live allocations, not by the file. A file that ends early gives
/// what was complete, and [`ProfilerTrace::is_cut`].
///
/// # Errors
///
/// [`KinetoError::NotATrace`] if there is not one event.
pub fn read_kineto(reader: impl Read) -> Result<ProfilerTrace, KinetoError> {
    let mut memory = Memory::default();
    let mut deserializer = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(1 << 18, reader));
    match (Top(&mut memory)).deserialize(&mut deserializer) {
        Ok(()) => Ok(memory.finish(false)),
        Err(_) if !memory.is_empty() => Ok(memory.finish(true)),
        Err(error) => Err(error.into()),
    }
}

/// The whole file: an object with `traceEvents`, or their list alone.
struct Top<'a>(&'a mut Memory);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with traceEvents, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_trace = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                is_trace = true;
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if is_trace { Ok(()) } else { Err(A::Error::custom("there is no traceEvents")) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }
}

struct Events<'a>(&'a mut Memory);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(One(self.0))?.is_some() {}
        Ok(())
    }
}

/// One event. What it is comes before or after its arguments, so these are kept: all but a few are scalars.
struct One<'a>(&'a mut Memory);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut name = None;
        let (mut begin, mut duration) = (None, None);
        let mut arguments = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = map.next_value::<Value>()?.as_str().map(str::to_owned),
                "ts" => begin = number(&map.next_value()?),
                "dur" => duration = number(&map.next_value()?),
                // Arguments of kernels and operators are many: where the name came first they need not be kept.
                "args" if name.as_deref().is_none_or(is_memory) => arguments = Some(map.next_value::<Value>()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.events += 1;
        let Some(name) = name else { return Ok(()) };
        if is_memory(&name) {
            let event = arguments.as_ref().and_then(|arguments| event(&name, begin?, arguments));
            match event {
                Some(Owner::Device(event)) => self.0.event(event),
                Some(Owner::Host) => self.0.host_events += 1,
                None => self.0.unreadable += 1,
            }
        } else if let Some(step) = name.strip_prefix("ProfilerStep#").and_then(|step| step.parse().ok())
            && let (Some(begin), Some(duration)) = (begin, duration)
        {
            self.0.step(begin, begin + duration, step);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

fn is_memory(name: &str) -> bool {
    matches!(name, "[memory]" | "[OutOfMemory]")
}

/// A finite number, as such or as text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| number.is_finite())
}

/// A whole number, as such or as text, in decimals or `0x…`.
fn whole(value: &Value) -> Option<i64> {
    // An address may have its highest bit set: its bits are what counts.
    let of_text = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    };
    value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed)).or_else(|| of_text(value.as_str()?.trim()))
}

/// Whose memory an event is about.
enum Owner {
    Host,
    Device(Event),
}

/// The event; `None` if it lacks what it must have.
fn event(name: &str, time_us: f64, arguments: &Value) -> Option<Owner> {
    let get = |key: &str| arguments.get(key).and_then(whole);
    let kind = get("Device Type");
    let device = get("Device Id");
    if kind == Some(CPU) || kind.is_none() && device.is_none_or(|device| device < 0) {
        return Some(Owner::Host);
    }
    // Totals of devices that do not count them are negative.
    let total = |key: &str| get(key).and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = get("Bytes")?;
    Some(Owner::Device(Event {
        time_us,
        device: u32::try_from(device.unwrap_or(0)).ok()?,
        address: get("Addr").map(i64::cast_unsigned),
        bytes,
        allocated: total("Total Allocated"),
        reserved: total("Total Reserved"),
        is_failure: name == "[OutOfMemory]",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(ts: f64, addr: u64, bytes: i64, allocated: i64, reserved: i64) -> String {
        format!(
            r#"{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":{ts},"args":{{"Total Reserved":{reserved},"Total Allocated":{allocated},"Bytes":{bytes},"Addr":{addr},"Device Id":0,"Device Type":1,"Ev Idx":7}}}}"#
        )
    }

    fn trace() -> String {
        let events = [
            r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":100,"dur":50,"args":{}}"#.to_owned(),
            r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":150,"dur":50,"args":{}}"#.to_owned(),
            r#"{"ph":"X","cat":"kernel","name":"gemm","ts":"110.5","dur":3,"args":{"grid":[1,2,3],"deep":{"a":[{}]}}}"#.to_owned(),
            r#"{"ph":"i","name":"[memory]","ts":90,"args":{"Bytes":64,"Addr":5,"Device Id":-1,"Device Type":0}}"#.to_owned(),
            memory(110.0, 1000, 4096, 4096, 2_097_152),
            memory(120.0, 2000, 1_048_576, 1_052_672, 2_097_152),
            memory(160.0, 1000, -4096, 1_048_576, 2_097_152),
            memory(170.0, 1000, 512, 1_049_088, 2_097_152),
            r#"{"ph":"i","name":"[OutOfMemory]","ts":180,"args":{"Bytes":99999999,"Device Id":0,"Device Type":1,"Total Allocated":1049088,"Total Reserved":2097152}}"#.to_owned(),
        ];
        format!(
            r#"{{"schemaVersion":1,"deviceProperties":[{{}}],"traceEvents":[{}],"traceName":"x"}}"#,
            events.join(",\n")
        )
    }

    #[test]
    fn memory_events_become_series_and_largest_allocations() {
        let found = read_kineto(trace().as_bytes()).expect("a trace");
        assert_eq!((found.events, found.host_events, found.steps, found.is_cut), (9, 1, 2, false));
        let device = &found.devices[0];
        assert_eq!((device.allocations, device.frees, device.unfreed, device.unfreed_bytes), (3, 1, 2, 1_049_088));
        assert_eq!(device.allocated.max.map(|point| (point.bytes, point.step)), Some((1_052_672, Some(3))));
        assert_eq!(device.reserved.count, 4);
        let largest: Vec<_> = device.largest.iter().map(|one| (one.bytes, one.step, one.freed_us)).collect();
        assert_eq!(largest, [(1_048_576, Some(3), None), (4096, Some(3), Some(160.0)), (512, Some(4), None)]);
        assert_eq!(device.out_of_memory[0].bytes, 99_999_999);
    }

    #[test]
    fn a_cut_trace_gives_what_was_complete() {
        let text = trace();
        for end in 0..text.len() {
            match read_kineto(&text.as_bytes()[..end]) {
                Ok(found) => assert!(found.is_cut && found.events <= 9),
                Err(KinetoError::NotATrace(_)) => {}
            }
        }
    }

    #[test]
    fn a_list_alone_is_a_trace_and_other_json_is_none() {
        let text = format!("[{}, null]", memory(1.0, 1, 5, -1, -1));
        let found = read_kineto(text.as_bytes()).expect("a trace");
        assert_eq!((found.devices[0].allocations, found.devices[0].allocated.count), (1, 0));
        for text in ["", "{}", "3", "\"x\"", "{\"a\": [1, 2]}"] {
            assert!(read_kineto(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn bad_arguments_are_counted() {
        let text = r#"[{"name":"[memory]","ts":1},{"name":"[memory]","ts":1,"args":{"Device Type":1,"Bytes":1e400}},{"name":"[memory]","ts":1,"args":{"Device Type":1,"Device Id":0,"Bytes":"x"}}]"#;
        // 1e400 is no number of JSON: the list ends there.
        let found = read_kineto(text.as_bytes()).expect("a trace");
        assert!(found.unreadable >= 1 && found.is_cut);
    }
}
