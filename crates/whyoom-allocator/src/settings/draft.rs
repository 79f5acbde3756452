//! The values as a parse leaves them, with each key's range by release.

use super::error::{SettingsError, SettingsErrorKind, shown};
use super::keys::Key;
use super::number::{self, Number, NumberFault};
use super::tokens::Token;
use super::warning::{SettingsWarning, WarningCode};
use super::{Backend, HostSettings, MIB, Mention, Parsed, Reserve, Settings};
use crate::Release;

/// The largest size in MiB whose bytes fit (`max_allowed_split_size_mb`).
pub(super) const MAX_MEBIBYTES: u64 = u64::MAX / MIB;
/// `max_split_size_mb` and `max_non_split_rounding_mb` compare with this many MiB
/// (`kLargeBuffer`, `c10/cuda/CUDACachingAllocator.cpp`, 1.13), or with `large_segment_size_mb` from 2.11.
pub(super) const LARGE_SEGMENT_MEBIBYTES: u64 = 20;
/// `large_segment_size_mb` is above this (`kMinLargeAlloc`, `c10/core/AllocatorConfig.h`, 2.11).
pub(super) const OWN_SEGMENT_MEBIBYTES: u64 = 10;
/// `CUDAAllocatorConfig::pinned_max_register_threads`, `c10/cuda/CUDAAllocatorConfig.h`, 2.2.
const MAX_THREADS: u64 = 128;
/// Divisions above this round no request of a real card; it is the largest power of two that the table holds.
const MAX_DIVISIONS: u64 = 1 << 31;

/// A parse under way.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) release: Release,
    pub(super) parsed: Parsed,
}

impl Draft {
    pub(super) fn new(release: Release) -> Self {
        Self { release, parsed: Parsed::default() }
    }

    pub(super) fn settings(&mut self) -> &mut Settings {
        &mut self.parsed.settings
    }

    pub(super) fn warn(&mut self, code: WarningCode, position: usize, message: impl Into<String>) {
        self.parsed.warnings.push(SettingsWarning { code, position, message: message.into() });
    }

    /// Notes that `key` stands at `token`.
    pub(super) fn mention(&mut self, key: &'static Key, token: &Token) {
        if self.parsed.mentions(key.name) {
            self.warn(
                WarningCode::KeyRepeated,
                token.at,
                format!("`{key}` stands in the string more than once: the last one holds"),
            );
        } else {
            self.parsed.mentioned.push(Mention { key, position: token.at });
        }
    }

