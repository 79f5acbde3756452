//! Snapshots as pickles.

use whyoom_pickle::{Limits, Machine};

use super::{ReadError, sniff};
use crate::Snapshot;
use crate::assemble::{self, Partial};
use crate::collect::Collector;

/// Reads a pickle. `damage` says why the bytes end early, if they do.
pub(super) fn read(bytes: &[u8], damage: Option<String>) -> Result<Snapshot, ReadError> {
    let mut machine = Machine::new(bytes, Collector::new(bytes.len()), Limits::for_input(bytes.len()));
    let input_bytes = bytes.len() as u64;
    match machine.run() {
        Ok(top) => {
            let end = machine.end();
            let mut collector = machine.into_sink();
            if bytes[end..].iter().any(|b| *b != 0) {
                collector.warnings.add("trailing_bytes", || {
                    format!(
                        "{} bytes follow the end of the snapshot at byte {end} and were not read",
                        bytes.len() - end
                    )
                });
            }
            if let Some(damage) = damage {
                collector.warnings.add("damaged_archive", || damage);
            }
            assemble::snapshot(collector, top, input_bytes, None)
        }
        Err(error) if error.kind.is_refused_code() => {
            Err(ReadError::RunsCode { what: error.kind.to_string(), offset: error.offset as u64 })
        }
        Err(error) => {
            let offset = error.offset as u64;
            let what = damage.unwrap_or_else(|| error.kind.to_string());
            let top = machine.salvage();
            let collector = machine.into_sink();
            let partial = Partial { what: what.clone(), offset };
            let saved = top.and_then(|top| assemble::snapshot(collector, top, input_bytes, Some(&partial)).ok());
            saved.filter(|s| !s.devices.is_empty()).map_or_else(
                || {
                    Err(if bytes[0] == 0x80 {
                        ReadError::Damaged { what, offset, input_bytes }
                    } else {
                        sniff::unknown(bytes)
                    })
                },
                Ok,
            )
        }
    }
}
