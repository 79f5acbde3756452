//! The answer of one release.

use serde::Serialize;
use serde_json::{Value, json};
use whyoom_allocator::settings::{
    HostSettings, Parsed, Reserve, SettingsErrorKind, WarningCode, canonical, parse, variables,
};
use whyoom_allocator::{Backend, Release, Settings};

/// What one release makes of a string.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VersionCheck {
    /// The release.
    pub torch: String,
    /// Whether its parser accepts the string.
    pub accepted: bool,
    /// Whether it reads the variable that the string is given to. ROCm builds alone read `PYTORCH_HIP_ALLOC_CONF`.
    pub read: bool,
    /// Why it refuses; `null` where it accepts.
    pub error: Option<String>,
    /// The kind of refusal.
    pub error_code: Option<SettingsErrorKind>,
    /// Values as the parser leaves them, sizes in bytes; those of pinned host memory in `host`. The defaults where the variable is not
    /// read, `null` where the string is refused (the process does not start to use the GPU) or another variable holds.
    pub in_force: Option<Value>,
    /// The shortest string with the same effect on the device allocator; empty = the defaults.
    pub canonical: Option<String>,
    /// What the string does that its writer may not expect.
    pub warnings: Vec<String>,
    /// The kinds of `warnings`, in their order.
    pub warning_codes: Vec<WarningCode>,
}

impl VersionCheck {
    /// Accepted and read, and no part of it ignored.
    pub fn is_whole(&self) -> bool {
        self.accepted && self.read && !self.warning_codes.iter().any(|code| ignores(*code))
    }
}

/// Whether a warning of this kind says that something in the string has no effect.
pub(super) fn ignores(code: WarningCode) -> bool {
    matches!(
        code,
        WarningCode::ItemIgnored
            | WarningCode::RestIgnored
            | WarningCode::ReserveIgnored
            | WarningCode::IgnoredByBackend
    )
}

/// Whether `release` reads `variable`.
pub(super) fn reads(variable: Option<&str>, release: Release) -> bool {
    variable.is_none_or(|name| name == "PYTORCH_HIP_ALLOC_CONF" || variables(release).read.contains(&name))
}

/// Asks `release` about a string whose variable is not read, since another that is set comes first.
pub(super) fn ask_in_vain(text: &str, variable: Option<&str>, release: Release) -> VersionCheck {
    VersionCheck { read: false, in_force: None, canonical: None, ..ask(text, variable, release) }
}

/// Asks `release`.
pub(super) fn ask(text: &str, variable: Option<&str>, release: Release) -> VersionCheck {
    let read = reads(variable, release);
    let torch = release.to_string();
    match parse(text, release) {
        Ok(parsed) => {
            let effective = if read { &parsed } else { &Parsed::default() };
            VersionCheck {
                torch,
                accepted: true,
                read,
                error: None,
                error_code: None,
                in_force: Some(in_force(effective)),
                canonical: canonical(&effect(&effective.settings), release).ok(),
                warnings: parsed.warnings.iter().map(ToString::to_string).collect(),
                warning_codes: parsed.warnings.iter().map(|warning| warning.code).collect(),
            }
        }
        Err(error) => VersionCheck {
            torch,
            accepted: false,
            read,
            error: Some(error.to_string()),
            error_code: Some(error.kind),
            in_force: (!read).then(|| in_force(&Parsed::default())),
            canonical: (!read).then(String::new),
            warnings: Vec::new(),
            warning_codes: Vec::new(),
        },
    }
}

/// What has an effect: the driver's pool reads little.
fn effect(settings: &Settings) -> Settings {
    if settings.backend == Backend::Native {
        return settings.clone();
    }
    let (backend, fraction) = (settings.backend, settings.per_process_memory_fraction);
    Settings { backend, per_process_memory_fraction: fraction, ..Settings::default() }
}

fn in_force(parsed: &Parsed) -> Value {
    let mut all = serde_json::to_value(&parsed.settings).unwrap_or_default();
    all["host"] = host(&parsed.host);
    all["expandable_segments_reserve"] = parsed.reserve.map_or(Value::Null, reserve);
    let classes = parsed.reserve_by_class.iter().map(|(name, value)| (name.clone(), reserve(*value)));
    all["expandable_segments_reserve_by_class"] = Value::Object(classes.collect());
    all
}

fn host(host: &HostSettings) -> Value {
    serde_json::to_value(host).unwrap_or_default()
}

fn reserve(value: Reserve) -> Value {
    match value {
        Reserve::Fraction(fraction) => json!({ "fraction": fraction }),
        Reserve::Gibibytes(gibibytes) => json!({ "gibibytes": gibibytes }),
    }
}
