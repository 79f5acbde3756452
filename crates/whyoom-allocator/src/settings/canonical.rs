//! The shortest string that sets given values.

use super::draft::{LARGE_SEGMENT_MEBIBYTES, MAX_MEBIBYTES, OWN_SEGMENT_MEBIBYTES};
use super::{Backend, Key, MIB, Settings};
use crate::Release;

/// No string of the release sets these values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("no setting of PyTorch {release} makes `{key}` {value}")]
pub struct Unwritable {
    /// The key, by its name.
    pub key: &'static str,
    /// The value asked for.
    pub value: String,
    /// The release.
    pub release: Release,
}

/// The string that [`parse`](super::parse) reads as `settings` in `release`, with as few items as there can be, in the
/// order of [`KEYS`](super::KEYS); empty for the defaults.
///
/// # Errors
/// Where the release has no such key, or refuses the value.
pub fn canonical(settings: &Settings, release: Release) -> Result<String, Unwritable> {
    let mut writer = Writer { release, items: Vec::new() };
    let default = Settings::default();
    if settings.backend != Backend::Native {
        writer.item("backend", "cudaMallocAsync", true)?;
    }
    writer.flag("expandable_segments", settings.expandable_segments)?;
    if settings.large_segment_size != default.large_segment_size {
        let is_allowed = settings.large_segment_size > OWN_SEGMENT_MEBIBYTES * MIB;
        writer.size("large_segment_size_mb", settings.large_segment_size, is_allowed)?;
    }
    let least = if release.at_least(2, 11) {
        settings.large_segment_size / MIB
    } else {
        LARGE_SEGMENT_MEBIBYTES + u64::from(!release.at_least(2, 10))
    };
    if let Some(size) = settings.max_split_size {
        writer.size("max_split_size_mb", size, size / MIB >= least)?;
    }
    let usual = if release.at_least(2, 11) { settings.large_segment_size } else { default.max_non_split_rounding };
    let rounding = settings.max_non_split_rounding;
    if rounding != usual {
        writer.size("max_non_split_rounding_mb", rounding, rounding / MIB >= least)?;
    }
    let threshold = settings.garbage_collection_threshold;
    if threshold != 0.0 {
        writer.item("garbage_collection_threshold", &threshold.to_string(), threshold > 0.0 && threshold < 1.0)?;
    }
    writer.divisions(&settings.roundup_power2_divisions)?;
    if let Some(bypass) = settings.roundup_bypass_threshold {
        writer.size("roundup_bypass_threshold_mb", bypass, true)?;
    }
    if let Some(fraction) = settings.per_process_memory_fraction {
        let is_allowed = (0.0..=1.0).contains(&fraction);
        writer.item("per_process_memory_fraction", &fraction.to_string(), is_allowed)?;
    }
    writer.flag("release_lock_on_cudamalloc", settings.release_lock_on_cudamalloc)?;
    writer.flag("graph_capture_record_stream_reuse", settings.graph_capture_record_stream_reuse)?;
    writer.flag("throw_on_cudamalloc_oom", settings.throw_on_cudamalloc_oom)?;
    Ok(writer.items.join(","))
}

struct Writer {
    release: Release,
    items: Vec<String>,
}

impl Writer {
    fn item(&mut self, name: &'static str, value: &str, is_allowed: bool) -> Result<(), Unwritable> {
        if !is_allowed || !Key::named(name).is_some_and(|key| key.is_known(self.release)) {
            return Err(Unwritable { key: name, value: value.to_owned(), release: self.release });
        }
        self.items.push(format!("{name}:{value}"));
        Ok(())
    }

    fn flag(&mut self, name: &'static str, value: bool) -> Result<(), Unwritable> {
        if value { self.item(name, "True", true) } else { Ok(()) }
    }

    fn size(&mut self, name: &'static str, bytes: u64, is_allowed: bool) -> Result<(), Unwritable> {
        let mebibytes = bytes / MIB;
        let value = if mebibytes == MAX_MEBIBYTES {
            // Any negative number becomes the largest size, in every release.
            "-1".to_owned()
        } else if bytes.is_multiple_of(MIB) {
            mebibytes.to_string()
        } else {
            format!("{bytes} bytes")
        };
        // `std::stoi` up to 2.9.
        let fits = self.release.at_least(2, 10) || mebibytes == MAX_MEBIBYTES || i32::try_from(mebibytes).is_ok();
        self.item(name, &value, is_allowed && bytes.is_multiple_of(MIB) && fits)
    }

