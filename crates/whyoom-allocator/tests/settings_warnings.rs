//! What an accepted string does that its writer may not expect, and how a refused one is explained.

use WarningCode as Code;
use whyoom_allocator::Release;
use whyoom_allocator::settings::{SettingsErrorKind, WarningCode, parse};

fn codes(text: &str, release: &str) -> Vec<WarningCode> {
    let parsed = parse(text, release.parse().expect("a release")).expect("an accepted string");
    parsed.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn warnings_name_what_does_nothing() {
    let cases: &[(&str, &str, &[WarningCode])] = &[
        ("max_split_size_mb:128", "2.9", &[]),
        ("max_split_size_mb=128", "1.13", &[Code::ItemIgnored]),
        ("expandable_segments: True", "1.13", &[Code::ItemIgnored, Code::ItemIgnored]),
        ("max_split_size_mb:128:x", "1.13", &[Code::RestIgnored]),
        (",max_split_size_mb:128,", "1.13", &[]),
        ("max_split_size_mb:512MB", "2.9", &[Code::NumberTail]),
        ("max_split_size_mb:-1", "2.11", &[Code::NegativeWraps]),
        ("max_split_size_mb:1 28", "2.9", &[Code::WordsJoined]),
        ("max_split_size_mb , 128", "2.10", &[Code::SeparatorIgnored]),
        ("max_split_size_mb:64,max_split_size_mb:128", "2.9", &[Code::KeyRepeated]),
        ("roundup_power2_divisions:[4:2,", "2.9", &[Code::DivisionsGap, Code::ListUnclosed]),
        ("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "2.9", &[Code::DivisionsOverwritten]),
        ("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "2.10", &[]),
        ("roundup_power2_divisions:[4:2,16:4,>:8]", "2.11", &[Code::DivisionsGap]),
        ("roundup_power2_divisions:1", "2.0", &[Code::OneDivision]),
        ("roundup_power2_divisions:1", "2.1", &[]),
        ("expandable_segments_reserve:lots", "2.15", &[Code::ReserveIgnored]),
        ("garbage_collection_threshold:0.8", "2.9", &[Code::NeedsFraction]),
        ("garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", "2.11", &[]),
        ("garbage_collection_threshold:0.8,per_process_memory_fraction:1", "2.11", &[Code::NeedsFraction]),
        ("per_process_memory_fraction:0", "2.10", &[Code::NothingAllowed]),
        ("backend:cudaMallocAsync,max_split_size_mb:64", "2.11", &[Code::IgnoredByBackend]),
        ("backend:cudaMallocAsync", "2.11", &[]),
        ("expandable_segments:True,max_split_size_mb:128", "2.11", &[Code::SplitUnderExpandable]),
        ("pinned_num_register_threads:8", "2.6", &[Code::HostOnly]),
    ];
    for (text, release, expected) in cases {
        assert_eq!(codes(text, release), *expected, "{text:?} at {release}");
    }
}

#[test]
fn a_warning_says_where_and_what() {
    let parsed = parse("expandable_segments:True,max_split_size_mb:4GB", Release::new(2, 9));
    let refused = parsed.expect_err("4 MiB is too small");
    assert_eq!(
        refused.to_string(),
        "`max_split_size_mb` is 4GB, at character 44: in PyTorch 2.9 it must be at least 21; \
         write for example `max_split_size_mb:21`"
    );
    let parsed = parse("max_split_size_mb:512MB", Release::new(2, 9)).expect("accepted");
    assert_eq!(
        parsed.warnings[0].to_string(),
        "`max_split_size_mb` is 512 MiB: `MB` behind the number is ignored (character 19)"
    );
}

#[test]
fn an_error_says_what_where_why_and_what_next() {
    let explained = |text: &str, release: &str| {
        parse(text, release.parse().expect("a release")).expect_err("a refused string").to_string()
    };
    assert_eq!(
        explained("max_split_size:512", "2.9.1"),
        "unknown key `max_split_size`, at character 1: PyTorch 2.9.1 stops at a key that it does not know; \
         did you mean `max_split_size_mb`?"
    );
    assert_eq!(
        explained("max_split_size_mb:128,large_segment_size_mb:64", "2.10"),
        "unknown key `large_segment_size_mb`, at character 23: PyTorch 2.10 stops at a key that it does not know; \
         `large_segment_size_mb` is known to PyTorch 2.11 and later: leave it out here"
    );
    assert_eq!(
        explained("expandable_segments:true", "2.11"),
        "`expandable_segments` is `true`, at character 21: only `True` and `False` are read, spelled so; \
         write `expandable_segments:True` or `expandable_segments:False`, and a comma before the next item"
    );
    assert_eq!(
        explained("max_split_size_mb", "2.9"),
        "`max_split_size_mb` has no value, at character 18: the string ends where the value belongs; \
         write `max_split_size_mb:VALUE`"
    );
    assert_eq!(
        explained("roundup_power2_divisions:[4:2", "2.6"),
        "the list of `roundup_power2_divisions` has no `]`, at character 30: the parser reads past the end of its \
         tokens, which crashes most builds; close the list with `]`"
    );
}

/// `BackendStaticInitializer::parseEnvForBackend` up to 2.9 splits at blanks where the lexer joins; no parser could be run
/// past this point without a GPU driver.
#[test]
fn the_backend_of_load_time_must_agree() {
    let kind = |text: &str| parse(text, Release::new(2, 9)).map_err(|error| error.kind).err();
    assert_eq!(kind("backend:cudaMallocAsync"), None);
    assert_eq!(kind("backend: native"), None);
    assert_eq!(kind("backend: cudaMallocAsync"), Some(SettingsErrorKind::BackendMismatch));
    assert_eq!(kind("backend:cudaMallocAsync,backend:native"), Some(SettingsErrorKind::BackendMismatch));
}
