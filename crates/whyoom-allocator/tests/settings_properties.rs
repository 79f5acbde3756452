//! Properties of the settings grammar for any string and any release.

use proptest::prelude::*;
use whyoom_allocator::settings::{KEYS, ValueKind, canonical, parse, variables};
use whyoom_allocator::{Release, Settings};

fn release() -> impl Strategy<Value = Release> {
    prop_oneof![
        Just(Release::new(1, 9)),
        Just(Release::new(1, 13)),
        (0..=16_u16).prop_map(|minor| Release::new(2, minor))
    ]
}

/// A value that most releases accept for a key of that kind.
fn value(kind: ValueKind) -> BoxedStrategy<String> {
    let choice = |choices: &'static [&'static str]| prop::sample::select(choices).prop_map(str::to_owned).boxed();
    match kind {
        ValueKind::Mebibytes => (11_u64..5000).prop_map(|n| n.to_string()).boxed(),
        ValueKind::Threshold => (0.001_f64..0.999).prop_map(|f| f.to_string()).boxed(),
        ValueKind::Fraction => (0.0_f64..=1.0).prop_map(|f| f.to_string()).boxed(),
        ValueKind::Boolean => choice(&["True", "False"]),
        ValueKind::Backend => choice(&["native", "cudaMallocAsync"]),
        ValueKind::Threads => choice(&["1", "8", "128"]),
        ValueKind::Reserve => choice(&["0.5", "40G"]),
        ValueKind::ReserveByClass => choice(&["[a:0.5]", "[]"]),
        ValueKind::Divisions => prop_oneof![
            (0..6_u32).prop_map(|power| (1_u32 << power).to_string()),
            (prop::collection::vec((0..17_u32, 0..4_u32), 1..6), any::<bool>()).prop_map(|(entries, rest)| {
                let mut list: Vec<_> = entries
                    .iter()
                    .map(|(k, d)| format!("{}:{}", 1_u64 << k, if *d == 0 { 0 } else { 1 << d }))
                    .collect();
                if rest {
                    list.push(">:4".to_owned());
                }
                format!("[{}]", list.join(","))
            })
        ]
        .boxed(),
    }
}

fn item() -> impl Strategy<Value = String> {
    prop::sample::select(KEYS).prop_flat_map(|key| value(key.value).prop_map(move |value| format!("{key}:{value}")))
}

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(item(), 0..5).prop_map(|items| items.join(","))
}

/// A string with pieces of the grammar in any order.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        4 => prop::sample::select(KEYS).prop_map(|key| key.name.to_owned()),
        6 => prop::sample::select(&[",", ":", "[", "]", " ", "\t", ">", "True", "-", "G", "0x", "e", ".", "é", "\u{a0}"][..])
            .prop_map(str::to_owned),
        2 => any::<u64>().prop_map(|n| n.to_string()),
        2 => any::<f64>().prop_map(|f| format!("{f:e}")),
        1 => any::<String>(),
    ];
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parse_never_panics_and_places_lie_inside(text in prop_oneof![any::<String>(), soup()], release in release()) {
        let characters = text.chars().count();
        match parse(&text, release) {
            Ok(parsed) => {
                prop_assert!(parsed.warnings.iter().all(|warning| warning.position <= characters));
                prop_assert!(parsed.mentioned.iter().all(|mention| mention.key.is_known(release)));
            }
            Err(error) => {
                prop_assert!(error.position <= characters);
                prop_assert!(error.to_string().lines().count() <= 1, "{}", error);
            }
        }
    }

    #[test]
    fn what_is_accepted_has_a_canonical_string(text in prop_oneof![string(), soup()], release in release()) {
        let Ok(parsed) = parse(&text, release) else { return Ok(()) };
        let written = canonical(&parsed.settings, release);
        prop_assert!(written.is_ok(), "{:?}: {:?}", text, written);
        let written = written.unwrap_or_default();
        let again = parse(&written, release).map(|parsed| parsed.settings);
        prop_assert_eq!(again.as_ref(), Ok(&parsed.settings), "{} -> {}", text, written);
        prop_assert_eq!(canonical(&parsed.settings, release), Ok(written));
    }

    #[test]
    fn any_table_is_written_back_or_refused(table in prop::array::uniform16(prop::sample::select(&[0_u32, 1, 2, 8][..])), release in release()) {
        let settings = Settings { roundup_power2_divisions: table, ..Settings::default() };
        if let Ok(text) = canonical(&settings, release) {
            prop_assert_eq!(parse(&text, release).map(|parsed| parsed.settings), Ok(settings));
        } else {
            // Only a list without 0, or no list at all, cannot say it.
            prop_assert!(!release.at_least(2, 4), "{:?}", table);
        }
    }

    #[test]
    fn parse_is_a_function(text in soup(), release in release()) {
        prop_assert_eq!(parse(&text, release), parse(&text, release));
    }
}

#[test]
fn every_release_has_a_variable() {
    for minor in 0..=16 {
        assert!(variables(Release::new(2, minor)).preferred().ends_with("_ALLOC_CONF"));
    }
}