    fn divisions(&mut self, table: &[u32; 16]) -> Result<(), Unwritable> {
        const NAME: &str = "roundup_power2_divisions";
        if table.iter().all(|divisions| *divisions == 0) {
            return Ok(());
        }
        let lists = self.release.at_least(2, 0);
        let are_powers = table.iter().all(|divisions| *divisions == 0 || divisions.is_power_of_two());
        if table.iter().all(|divisions| *divisions == table[0]) {
            return self.item(NAME, &table[0].to_string(), are_powers);
        }
        let list = shorter(&entries(table), &entries_with_rest(table, self.release));
        // 0 in a list is read from 2.4.
        let zero = !list.contains(":0") || self.release.at_least(2, 4);
        self.item(NAME, &format!("[{list}]"), are_powers && lists && zero)
    }
}

fn shorter(a: &str, b: &str) -> String {
    if b.len() < a.len() { b.to_owned() } else { a.to_owned() }
}

/// The last octave of the run of equal values at the low end: one entry for it fills all below.
fn low_run(table: &[u32]) -> usize {
    table.iter().take_while(|divisions| **divisions == table[0]).count() - 1
}

fn entry(octave: usize, divisions: u32) -> String {
    format!("{}:{divisions}", 1_u64 << octave)
}

/// The list without `>`: what is not listed stays 0.
fn entries(table: &[u32]) -> String {
    let first = low_run(table);
    let listed = table
        .iter()
        .enumerate()
        .filter(|(octave, divisions)| *octave == first || (*octave > first && **divisions != 0));
    listed.map(|(octave, divisions)| entry(octave, *divisions)).collect::<Vec<_>>().join(",")
}

/// The list that ends in `>` for the run of equal values at the high end.
fn entries_with_rest(table: &[u32], release: Release) -> String {
    let rest = table[table.len() - 1];
    let run = table.iter().rev().take_while(|divisions| **divisions == rest).count();
    // `>` begins above the last listed entry; up to 2.9 with it.
    let last_listed = table.len() - run - usize::from(release.at_least(2, 10));
    let first = low_run(table);
    let listed =
        (first..last_listed).filter(|octave| *octave == first || table[*octave] != 0).chain([last_listed.max(first)]);
    let mut list: Vec<_> = listed.map(|octave| entry(octave, table[octave])).collect();
    list.dedup();
    list.push(format!(">:{rest}"));
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::parse;

    #[test]
    fn tables_take_their_shortest_form() {
        let mut settings = Settings::default();
        let write = |settings: &Settings, minor| canonical(settings, Release::new(2, minor));
        settings.roundup_power2_divisions = [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8];
        assert_eq!(write(&settings, 11).as_deref(), Ok("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"));
        assert_eq!(write(&settings, 9).as_deref(), Ok("roundup_power2_divisions:[256:1,512:2,1024:4,2048:8,>:8]"));
        settings.roundup_power2_divisions = [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(write(&settings, 4).as_deref(), Ok("roundup_power2_divisions:[2:0,4:2]"));
        assert!(write(&settings, 3).is_err());
    }

    #[test]
    fn defaults_are_the_empty_string() {
        for release in [Release::new(1, 13), Release::new(2, 0), Release::new(2, 15)] {
            assert_eq!(canonical(&Settings::default(), release).as_deref(), Ok(""));
        }
    }

    #[test]
    fn a_value_that_a_release_refuses_is_named() {
        let settings = Settings { max_split_size: Some(20 * MIB), ..Settings::default() };
        let refused = canonical(&settings, Release::new(2, 9)).map_err(|error| error.to_string());
        assert_eq!(refused, Err("no setting of PyTorch 2.9 makes `max_split_size_mb` 20".to_owned()));
        let text = canonical(&settings, Release::new(2, 10)).unwrap_or_default();
        assert_eq!(parse(&text, Release::new(2, 10)).map(|parsed| parsed.settings), Ok(settings));
    }
}
