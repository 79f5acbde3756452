//! Hand-built results, one per face the report can show. The figures of `story_two` are those of the recording
//! `lm_varlen_ckpt.sgdm.cap9.default`; the others are made up but consistent.
#![allow(dead_code, missing_docs, unreachable_pub)]

use serde_json::json;
use whyoom_diagnosis::explanation::*;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// `hundredths` of a GiB.
pub const fn gib(hundredths: u64) -> u64 {
    hundredths * GIB / 100
}

pub fn explanation(devices: Vec<DeviceReport>) -> Explanation {
    Explanation {
        schema: "whyoom.explain/1",
        inputs: vec![input("runs/lm_varlen_ckpt.sgdm.cap9.default.pickle.xz")],
        warnings: Vec::new(),
        readings: Vec::new(),
        devices,
    }
}

pub fn input(path: &str) -> Input {
    Input {
        path: path.into(),
        kind: "snapshot",
        size_bytes: 231_000,
        torch: Some(Torch {
            at_least: Some("2.10".into()),
            below: None,
            because: "events carry `user_metadata`, which 2.10 was the first to write".into(),
        }),
        error: None,
    }
}

pub fn remedy(apply: &str, outcome: RemedyOutcome) -> Remedy {
    Remedy {
        id: format!("setting/{apply}"),
        kind: "setting",
        apply: apply.into(),
        outcome,
        scope: "failing_request",
        basis: "exact_replay",
        peak_reserved_bytes: None,
        peak_reserved_range: None,
        tie_sensitive: false,
        headroom_bytes: None,
        passes_from_limit_bytes: None,
        passes_under_bytes: None,
        first_failure: None,
        retries: 4,
        driver_allocations: 120,
        driver_frees: 80,
        maps: 0,
        unmaps: 0,
        synchronisations: 4,
        note: None,
    }
}

pub fn passes(apply: &str, peak: u64, limit: u64) -> Remedy {
    Remedy {
        peak_reserved_bytes: Some(peak),
        peak_reserved_range: Some((peak, peak)),
        headroom_bytes: Some(limit - peak),
        ..remedy(apply, RemedyOutcome::Passes)
    }
}

pub fn fails(apply: &str, outcome: RemedyOutcome, malloc: u64, step: u64) -> Remedy {
    Remedy {
        first_failure: Some(FailurePoint { event: malloc * 2, malloc, step: Some(step) }),
        ..remedy(apply, outcome)
    }
}

pub fn device(finding: Finding) -> DeviceReport {
    DeviceReport {
        input: 0,
        device: 0,
        rank: None,
        settings: SettingsReport {
            string: Some(String::new()),
            in_force: json!({"expandable_segments": false, "max_split_size": null}),
        },
        replay: ReplayReport {
            status: ReplayStatus::Exact,
            events: 38_976,
            matched: 38_976,
            first_divergence: None,
            final_state: Some(FinalStateReport { equal: true, differing_blocks: 0 }),
            model: "2.11".into(),
            retries: 0,
            note: None,
        },
        limit: LimitReport { low_bytes: Some(9 * GIB), high_bytes: Some(9 * GIB), source: "fraction" },
        steps: StepsReport { count: 10, source: "annotations", is_partial: false },
        peak: PeakReport {
            requested_bytes: gib(730),
            allocated_bytes: gib(732),
            active_bytes: gib(732),
            reserved_bytes: gib(886),
            event: Some(30_411),
        },
        oom: None,
        would_fail: None,
        bound: BoundReport {
            compact_bytes: gib(693),
            bytes_to_free: 0,
            fits_from_bytes_default: None,
            fits_from_bytes_best: None,
        },
        categories: CategoriesReport::default(),
        findings: vec![finding],
        ruled_out: Vec::new(),
        collect: None,
        remedies: Vec::new(),
    }
}

pub fn finding(cause: Cause, subcause: Option<&'static str>, confidence: Confidence, summary: &str) -> Finding {
    Finding {
        cause,
        subcause,
        confidence,
        summary: summary.into(),
        bytes_explained: 0,
        evidence: Vec::new(),
        growth: None,
        culprits: Vec::new(),
    }
}

