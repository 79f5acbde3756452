//! What follows from the answers of the releases, the most serious first.

use super::pasted::{Form, Pasted};
use super::releases;
use super::version::{ignores, reads};
use serde::Serialize;
use whyoom_allocator::settings::{
    Backend, HostSettings, Parsed, SettingsErrorKind, SettingsWarning, WarningCode, parse, variables,
};
use whyoom_allocator::{Release, Settings};

/// Something to know about a string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingsFinding {
    /// The kind, for programs: `refused`, `not_read`, a kind of warning, `incompatible`, `no_effect`,
    /// `sharing` (memory that other processes cannot be given), or a note on the form.
    pub code: String,
    /// What happens.
    pub message: String,
    /// What to write or do instead.
    pub fix: Option<String>,
    /// The releases asked that it holds for, in words; `null` = all.
    pub torch: Option<String>,
}

type Newest = (Release, Parsed);

pub(super) fn find(
    pasted: &Pasted,
    asked: &[Release],
    newest: Option<&Newest>,
    all: &[Pasted],
) -> Vec<SettingsFinding> {
    let mut list = List { asked, findings: Vec::new() };
    list.refusals(&pasted.value);
    list.variable(pasted, all);
    list.warnings(&pasted.value);
    if let Some((release, parsed)) = newest {
        list.without_effect(parsed, *release);
        list.incompatible(pasted, parsed);
    }
    list.form(pasted);
    list.findings
}

struct List<'a> {
    asked: &'a [Release],
    findings: Vec<SettingsFinding>,
}