    /// Gives the value of a key that takes one token.
    pub(super) fn set(&mut self, key: &'static Key, token: &Token) -> Result<(), SettingsError> {
        if token.joined {
            self.warn(
                WarningCode::WordsJoined,
                token.at,
                format!("the blanks inside are dropped: `{key}` is read as `{}`", shown(&token.text)),
            );
        }
        match key.name {
            "max_split_size_mb" => self.settings().max_split_size = Some(self.at_least_large_segment(key, token)?),
            "max_non_split_rounding_mb" => {
                self.settings().max_non_split_rounding = self.at_least_large_segment(key, token)?;
            }
            "large_segment_size_mb" => {
                let mebibytes = self.size(key, token)?;
                if mebibytes <= OWN_SEGMENT_MEBIBYTES {
                    let range = format!("must be above {OWN_SEGMENT_MEBIBYTES}");
                    return Err(self.out_of_range(key, token, &range, &format!("{}", OWN_SEGMENT_MEBIBYTES + 1)));
                }
                self.settings().large_segment_size = mebibytes.min(MAX_MEBIBYTES) * MIB;
            }
            // `size_t` arithmetic without a bound (1.13): a negative number wraps.
            "roundup_bypass_threshold_mb" => {
                self.settings().roundup_bypass_threshold = Some(self.size(key, token)?.wrapping_mul(MIB));
            }
            "garbage_collection_threshold" => {
                let value = self.double(key, token)?;
                if !(value > 0.0 && value < 1.0) {
                    return Err(self.out_of_range(key, token, "must lie between 0 and 1, both excluded", "0.8"));
                }
                self.settings().garbage_collection_threshold = value;
            }
            "per_process_memory_fraction" => {
                let value = self.double(key, token)?;
                if !(0.0..=1.0).contains(&value) {
                    return Err(self.out_of_range(key, token, "must lie in 0 to 1", "0.9"));
                }
                // Minus zero is zero.
                self.settings().per_process_memory_fraction = Some(value.abs());
            }
            "backend" => self.settings().backend = backend(token)?,
            "expandable_segments" => self.settings().expandable_segments = boolean(key, token)?,
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
                self.settings().release_lock_on_cudamalloc = boolean(key, token)?;
            }
            "graph_capture_record_stream_reuse" => {
                self.settings().graph_capture_record_stream_reuse = boolean(key, token)?;
            }
            "throw_on_cudamalloc_oom" => self.settings().throw_on_cudamalloc_oom = boolean(key, token)?,
            "expandable_segments_reserve" => {
                if let Some(reserve) = self.reserve(token) {
                    self.parsed.reserve = Some(reserve);
                }
            }
            _ => self.set_host(key, token)?,
        }
        Ok(())
    }

    fn set_host(&mut self, key: &'static Key, token: &Token) -> Result<(), SettingsError> {
        let mut host = std::mem::take(&mut self.parsed.host);
        let outcome = self.host_value(key, token, &mut host);
        self.parsed.host = host;
        outcome
    }

    fn host_value(&mut self, key: &Key, token: &Token, host: &mut HostSettings) -> Result<(), SettingsError> {
        match key.name {
            "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => {
                host.use_host_register = boolean(key, token)?;
            }
            "pinned_use_background_threads" => host.use_background_threads = boolean(key, token)?,
            "pinned_free_catch_all" => host.free_catch_all = boolean(key, token)?,
            "pinned_num_register_threads" => {
                let threads = self.size(key, token)?;
                if !threads.is_power_of_two() {
                    return Err(not_power_of_two(key, token));
                }
                if threads > MAX_THREADS {
                    return Err(self.out_of_range(key, token, "must be at most 128", "128"));
                }
                host.register_threads = threads;
            }
            "pinned_reserve_segment_size_mb" => {
                let mebibytes = self.size(key, token)?;
                if mebibytes == 0 {
                    return Err(self.out_of_range(key, token, "must be above 0", "64"));
                }
                host.reserve_segment_mebibytes = mebibytes;
            }
            "pinned_max_round_threshold_mb" => {
                host.max_round_threshold = Some(self.size(key, token)?.min(MAX_MEBIBYTES) * MIB);
            }
            "pinned_max_cached_size_mb" => {
                host.max_cached_size = Some(self.size(key, token)?.min(MAX_MEBIBYTES) * MIB);
            }
            _ => {}
        }
        Ok(())
    }

    /// A size in bytes, at least a large segment's: above 20 MiB up to 2.9, 20 MiB or more in 2.10,
    /// `large_segment_size_mb` or more from 2.11.
    fn at_least_large_segment(&mut self, key: &Key, token: &Token) -> Result<u64, SettingsError> {
        let mebibytes = self.size(key, token)?;
        let least = if self.release.at_least(2, 11) {
            self.settings().large_segment_size / MIB
        } else {
            LARGE_SEGMENT_MEBIBYTES + u64::from(!self.release.at_least(2, 10))
        };
        if mebibytes < least {
            return Err(self.out_of_range(key, token, &format!("must be at least {least}"), &least.to_string()));
        }
        Ok(mebibytes.min(MAX_MEBIBYTES) * MIB)
    }

    /// A whole number by the conversion of the release: `std::stoi` up to 2.9, `std::stoull` from 2.10.
    pub(super) fn size(&mut self, key: &Key, token: &Token) -> Result<u64, SettingsError> {
        let read = if self.release.at_least(2, 10) { number::unsigned } else { number::int_as_size };
        let number = read(&token.text).map_err(|fault| self.not_a_number(key, token, fault))?;
        if token.text[..number.used].contains('-') && number.value != 0 {
            self.warn(
                WarningCode::NegativeWraps,
                token.at,
                format!("`{}` becomes a huge number: `{key}` takes no negative one", shown(&token.text)),
            );
        }
        self.note_tail(key, token, &number);
        Ok(number.value)
    }

    /// The smallest size of an octave of `roundup_power2_divisions`: `std::stoul` up to 2.9, `std::stoull` from 2.10.
    pub(super) fn boundary(&mut self, key: &Key, token: &Token) -> Result<u64, SettingsError> {
        let number = number::unsigned(&token.text).map_err(|fault| self.not_a_number(key, token, fault))?;
        self.note_tail(key, token, &number);
        if !number.value.is_power_of_two() {
            return Err(not_power_of_two(key, token));
        }
        Ok(number.value)
    }

    /// One entry of `roundup_power2_divisions`; `zero` where 0 (no rounding) is allowed.
    pub(super) fn divisions(&mut self, key: &Key, token: &Token, zero: bool) -> Result<u32, SettingsError> {
        let value = self.size(key, token)?;
        if !(value.is_power_of_two() || (value == 0 && zero)) {
            return Err(not_power_of_two(key, token));
        }
        if value == 1 && !self.release.at_least(2, 1) {
            self.warn(
                WarningCode::OneDivision,
                token.at,
                format!("PyTorch {} leaves sizes unrounded under 1 division", self.release),
            );
        }
        Ok(value.min(MAX_DIVISIONS) as u32)
    }

    fn double(&mut self, key: &Key, token: &Token) -> Result<f64, SettingsError> {
        let number = number::double(&token.text).map_err(|fault| self.not_a_number(key, token, fault))?;
        self.note_tail(key, token, &number);
        Ok(number.value)
    }

    /// `parseReserveSpec` (`c10/cuda/CUDAAllocatorConfig.cpp`, 2.15): a positive decimal number, all of it, and `G` or `g`
    /// behind it for GiB; anything else is ignored.
    pub(super) fn reserve(&mut self, token: &Token) -> Option<Reserve> {
        let text = token.text.as_str();
        let digits = text.strip_suffix(['G', 'g']);
        let number = digits.unwrap_or(text);
        let begins = number.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let value = number::double(number)
            .ok()
            .filter(|read| begins && read.used == number.len() && !number.contains(['x', 'X']))
            .map(|read| read.value)
            .filter(|value| *value > 0.0);
        if value.is_none() {
            self.warn(
                WarningCode::ReserveIgnored,
                token.at,
                format!("`{}` is ignored: a reserve is a fraction such as 0.5, or a size such as 40G", shown(text)),
            );
        }
        Some(if digits.is_some() { Reserve::Gibibytes(value?) } else { Reserve::Fraction(value?) })
    }

    fn note_tail<T>(&mut self, key: &Key, token: &Token, number: &Number<T>) {
        let (read, rest) = token.text.split_at(number.used);
        if !rest.is_empty() {
            let unit = if key.name.ends_with("_mb") { " MiB" } else { "" };
            self.warn(
                WarningCode::NumberTail,
                token.at,
                format!("`{key}` is {}{unit}: `{}` behind the number is ignored", shown(read), shown(rest)),
            );
        }
    }

    fn not_a_number(&self, key: &Key, token: &Token, fault: NumberFault) -> SettingsError {
        let text = shown(&token.text);
        match fault {
            NumberFault::NotANumber => SettingsError::new(
                SettingsErrorKind::NotANumber,
                token.at,
                format!("`{key}` has `{text}` for a number"),
                "it does not begin with a digit",
                "write a plain number",
            ),
            NumberFault::OutOfRange => SettingsError::new(
                SettingsErrorKind::NumberOverflow,
                token.at,
                format!("`{key}` has a number that cannot be held, `{text}`"),
                format!("PyTorch {} cannot convert it", self.release),
                "write a number that a memory size can have",
            ),
        }
    }

    fn out_of_range(&self, key: &Key, token: &Token, range: &str, write: &str) -> SettingsError {
        SettingsError::new(
            SettingsErrorKind::OutOfRange,
            token.at,
            format!("`{key}` is {}", shown(&token.text)),
            format!("in PyTorch {} it {range}", self.release),
            format!("write for example `{key}:{write}`"),
        )
    }
}