pub fn oom() -> OomReport {
    OomReport {
        event: 38_970,
        malloc: 19_000,
        step: Some(10),
        segment_bytes: 1_677_721_600,
        device_free_bytes: 0,
        request_bytes: gib(156),
        reserved_bytes: gib(808),
        live_bytes: gib(536),
        largest_free_block_bytes: gib(124),
        free_in_pool_bytes: gib(272),
        free_blocks: 42,
        oom_count: 1,
        went_on: false,
        place: Some(Place {
            phase: "backward",
            function: "lm".into(),
            file: "/workspace/train/scenarios.py".into(),
            line: 158,
            is_inferred: true,
        }),
    }
}

/// Story 2: fragmentation, with settings that pass, gamble, fail and make it worse.
pub fn story_two() -> Explanation {
    let limit = 9 * GIB;
    let mut d = device(Finding {
        bytes_explained: gib(272),
        evidence: vec![
            Evidence {
                statement: "live bytes and the request need 6.93 GiB of 9.00 GiB".into(),
                value: Value::Integer(gib(693)),
                unit: "bytes",
                events: vec![38_970],
            },
            Evidence {
                statement: "none of the 42 free pieces holds the request".into(),
                value: Value::Integer(42),
                unit: "count",
                events: vec![38_970, 38_971, 38_972, 38_973],
            },
        ],
        culprits: vec![Culprit {
            function: "lm".into(),
            file: "/workspace/train/scenarios.py".into(),
            line: 158,
            bytes: gib(272),
            count: 42,
            in_module_forward: false,
            stack: vec![
                "lm (/workspace/train/scenarios.py:158)".into(),
                "main (/workspace/train/scenarios.py:400)".into(),
            ],
            ..Culprit::default()
        }],
        ..finding(
            Cause::Fragmentation,
            None,
            Confidence::Proven,
            "A request for 1.56 GiB failed with 5.36 GiB live under a limit of 9.00 GiB. It fits (6.93 GiB); the \
             layout does not: 2.72 GiB lie free in 42 pieces, the largest 1.24 GiB, all in segments that still hold \
             live blocks.",
        )
    });
    d.oom = Some(oom());
    d.categories.oom = Some(vec![
        CategoryBytes { category: "parameters", bytes: gib(43) },
        CategoryBytes { category: "optimizer_state", bytes: gib(43) },
        CategoryBytes { category: "activations", bytes: gib(407) },
        CategoryBytes { category: "gradients", bytes: gib(43) },
    ]);
    d.ruled_out = vec![
        RuledOut { cause: Cause::Leak, statement: "no growth over 10 steps".into() },
        RuledOut { cause: Cause::Capacity, statement: "optimizer state is constant".into() },
    ];
    d.remedies = vec![
        passes("expandable_segments:True", gib(766), limit),
        passes("expandable_segments:True,garbage_collection_threshold:0.8", gib(766), limit),
        passes("max_split_size_mb:128", limit - 20 * MIB, limit),
        fails("garbage_collection_threshold:0.6", RemedyOutcome::NoChange, 19_000, 10),
        Remedy {
            kind: "call",
            id: "call/empty_cache/step".into(),
            ..fails("empty_cache() every step", RemedyOutcome::NoChange, 19_000, 10)
        },
        Remedy {
            tie_sensitive: true,
            note: Some("the request that fails differs between placements".into()),
            ..fails("roundup_power2_divisions:8", RemedyOutcome::Worse, 15_000, 8)
        },
        fails("max_split_size_mb:512", RemedyOutcome::Fails, 18_999, 10),
        fails("roundup_power2_divisions:4", RemedyOutcome::Fails, 19_500, 11),
        fails("roundup_power2_divisions:2", RemedyOutcome::Worse, 15_000, 8),
        fails("roundup_power2_divisions:1", RemedyOutcome::Worse, 15_000, 8),
    ];
    explanation(vec![d])
}

