//! What was found of one device, and the report made of it.

use super::dossier::Subject;
use super::next;
use crate::explanation::{
    BoundReport, CategoriesReport, Cause, Collect, Confidence, Culprit, DeviceReport, Evidence, Finding, LimitReport,
    PeakReport, Remedy, ReplayReport, ReplayStatus, RuledOut, SettingsReport, StepsReport,
};
use whyoom_text::messages::Frame;

/// Findings and what goes with them; each kind of evidence makes one, and they are taken together.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) findings: Vec<Finding>,
    pub(super) ruled_out: Vec<RuledOut>,
    pub(super) remedies: Vec<Remedy>,
    /// What to collect next; the first that is named stays.
    pub(super) collect: Option<Collect>,
    pub(super) limit: Option<LimitReport>,
    pub(super) peak: PeakReport,
    pub(super) bound: BoundReport,
    pub(super) steps: u64,
    pub(super) settings: Option<String>,
}

impl Answer {
    /// An answer of one finding.
    pub(super) fn of(finding: Finding) -> Self {
        Self { findings: vec![finding], ..Self::default() }
    }

    #[must_use]
    pub(super) fn and(mut self, finding: Option<Finding>) -> Self {
        self.findings.extend(finding);
        self
    }

    #[must_use]
    pub(super) fn not(mut self, cause: Cause, statement: impl Into<String>) -> Self {
        self.ruled_out.push(RuledOut { cause, statement: statement.into() });
        self
    }

    #[must_use]
    pub(super) fn offer(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies.extend(remedies);
        self
    }

    #[must_use]
    pub(super) fn ask(mut self, collect: Collect) -> Self {
        self.collect.get_or_insert(collect);
        self
    }

    /// Takes over what another kind of evidence found.
    pub(super) fn take(&mut self, other: Self) {
        // What one kind of evidence asks for is not asked where another one decides.
        let is_better = |a: &[Finding], b: &[Finding]| b.iter().map(rank).min() < a.iter().map(rank).min();
        if other.collect.is_some() && (self.collect.is_none() || is_better(&self.findings, &other.findings)) {
            self.collect = other.collect;
        }
        if self.findings.is_empty() || is_better(&self.findings, &other.findings) {
            let mut remedies = other.remedies;
            remedies.append(&mut self.remedies);
            self.remedies = remedies;
        } else {
            self.remedies.extend(other.remedies);
        }
        self.findings.extend(other.findings);
        self.ruled_out.extend(other.ruled_out);
        self.limit = self.limit.take().or(other.limit);
        self.settings = self.settings.take().or(other.settings);
        self.steps = self.steps.max(other.steps);
        let more = |a: &mut u64, b: u64| *a = (*a).max(b);
        more(&mut self.peak.allocated_bytes, other.peak.allocated_bytes);
        more(&mut self.peak.requested_bytes, other.peak.requested_bytes);
        more(&mut self.peak.active_bytes, other.peak.active_bytes);
        more(&mut self.peak.reserved_bytes, other.peak.reserved_bytes);
        more(&mut self.bound.compact_bytes, other.bound.compact_bytes);
        more(&mut self.bound.bytes_to_free, other.bound.bytes_to_free);
    }

    /// Puts the verdict first and leaves out what it makes void.
    fn settle(&mut self, has_failed: bool) {
        self.findings.sort_by_key(rank);
        if has_failed {
            // Nobody is healthy who has just died.
            self.findings.retain(|f| f.cause != Cause::Healthy);
        }
        if self.findings.iter().any(|f| !matches!(f.cause, Cause::Undetermined | Cause::Healthy)) {
            self.findings.retain(|f| !matches!(f.cause, Cause::Undetermined | Cause::Healthy));
        }
        // One finding for a cause: the surest stands.
        let mut known: Vec<Cause> = Vec::new();
        self.findings.retain(|f| {
            let is_new = !known.contains(&f.cause);
            known.push(f.cause);
            is_new
        });
        let found: Vec<Cause> = self.findings.iter().map(|f| f.cause).collect();
        let mut excluded: Vec<Cause> = Vec::new();
        self.ruled_out.retain(|r| {
            let stays = !found.contains(&r.cause) && !excluded.contains(&r.cause);
            excluded.push(r.cause);
            stays
        });
        let mut ids: Vec<String> = Vec::new();
        self.remedies.retain(|r| {
            let is_new = !ids.contains(&r.id);
            ids.push(r.id.clone());
            is_new
        });
    }

    pub(super) fn report(mut self, subject: &Subject<'_>, has_failed: bool) -> DeviceReport {
        self.settle(has_failed);
        if self.findings.is_empty() {
            let said = next::nothing_said();
            self.collect.get_or_insert(said.1);
            self.findings.push(said.0);
        }
        DeviceReport {
            input: subject.input,
            device: subject.device,
            rank: subject.rank,
            settings: SettingsReport { string: self.settings, in_force: serde_json::json!({}) },
            replay: ReplayReport {
                status: ReplayStatus::NotPossible,
                events: 0,
                matched: 0,
                first_divergence: None,
                final_state: None,
                model: String::new(),
                retries: 0,
                note: None,
            },
            limit: self.limit.unwrap_or(LimitReport { low_bytes: None, high_bytes: None, source: "unknown" }),
            steps: StepsReport { count: self.steps, source: "none", is_partial: false },
            peak: self.peak,
            oom: None,
            would_fail: None,
            bound: self.bound,
            categories: CategoriesReport::default(),
            findings: self.findings,
            ruled_out: self.ruled_out,
            remedies: self.remedies,
            collect: self.collect,
        }
    }
}

/// Lower comes first: what is weak after what is not, then the order in which causes are the verdict.
pub(super) fn rank(finding: &Finding) -> (bool, u8) {
    let order = match finding.cause {
        Cause::Settings => 0,
        Cause::Outside | Cause::Limit => 1,
        Cause::Leak => 2,
        Cause::Spike => 3,
        Cause::PendingFree | Cause::PrivatePool => 4,
        Cause::Fragmentation => 5,
        Cause::Capacity => 6,
        Cause::Healthy => 7,
        Cause::Undetermined => 8,
    };
    let is_nothing = matches!(finding.cause, Cause::Healthy | Cause::Undetermined);
    (finding.confidence == Confidence::Weak || is_nothing, order)
}

/// A finding with its evidence.
pub(super) fn finding(
    cause: Cause,
    confidence: Confidence,
    summary: impl Into<String>,
    bytes: u64,
    evidence: Vec<Evidence>,
) -> Finding {
    Finding { evidence, ..crate::causes::finding(cause, confidence, summary.into(), bytes) }
}

/// The line that a traceback names.
pub(super) fn culprit(frame: Option<&Frame>) -> Vec<Culprit> {
    let culprit = |frame: &Frame| Culprit {
        function: frame.function.clone().unwrap_or_default(),
        file: frame.file.clone(),
        line: frame.line,
        source: frame.code.clone(),
        ..Culprit::default()
    };
    frame.map(culprit).into_iter().collect()
}
