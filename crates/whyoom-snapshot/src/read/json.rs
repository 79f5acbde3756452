//! Snapshots as JSON text, which the viewer also takes.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use whyoom_pickle::{Ref, Refusal, Shapes, Sink, Value};

use super::{ReadError, sniff};
use crate::Snapshot;
use crate::assemble::{self, Partial};
use crate::collect::Collector;

/// Items of a list that are handed on at once.
const PORTION: usize = 1000;

/// Reads the JSON text that begins at `start`. `damage` says why the bytes end early, if they do.
pub(super) fn read(bytes: &[u8], start: usize, damage: Option<String>) -> Result<Snapshot, ReadError> {
    let text = &bytes[start..];
    let input_bytes = bytes.len() as u64;
    let mut reader =
        Reader { collector: Collector::new(bytes.len()), shapes: Shapes::default(), stack: Vec::new(), saved: None };
    let mut json = serde_json::Deserializer::from_slice(text);
    let outcome = Seed(&mut reader).deserialize(&mut json);
    match outcome {
        Ok(top) => {
            if json.end().is_err() {
                reader
                    .collector
                    .warnings
                    .add("trailing_bytes", || "more text follows the end of the snapshot and was not read".to_owned());
            }
            if let Some(damage) = damage {
                reader.collector.warnings.add("damaged_archive", || damage);
            }
            assemble::snapshot(reader.collector, top, input_bytes, None)
        }
        Err(error) => {
            let offset = (start + offset(text, error.line(), error.column())) as u64;
            let what = damage.unwrap_or_else(|| format!("the JSON text breaks off or is malformed ({error})"));
            let partial = Partial { what: what.clone(), offset };
            let top = reader.saved;
            let saved = top.and_then(|top| assemble::snapshot(reader.collector, top, input_bytes, Some(&partial)).ok());
            match saved.filter(|s| !s.devices.is_empty()) {
                Some(snapshot) => Ok(snapshot),
                // Text in brackets that is no JSON from its first word on is not a damaged snapshot.
                None if offset - start as u64 <= 16 && input_bytes > 64 => Err(sniff::unknown(bytes)),
                None => Err(ReadError::Damaged { what, offset, input_bytes }),
            }
        }
    }
}

/// Byte offset of a line and column, both counted from 1.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let ends = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1);
    let start = if line > 1 { ends.into_iter().nth(line - 2).unwrap_or(0) } else { 0 };
    (start + column).min(text.len())
}

/// Hands containers to the collector as they close, as the pickle machine does.
struct Reader {
    collector: Collector,
    shapes: Shapes,
    /// Values of the containers that are open.
    stack: Vec<Value>,
    /// What the innermost container became inside which the text broke off.
    saved: Option<Value>,
}

impl Reader {
    /// Moves the items above `at` into `list`.
    fn flush(&mut self, list: Ref, at: usize) -> Result<Ref, Refusal> {
        let items = self.stack.get(at..).unwrap_or_default();
        let made = if items.is_empty() { Ok(list) } else { self.collector.list(list, items) };
        self.stack.truncate(at);
        made
    }

    /// Closes the dict whose keys and values, in turn, are above `at`.
    fn close(&mut self, at: usize) -> Result<Ref, Refusal> {
        let items = self.stack.get(at..).unwrap_or_default();
        let keys: Vec<u32> = items.iter().step_by(2).filter_map(|k| k.as_text()).collect();
        let made = match self.shapes.intern(&keys) {
            _ if keys.is_empty() => Ok(Ref::EMPTY_DICT),
            Some(shape) => {
                let values: Vec<Value> = items.iter().skip(1).step_by(2).copied().collect();
                self.collector.row(shape, &keys, &values)
            }
            None => self.collector.dict(Ref::EMPTY_DICT, items),
        };
        self.stack.truncate(at);
        made
    }
}

struct Seed<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::int(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::unsigned(n))
    }

    fn visit_f64<E>(self, f: f64) -> Result<Value, E> {
        Ok(Value::float(f))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.collector.text(text.as_bytes()).map(Value::text).map_err(E::custom)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NONE)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let reader = self.0;
        let at = reader.stack.len();
        let mut list = Ref::EMPTY_LIST;
        loop {
            match seq.next_element_seed(Seed(reader)) {
                Ok(Some(item)) => {
                    reader.stack.push(item);
                    if reader.stack.len() - at >= PORTION {
                        list = reader.flush(list, at).map_err(de::Error::custom)?;
                    }
                }
                Ok(None) => return reader.flush(list, at).map(Value::of).map_err(de::Error::custom),
                Err(error) => {
                    let inner = reader.saved.take();
                    reader.stack.extend(inner);
                    let items = reader.stack.split_off(at);
                    reader.saved = reader.collector.salvage(list, &items).map(Value::of);
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let reader = self.0;
        let at = reader.stack.len();
        loop {
            let item = match map.next_key_seed(Seed(reader)) {
                Ok(Some(key)) => {
                    reader.stack.push(key);
                    map.next_value_seed(Seed(reader)).map(Some)
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match item {
                Ok(Some(value)) => reader.stack.push(value),
                Ok(None) => return reader.close(at).map(Value::of).map_err(de::Error::custom),
                Err(error) => {
                    let inner = reader.saved.take();
                    reader.stack.extend(inner);
                    let items = reader.stack.split_off(at);
                    reader.saved = reader.collector.salvage(Ref::EMPTY_DICT, &items).map(Value::of);
                    return Err(error);
                }
            }
        }
    }
}