/// Story 1: a leak that every setting only delays.
pub fn leak() -> Explanation {
    let limit = 24 * GIB;
    let mut d = device(Finding {
        bytes_explained: 34 * gib(69),
        growth: Some(Growth {
            bytes_per_step: gib(69),
            calls: 34,
            per: "step",
            graphs_of: Some("evaluation"),
            queue: None,
            first_step: 11,
            last_step: 177,
            dies_again_in_steps: Some(1),
        }),
        culprits: vec![
            Culprit {
                function: "unet".into(),
                file: "/workspace/train/scenarios.py".into(),
                line: 132,
                bytes: 34 * gib(69),
                count: 2_142,
                in_module_forward: false,
                stack: vec!["unet (/workspace/train/scenarios.py:132)".into()],
                ..Culprit::default()
            },
            Culprit {
                function: "forward".into(),
                file: "/workspace/train/unet.py".into(),
                line: 41,
                bytes: gib(800),
                count: 340,
                in_module_forward: true,
                stack: Vec::new(),
                ..Culprit::default()
            },
        ],
        ..finding(
            Cause::Leak,
            Some("autograd_graph"),
            Confidence::Strong,
            "34 autograd graphs of 0.69 GiB each are still alive, one more after every validation step; together \
             they hold 23.5 GiB of the 24.0 GiB limit.",
        )
    });
    d.limit = LimitReport { low_bytes: Some(limit), high_bytes: Some(limit + 2 * MIB), source: "oom_event" };
    d.oom = Some(OomReport {
        oom_count: 205,
        step: Some(178),
        place: Some(Place {
            phase: "forward",
            function: "forward".into(),
            file: "/workspace/train/unet.py".into(),
            line: 41,
            is_inferred: false,
        }),
        ..oom()
    });
    d.findings.push(finding(
        Cause::Fragmentation,
        None,
        Confidence::Proven,
        "The request would fit beside what is live; expandable segments would let it pass with 0.31 GiB to spare.",
    ));
    d.remedies = vec![
        Remedy {
            kind: "code",
            id: "code/drop_group".into(),
            basis: "replay_estimate",
            scope: "whole_run",
            ..passes("without what scenarios.py:132 keeps", gib(97), limit)
        },
        passes("expandable_segments:True", limit - gib(31), limit),
        fails("max_split_size_mb:128", RemedyOutcome::Fails, 19_000, 178),
    ];
    d.steps.count = 178;
    let mut e = explanation(vec![d]);
    e.inputs[0].path = "unet_val_grad.cap24.pickle.xz".into();
    e
}

/// A run with nothing wrong.
pub fn healthy() -> Explanation {
    let mut d = device(finding(
        Cause::Healthy,
        None,
        Confidence::Proven,
        "No request failed, live bytes return to the same level after every step, and 0.97 GiB reserved serve a peak \
         of 0.86 GiB. What is cached is not leaked: the allocator hands it out again.",
    ));
    d.limit = LimitReport { low_bytes: None, high_bytes: None, source: "unknown" };
    d.peak = PeakReport {
        requested_bytes: gib(86),
        allocated_bytes: gib(86),
        active_bytes: gib(86),
        reserved_bytes: gib(97),
        event: Some(12),
    };
    d.categories.peak = vec![CategoryBytes { category: "other", bytes: gib(86) }];
    d.remedies = vec![remedy("expandable_segments:True", RemedyOutcome::NoChange)];
    explanation(vec![d])
}

/// A snapshot that holds segments and no trace.
pub fn no_trace() -> Explanation {
    let mut d = device(finding(
        Cause::Undetermined,
        None,
        Confidence::Weak,
        "The file shows what was live when it was written, 5.36 GiB in 8.08 GiB reserved, but not how it came to be: \
         it holds no trace.",
    ));
    d.replay = ReplayReport {
        status: ReplayStatus::NotPossible,
        events: 0,
        matched: 0,
        first_divergence: None,
        final_state: None,
        model: "2.11".into(),
        retries: 0,
        note: Some("There is no trace to replay: history was not being recorded.".into()),
    };
    d.limit = LimitReport { low_bytes: None, high_bytes: None, source: "unknown" };
    d.steps = StepsReport { count: 0, source: "none", is_partial: false };
    d.peak.event = None;
    let mut e = explanation(vec![d]);
    e.warnings.push(WarningLine { code: "no_trace".into(), count: 1, message: "no device has a trace".into() });
    e
}