impl List<'_> {
    fn push(&mut self, code: impl Into<String>, message: impl Into<String>, fix: Option<String>, torch: &[Release]) {
        let torch = (torch.len() < self.asked.len()).then(|| releases::in_words(torch, self.asked));
        self.findings.push(SettingsFinding { code: code.into(), message: message.into(), fix, torch });
    }

    fn note(&mut self, code: &str, message: impl Into<String>, fix: Option<&str>) {
        let asked = self.asked;
        self.push(code, message, fix.map(str::to_owned), asked);
    }

    /// Refusals of one kind at one place are one finding, in the words of the newest release.
    fn refusals(&mut self, text: &str) {
        let mut groups: Vec<(SettingsErrorKind, String, usize, Vec<Release>)> = Vec::new();
        for release in self.asked {
            let Err(error) = parse(text, *release) else { continue };
            match groups.iter_mut().find(|g| g.0 == error.kind && g.1 == error.what && g.2 == error.position) {
                Some(group) => group.3.push(*release),
                None => groups.push((error.kind, error.what, error.position, vec![*release])),
            }
        }
        for (_, what, position, torch) in groups.into_iter().rev() {
            let Some(error) = torch.last().and_then(|release| parse(text, *release).err()) else { continue };
            let why = without_release(&error.why, &torch);
            self.push("refused", format!("{what}, at character {}: {why}", position + 1), Some(error.next), &torch);
        }
    }

    fn variable(&mut self, pasted: &Pasted, all: &[Pasted]) {
        let Some(name) = pasted.variable else { return };
        let unread: Vec<Release> = self.asked.iter().copied().filter(|r| !reads(Some(name), *r)).collect();
        if !unread.is_empty() {
            let preferred = variables(unread[0]).preferred();
            let fix = format!("set {preferred}, which every release reads");
            self.push("not_read", format!("{name} is not read: the defaults stay in force"), Some(fix), &unread);
        }
        if name == "PYTORCH_HIP_ALLOC_CONF" {
            let message = "PYTORCH_HIP_ALLOC_CONF is read by ROCm builds only, from about 2.4 on, and after \
                           PYTORCH_CUDA_ALLOC_CONF";
            self.note("rocm_only", message, None);
        }
        let warned: Vec<Release> = self.asked.iter().copied().filter(|r| variables(*r).warns_of_deprecation).collect();
        // Whoever asks about every release does not run 2.9.
        let is_asked = !warned.is_empty() && self.asked.len() < releases::modelled().len();
        if name == "PYTORCH_CUDA_ALLOC_CONF" && is_asked {
            let message = "a warning says that PYTORCH_CUDA_ALLOC_CONF is deprecated; it is the only name read there";
            self.push("deprecation_warning", message, Some("keep the name".to_owned()), &warned);
        }
        if is_shadowed(pasted, all) {
            let message = format!("PYTORCH_CUDA_ALLOC_CONF is set too and comes before {name}, which has no effect");
            self.note("not_read", message, Some("keep one of the two"));
        }
    }

    /// Warnings of one kind at one place are one finding, in the words of the newest release.
    fn warnings(&mut self, text: &str) {
        let mut groups: Vec<(SettingsWarning, Vec<Release>)> = Vec::new();
        for release in self.asked {
            for warning in parse(text, *release).map(|parsed| parsed.warnings).unwrap_or_default() {
                match groups.iter_mut().find(|(w, _)| w.code == warning.code && w.position == warning.position) {
                    Some(group) => {
                        group.0 = warning;
                        group.1.push(*release);
                    }
                    None => groups.push((warning, vec![*release])),
                }
            }
        }
        groups.sort_by_key(|(warning, _)| (!ignores(warning.code), warning.position));
        for (warning, torch) in groups {
            let fix = fix(warning.code).map(str::to_owned);
            let message = without_release(&warning.message, &torch);
            self.push(name(warning.code), message, fix, &torch);
        }
    }

    /// Keys that are read and change nothing.
    fn without_effect(&mut self, parsed: &Parsed, release: Release) {
        let (settings, host) = (&parsed.settings, &parsed.host);
        let has = |name: &str| parsed.mentions(name);
        let limited = settings.per_process_memory_fraction.is_some_and(|fraction| fraction < 1.0);
        let mut lone = |key: &str, needed: &str| {
            self.note("no_effect", format!("`{key}` acts only with {needed}"), Some("add that, or leave the key out"));
        };
        if has("max_non_split_rounding_mb") && settings.max_split_size.is_none() {
            lone("max_non_split_rounding_mb", "`max_split_size_mb`");
        }
        if has("throw_on_cudamalloc_oom") && settings.throw_on_cudamalloc_oom && !limited {
            lone("throw_on_cudamalloc_oom", "a memory fraction below 1");
        }
        let reserves = has("expandable_segments_reserve") || has("expandable_segments_reserve_by_class");
        if reserves && !settings.expandable_segments {
            lone("expandable_segments_reserve", "`expandable_segments:True`");
        }
        if has("pinned_num_register_threads") && !host.use_host_register && host.register_threads != 1 {
            lone("pinned_num_register_threads", "`pinned_use_cuda_host_register:True`");
        }
        for mention in &parsed.mentioned {
            if is_default(mention.key.name, parsed) {
                let message = format!("`{}` has its default value there: it changes nothing", mention.key);
                let known: Vec<Release> = self.asked.iter().copied().filter(|r| mention.key.is_known(*r)).collect();
                let torch = if known.is_empty() { vec![release] } else { known };
                self.push("equals_default", message, Some("leave it out".to_owned()), &torch);
            }
        }
    }

    /// What the settings do not go together with.
    fn incompatible(&mut self, pasted: &Pasted, parsed: &Parsed) {
        if parsed.settings.backend == Backend::CudaMallocAsync {
            let message = "`backend:cudaMallocAsync` is chosen when the library is loaded, and has no memory snapshots: \
                           nothing can be recorded or replayed under it";
            self.note("incompatible", message, Some("set it before the process starts"));
            return;
        }
        if !parsed.settings.expandable_segments {
            return;
        }
        if pasted.form.is_windows() {
            let message = "Windows has no expandable segments: the key is accepted with a warning, and changes nothing";
            self.note("no_effect", message, Some("leave it out: less memory, or other settings, must help"));
            return;
        }
        let old: Vec<Release> = self.asked.iter().copied().filter(|r| r.at_least(2, 1) && !r.at_least(2, 5)).collect();
        if !old.is_empty() {
            let message = "tensors cannot be shared between processes (CUDA IPC, `torch.multiprocessing`) while \
                           expandable segments are on";
            let fix = "turn it off in the process that shares: \
                       torch.cuda.memory._set_allocator_settings(\"expandable_segments:False\")";
            self.push("sharing", message, Some(fix.to_owned()), &old);
        }
        let message = "libraries that export or register GPU memory with older driver calls fail on expandable segments: \
                       custom all-reduce kernels of inference servers (`invalid argument`), RDMA";
        let fix =
            "leave `expandable_segments` out there, or switch that kernel off (vLLM: --disable-custom-all-reduce)";
        self.note("sharing", message, Some(fix));
        let message = "Windows, and some WSL and Jetson systems, have no expandable segments: the key is accepted with the \
                       warning `expandable_segments not supported on this platform`, and changes nothing";
        self.note("platform", message, None);
    }

    /// What the form of the line does.
    fn form(&mut self, pasted: &Pasted) {
        if let Some(rest) = &pasted.cut_off {
            let message = format!("a shell ends the command at `;`: `{rest}` is not part of the value");
            self.note("cut_off", message, Some("separate items by commas"));
        }
        let is_quoted = pasted.value.starts_with(['"', '\'']);
        if is_quoted && matches!(pasted.form, Form::ComposeList | Form::WindowsSet) {
            let message = format!("quotes behind `=` are part of the value in {}", pasted.form.in_words());
            self.note("quotes_kept", message, Some("leave the quotes out, or put them around the whole item"));
        }
        if pasted.variable.is_some() && pasted.value.is_empty() {
            self.note("empty", "the value is empty: the defaults are in force", None);
        }
        if pasted.value.ends_with('\n') && matches!(pasted.form, Form::YamlMap | Form::Kubernetes) {
            let message = "YAML's `|` and `>` end the value with a newline, which is part of it up to 2.9";
            self.note("newline_kept", message, Some("write the value on the line of the key, or use `|-`"));
        }
        if pasted.newline_follows {
            let with = format!("{}\n", pasted.value);
            let breaks = |r: &Release| parse(&pasted.value, *r).is_ok() && parse(&with, *r).is_err();
            let torch: Vec<Release> = self.asked.iter().copied().filter(breaks).collect();
            if !torch.is_empty() {
                let message = "the newline behind the text is not counted; where it is part of the value, as behind \
                               YAML's `|`, the string is refused";
                self.push("newline_follows", message, Some("end the value without one".to_owned()), &torch);
            }
        }
        match pasted.form {
            Form::Python => {
                let message = "the variable is read when PyTorch starts to use the GPU: set it before `import torch`";
                self.note("too_late", message, None);
            }
            Form::Call => {
                let message = "the call changes settings of a running process: memory reserved before stays as it is, and \
                               the backend cannot be changed";
                self.note("at_run_time", message, None);
            }
            _ => {}
        }
    }
}

