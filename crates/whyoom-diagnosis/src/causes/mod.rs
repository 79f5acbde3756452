//! Causes, one file each, and the order in which they are the verdict.
//!
//! Each file finds its own cause from the evidence of a [`Case`] and knows nothing of the others; this module ranks
//! what they found:
//!
//! At a failing request r with live bytes S under a limit L: settings that decide; memory that others hold; a leak
//! without which the request would have fitted; a step that stands out; then S + r ≤ L: the layout (pending frees and
//! private pools where they hold the space); else capacity. A leak or a layout that does not decide is listed after
//! the verdict, and a cap always last. Without a failure what costs most comes first, or nothing is wrong.

pub(crate) mod capacity;
pub(crate) mod fragmentation;
pub(crate) mod healthy;
pub(crate) mod leak;
pub(crate) mod limit;
pub(crate) mod outside;
pub(crate) mod pending_free;
pub(crate) mod private_pool;
pub(crate) mod settings;
pub(crate) mod spike;
pub(crate) mod undetermined;

use crate::case::{Case, Failing};
use crate::explanation::{Cause, Confidence, Evidence, Finding, RuledOut, Value};
use crate::words;

/// What a device's evidence comes to.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The verdict first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) ruled_out: Vec<RuledOut>,
}

/// Judges `case`.
pub(crate) fn judge(case: &Case<'_>) -> Verdict {
    let mut findings = if case.failing.is_some() { at_failure(case) } else { without_failure(case) };
    // A weak finding is never the verdict where a better one is.
    findings.sort_by_key(|f| f.confidence == Confidence::Weak);
    if !case.is_exact {
        for finding in &mut findings {
            finding.confidence = finding.confidence.min(Confidence::Strong);
        }
    }
    let is_decided = findings.iter().any(|f| f.cause != Cause::Limit);
    if !is_decided && case.failing.is_some() {
        findings.insert(0, undetermined::at_failure(case));
    }
    if findings.is_empty() {
        findings.push(undetermined::without_failure(case).unwrap_or_else(|| healthy::find(case)));
    }
    let ruled_out = ruled_out(case, &findings);
    Verdict { findings, ruled_out }
}

fn at_failure(case: &Case<'_>) -> Vec<Finding> {
    let leak = leak::find(case);
    let (decisive, other): (Option<Finding>, Option<Finding>) =
        if leak::decides(case) { (leak, None) } else { (None, leak) };
    let spike = spike::find(case);
    // What was done without needed no place.
    let is_spared = spike.as_ref().is_some_and(|s| s.subcause == Some(spike::WORKSPACE));
    let found = [
        settings::find(case),
        outside::find(case),
        decisive,
        spike,
        pending_free::find(case),
        private_pool::find(case),
        fragmentation::find(case).filter(|_| !is_spared),
    ];
    let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
    // What is one step's doing, or a leak's, is not a level that every step reaches.
    if !findings.iter().any(|f| f.confidence > Confidence::Weak && f.cause != Cause::Settings) {
        findings.extend(capacity::find(case));
    }
    findings.extend(other);
    findings.extend(limit::find(case));
    findings
}

fn without_failure(case: &Case<'_>) -> Vec<Finding> {
    let harmful = settings::find(case);
    let replayed: Vec<Finding> = case.would_fail.as_ref().map_or_else(Vec::new, |f| {
        if let Some(finding) = capacity::replayed(case, f) {
            return vec![finding];
        }
        // What no layout holds is not cured by a layout, whatever fails first.
        let whole_run = capacity::of_whole_run(case, f);
        let layout = fragmentation::replayed(case, f, whole_run.is_some());
        whole_run.into_iter().chain([layout]).collect()
    });
    let found = [leak::find(case), pending_free::find(case), private_pool::find(case), fragmentation::find(case)];
    let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
    // Nothing failed: indications alone are no reason to alarm anybody.
    findings.retain(|f| f.confidence > Confidence::Weak);
    findings.sort_by_key(|f| u64::MAX - f.bytes_explained);
    findings.retain(|f| replayed.iter().all(|r| r.cause != f.cause));
    replayed.into_iter().chain(harmful).chain(findings).collect()
}