/// A replay that parts from its recording: nothing it says about remedies is verified.
pub fn diverged() -> Explanation {
    let mut e = story_two();
    let d = &mut e.devices[0];
    d.replay.status = ReplayStatus::Diverged;
    d.replay.matched = 12_000;
    d.replay.first_divergence = Some(DivergenceReport {
        event: 12_001,
        recorded: "alloc 2.00 MiB at +0x200000".into(),
        simulated: "alloc 2.00 MiB at +0x400000".into(),
        likely_reason: "events of another process's pool are missing from the trace".into(),
    });
    d.replay.final_state = Some(FinalStateReport { equal: false, differing_blocks: 7 });
    d.findings[0].confidence = Confidence::Weak;
    e
}

/// Two ranks and a third file's GPU, the worst first.
pub fn multi_device() -> Explanation {
    let mut e = story_two();
    e.inputs = vec![
        input("runs/ddp.free.rank1.pickle"),
        input("runs/ddp.free.rank0.pickle"),
        input("old/ddp.free.rank0.pickle"),
    ];
    e.devices[0].rank = Some(1);
    let mut second = device(finding(Cause::Healthy, None, Confidence::Proven, "Nothing is wrong."));
    second.input = 1;
    second.rank = Some(0);
    second.peak.reserved_bytes = gib(270);
    let mut third = device(finding(Cause::Leak, Some("tensors_kept"), Confidence::Weak, "Something grows."));
    third.input = 2;
    third.device = 3;
    e.devices.push(second);
    e.devices.push(third);
    e
}

/// No OOM, but reserved memory far above what is live.
pub fn no_oom_fragmentation() -> Explanation {
    let mut d = device(finding(
        Cause::Fragmentation,
        Some("stranded_segments"),
        Confidence::Strong,
        "No request failed, but 26.2 GiB were reserved for a peak of 8.70 GiB live.",
    ));
    d.limit = LimitReport { low_bytes: None, high_bytes: None, source: "unknown" };
    d.peak.allocated_bytes = gib(870);
    d.peak.reserved_bytes = gib(2620);
    let whole = |r: Remedy| Remedy { scope: "whole_run", headroom_bytes: None, ..r };
    d.remedies = vec![
        whole(passes("expandable_segments:True", gib(936), 200 * GIB)),
        whole(passes("roundup_power2_divisions:8", gib(2178), 200 * GIB)),
        whole(remedy("garbage_collection_threshold:0.6", RemedyOutcome::NoChange)),
        whole(Remedy { outcome: RemedyOutcome::Worse, ..passes("max_split_size_mb:128", gib(13_000), 200 * GIB) }),
    ];
    d.categories.peak = vec![
        CategoryBytes { category: "activations", bytes: gib(700) },
        CategoryBytes { category: "other", bytes: gib(170) },
    ];
    explanation(vec![d])
}

/// What is live plus the request exceeds the limit, and the limit is an interval.
pub fn capacity() -> Explanation {
    let mut d = device(finding(
        Cause::Capacity,
        None,
        Confidence::Proven,
        "A request for 0.50 GiB failed with 3.65 GiB live under a limit of about 4.00 GiB: together they need 4.15 GiB.",
    ));
    d.limit = LimitReport { low_bytes: Some(gib(396)), high_bytes: Some(gib(404)), source: "oom_event" };
    d.oom = Some(OomReport { step: Some(0), place: None, ..oom() });
    d.bound = BoundReport {
        compact_bytes: gib(415),
        bytes_to_free: gib(19),
        fits_from_bytes_default: Some(gib(460)),
        fits_from_bytes_best: Some(gib(416)),
    };
    d.remedies = vec![fails("expandable_segments:True", RemedyOutcome::NoChange, 19_000, 0)];
    explanation(vec![d])
}

/// Names as long and as hostile as a file can hold.
pub fn hostile() -> Explanation {
    let mut e = leak();
    e.inputs[0].path = format!("{}\u{1b}[2J\u{202e}{}", "x".repeat(400), "日本語".repeat(40));
    e.warnings = (0..6)
        .map(|i| WarningLine {
            code: format!("w{i}"),
            count: 1 << i,
            message: format!("{}\u{7}{i}", "long ".repeat(60)),
        })
        .collect();
    let d = &mut e.devices[0];
    for f in &mut d.findings {
        for c in &mut f.culprits {
            c.function = "f".repeat(300);
            c.file = format!("/{}\n\u{1b}]0;owned\u{7}", "deep/".repeat(100));
            c.stack = vec!["s".repeat(500)];
        }
    }
    d.remedies.push(remedy(&"a:1,".repeat(100), RemedyOutcome::Fails));
    d.settings.string = Some("k:v,".repeat(90));
    e
}