/// Whether another variable of the same environment comes first, in every release that reads both.
pub(super) fn is_shadowed(pasted: &Pasted, all: &[Pasted]) -> bool {
    let is_first = |other: &Pasted| other.variable == Some("PYTORCH_CUDA_ALLOC_CONF");
    pasted.form == Form::Environment && !is_first(pasted) && all.iter().any(is_first)
}

/// `text` for more than the one release that it names.
fn without_release(text: &str, torch: &[Release]) -> String {
    match torch.last() {
        Some(last) if torch.len() > 1 => {
            text.replace(&format!("in PyTorch {last} it "), "it ").replace(&format!("PyTorch {last} "), "PyTorch ")
        }
        _ => text.to_owned(),
    }
}

fn name(code: WarningCode) -> String {
    serde_json::to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn fix(code: WarningCode) -> Option<&'static str> {
    Some(match code {
        WarningCode::ItemIgnored => "write `key:value`",
        WarningCode::RestIgnored => "one value a key; separate items by commas",
        WarningCode::NumberTail => "write the number alone",
        WarningCode::KeyRepeated => "keep one of them",
        WarningCode::SeparatorIgnored | WarningCode::ListUnclosed | WarningCode::WordsJoined => {
            "write it as it is read, so that every release reads the same"
        }
        WarningCode::IgnoredByBackend => "leave the others out, or leave `backend` out",
        WarningCode::SplitUnderExpandable => "leave `max_split_size_mb` out",
        _ => return None,
    })
}

/// Whether the value of the key that stands in the string is that of an empty string.
fn is_default(key: &str, parsed: &Parsed) -> bool {
    let (settings, usual) = (&parsed.settings, Settings::default());
    let (host, usual_host) = (&parsed.host, HostSettings::default());
    match key {
        "backend" => settings.backend == usual.backend,
        "expandable_segments" => !settings.expandable_segments,
        "large_segment_size_mb" => settings.large_segment_size == usual.large_segment_size,
        "max_non_split_rounding_mb" => settings.max_non_split_rounding == settings.large_segment_size,
        "roundup_power2_divisions" => settings.roundup_power2_divisions.iter().all(|divisions| *divisions < 2),
        "per_process_memory_fraction" => settings.per_process_memory_fraction.is_none_or(|fraction| fraction >= 1.0),
        "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => !settings.release_lock_on_cudamalloc,
        "graph_capture_record_stream_reuse" => !settings.graph_capture_record_stream_reuse,
        "throw_on_cudamalloc_oom" => !settings.throw_on_cudamalloc_oom,
        "pinned_use_cuda_host_register" | "pinned_use_hip_host_register" => !host.use_host_register,
        "pinned_num_register_threads" => host.register_threads == usual_host.register_threads,
        "pinned_use_background_threads" => !host.use_background_threads,
        "pinned_free_catch_all" => !host.free_catch_all,
        _ => false,
    }
}