/// `A request for 1.56 GiB failed with 5.36 GiB live under a limit of 9.00 GiB`: how every verdict on a failure begins.
pub(crate) fn request_in_words(case: &Case<'_>, failing: &Failing) -> String {
    let state = &failing.state;
    let limit = match (case.in_effect.low, case.in_effect.high) {
        (Some(low), Some(high)) if words::bytes(low) == words::bytes(high) => {
            // What is needed and the limit are compared below: they must not read the same where they differ.
            let [_, limit] = words::bytes_apart([failing.needed(), high]);
            format!(" under a limit of {limit}")
        }
        _ => case.in_effect.in_words().map(|l| format!(" under {l}")).unwrap_or_default(),
    };
    format!("{} failed with {} live{limit}", request_alone(failing), words::bytes(state.active))
}

/// What the failing request and what is live need together, told apart from the limit.
pub(crate) fn needed_in_words(case: &Case<'_>, failing: &Failing) -> String {
    let needed = failing.needed();
    // An interval is not compared to the digit.
    let known = case.in_effect.low.zip(case.in_effect.high).filter(|&(l, h)| words::bytes(l) == words::bytes(h));
    match known {
        Some((_, limit)) => words::bytes_apart([needed, limit])[0].clone(),
        None => words::bytes(needed),
    }
}

/// `A request for 4.00 MiB (PyTorch's message says 20.00 MiB)`: the message gives the size of the segment that was
/// wanted for it (`alloc_size` in `CUDACachingAllocator.cpp`, all releases), which people look for.
pub(crate) fn request_alone(failing: &Failing) -> String {
    let state = &failing.state;
    let (own, message) = (words::bytes_of_pytorch(state.request_bytes), words::bytes_of_pytorch(state.segment_bytes));
    let request = words::bytes(state.request_bytes);
    if own == message {
        return format!("A request for {request}");
    }
    format!("A request for {request} (PyTorch's message says {message})")
}

/// The peak of what was needed, `1.18 GiB live`, or both quantities where frees waited: `live` is what is allocated.
pub(crate) fn peak_in_words(case: &Case<'_>) -> String {
    let active = case.peak_active();
    let allocated = case.peak_allocated();
    // Up to a fiftieth is a matter of moments.
    if active - active.min(allocated) <= active / 50 {
        return format!("{} live", words::bytes(active));
    }
    format!("{} allocated ({} with frees that waited for other streams)", words::bytes(allocated), words::bytes(active))
}

fn ruled_out(case: &Case<'_>, findings: &[Finding]) -> Vec<RuledOut> {
    // A trace that contradicts itself excludes nothing.
    if case.failing.is_none() && (case.is_cut || undetermined::is_contradictory(case)) {
        return Vec::new();
    }
    let says = [
        (Cause::Leak, leak::rule_out(case)),
        (Cause::Capacity, capacity::rule_out(case)),
        (Cause::Fragmentation, fragmentation::rule_out(case)),
        (Cause::Spike, spike::rule_out(case)),
        (Cause::PendingFree, pending_free::rule_out(case)),
        (Cause::Settings, settings::rule_out(case)),
    ];
    let is_found = |cause: Cause| findings.iter().any(|f| f.cause == cause);
    says.into_iter()
        .filter(|(cause, _)| !is_found(*cause))
        .filter_map(|(cause, statement)| statement.map(|statement| RuledOut { cause, statement }))
        .collect()
}

/// A finding without growth and culprits.
pub(crate) fn finding(cause: Cause, confidence: Confidence, summary: String, bytes_explained: u64) -> Finding {
    Finding {
        cause,
        subcause: None,
        confidence,
        summary,
        bytes_explained,
        evidence: Vec::new(),
        growth: None,
        culprits: Vec::new(),
    }
}

/// Evidence in bytes.
pub(crate) fn in_bytes(statement: String, bytes: u64, events: &[u32]) -> Evidence {
    evidence(statement, Value::Integer(bytes), "bytes", events)
}

/// Evidence that is a number of things.
pub(crate) fn in_number(statement: String, number: u64, unit: &'static str, events: &[u32]) -> Evidence {
    evidence(statement, Value::Integer(number), unit, events)
}

/// Evidence that is a share of something.
pub(crate) fn in_ratio(statement: String, share: f64, events: &[u32]) -> Evidence {
    evidence(statement, Value::Fraction(share), "ratio", events)
}

fn evidence(statement: String, value: Value, unit: &'static str, events: &[u32]) -> Evidence {
    Evidence { statement, value, unit, events: events.iter().map(|&e| u64::from(e)).collect() }
}