pub fn all() -> Vec<(&'static str, Explanation)> {
    vec![
        ("story_two", story_two()),
        ("leak", leak()),
        ("healthy", healthy()),
        ("no_trace", no_trace()),
        ("diverged", diverged()),
        ("multi_device", multi_device()),
        ("no_oom_fragmentation", no_oom_fragmentation()),
        ("capacity", capacity()),
        ("empty", explanation(Vec::new())),
    ]
}

pub fn replays() -> Vec<(&'static str, whyoom_report::replay::ReplayResult)> {
    use whyoom_report::replay::*;
    let base = DeviceReplay {
        input: 0,
        device: 0,
        mode: ReplayMode::Recorded,
        status: ReplayState::Exact,
        settings: Some(String::new()),
        changes: Vec::new(),
        basis: "exact_replay",
        recorded: None,
        limit_bytes: None,
        limit_is_inferred: false,
        model: "2.11".into(),
        events: 38_976,
        matched: Some(38_976),
        first_divergence: None,
        final_state: Some(FinalStateReport { equal: true, differing_blocks: 0 }),
        oom: true,
        first_oom: Some(FailedRequest { event: 38_970, malloc: 19_000, step: Some(10), request_bytes: gib(156) }),
        recorded_first_oom: Some(RecordedFailure { event: 38_970, malloc: 19_000 }),
        peak: ReplayPeak {
            requested_bytes: gib(730),
            allocated_bytes: gib(732),
            active_bytes: gib(732),
            reserved_bytes: gib(886),
        },
        peak_reserved_range: (gib(886), gib(886)),
        exceeds_limit: false,
        tie_sensitive: false,
        timing_sensitive: false,
        end: ReplayEnd { allocated_bytes: gib(86), reserved_bytes: gib(808), segments: 61 },
        retries: 4,
        ooms: 1,
        driver_allocations: 120,
        driver_frees: 80,
        maps: 0,
        unmaps: 0,
        synchronisations: 4,
        steps: 10,
        hypothetical_from: None,
        note: None,
    };
    let result = |device: DeviceReplay| ReplayResult {
        schema: ReplayResult::SCHEMA,
        inputs: vec![input("runs/lm_varlen_ckpt.sgdm.cap9.default.pickle.xz")],
        warnings: Vec::new(),
        devices: vec![device],
    };
    let counterfactual = DeviceReplay {
        mode: ReplayMode::Counterfactual,
        settings: Some("expandable_segments:True".into()),
        limit_bytes: Some(9 * GIB),
        matched: None,
        final_state: None,
        oom: false,
        first_oom: None,
        maps: 400,
        unmaps: 300,
        hypothetical_from: Some(38_970),
        ..base.clone()
    };
    vec![
        ("replay_exact", result(base.clone())),
        (
            "replay_diverged",
            result(DeviceReplay {
                matched: Some(12_000),
                first_divergence: diverged().devices[0].replay.first_divergence.clone(),
                final_state: Some(FinalStateReport { equal: false, differing_blocks: 7 }),
                ..base.clone()
            }),
        ),
        (
            "replay_not_possible",
            result(DeviceReplay {
                events: 0,
                matched: None,
                final_state: None,
                oom: false,
                first_oom: None,
                recorded_first_oom: None,
                steps: 0,
                ..base.clone()
            }),
        ),
        ("replay_passes", result(counterfactual.clone())),
        (
            "replay_fails_earlier",
            result(DeviceReplay {
                settings: Some("roundup_power2_divisions:8".into()),
                changes: vec!["empty_cache() after every step".into()],
                oom: true,
                first_oom: Some(FailedRequest { event: 30_000, malloc: 15_000, step: Some(8), request_bytes: gib(90) }),
                peak_reserved_range: (gib(849), gib(886)),
                tie_sensitive: true,
                timing_sensitive: true,
                hypothetical_from: None,
                ..counterfactual
            }),
        ),
    ]
}