fn not_power_of_two(key: &Key, token: &Token) -> SettingsError {
    SettingsError::new(
        SettingsErrorKind::NotPowerOfTwo,
        token.at,
        format!("`{key}` has {}", shown(&token.text)),
        "it must be a power of two",
        "write 2, 4, 8, ...",
    )
}

fn boolean(key: &Key, token: &Token) -> Result<bool, SettingsError> {
    match token.text.as_str() {
        "True" => Ok(true),
        "False" => Ok(false),
        other => Err(SettingsError::new(
            SettingsErrorKind::NotBoolean,
            token.at,
            format!("`{key}` is `{}`", shown(other)),
            "only `True` and `False` are read, spelled so",
            format!("write `{key}:True` or `{key}:False`, and a comma before the next item"),
        )),
    }
}

/// `parseAllocatorConfig` of a CUDA build (2.0); ROCm builds also read `hipMallocAsync`.
fn backend(token: &Token) -> Result<Backend, SettingsError> {
    match token.text.as_str() {
        "native" => Ok(Backend::Native),
        "cudaMallocAsync" => Ok(Backend::CudaMallocAsync),
        other => Err(SettingsError::new(
            SettingsErrorKind::UnknownBackend,
            token.at,
            format!("`backend` is `{}`", shown(other)),
            "a CUDA build has `native` and `cudaMallocAsync`, spelled so",
            "write `backend:native` or `backend:cudaMallocAsync`",
        )),
    }
}
