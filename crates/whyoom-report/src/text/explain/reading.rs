//! How a remedy is to be read: what its outcome means for this device.

use std::cmp::Ordering;

use whyoom_diagnosis::explanation::{Cause, DeviceReport, Finding, Remedy, RemedyOutcome, ReplayStatus};

use crate::text::doc::Tone;

/// How a remedy is to be read, beyond its recorded outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Passes with room.
    Passes,
    /// Passes with next to no room, or not in every placement tried.
    Gamble,
    /// The limit is known as an interval, and it depends on where in it the limit lies.
    Depends,
    /// Passes where a leak decides: it dies of the same a little later.
    Delays,
    /// Reserves less or more than the recording did: what is not known of another run decides.
    Open,
    /// Would lower what is reserved; nothing failed that it could get past.
    Lowers,
    /// Changes nothing, where nothing failed.
    Same,
    /// Does not help.
    Fails,
    /// Not known.
    Unverified,
}

impl Reading {
    pub(super) fn mark(self) -> (Tone, &'static str) {
        match self {
            Self::Passes | Self::Lowers => (Tone::Good, "✓"),
            Self::Gamble | Self::Depends | Self::Delays | Self::Open => (Tone::Caution, "~"),
            Self::Fails => (Tone::Bad, "✗"),
            Self::Same => (Tone::Plain, "="),
            Self::Unverified => (Tone::Caution, "?"),
        }
    }
}

/// How `remedy` is to be read for `device`.
pub(super) fn reading(device: &DeviceReport, remedy: &Remedy) -> Reading {
    if device.replay.status == ReplayStatus::Diverged && remedy.basis.contains("replay") {
        return Reading::Unverified;
    }
    if is_open(device, remedy) {
        return Reading::Open;
    }
    let failed = device.oom.is_some();
    let is_asked = is_limit_asked(device);
    match remedy.outcome {
        RemedyOutcome::NotVerified if remedy.passes_from_limit_bytes.is_some() => Reading::Depends,
        RemedyOutcome::NotVerified => Reading::Unverified,
        RemedyOutcome::Worse if is_asked && remedy.first_failure.is_none() => passing(device, remedy),
        RemedyOutcome::Fails | RemedyOutcome::Worse => Reading::Fails,
        RemedyOutcome::NoChange if failed => Reading::Fails,
        RemedyOutcome::NoChange if is_asked && remedy.first_failure.is_none() => passing(device, remedy),
        RemedyOutcome::NoChange if remedy.first_failure.is_some() => Reading::Fails,
        RemedyOutcome::NoChange => Reading::Same,
        RemedyOutcome::Passes if failed || is_asked => passing(device, remedy),
        RemedyOutcome::Passes => match remedy.peak_reserved_bytes.map(|p| p.cmp(&device.peak.reserved_bytes)) {
            Some(Ordering::Less) => Reading::Lowers,
            Some(Ordering::Equal) => Reading::Same,
            Some(Ordering::Greater) => Reading::Fails,
            None => Reading::Passes,
        },
    }
}

fn passing(device: &DeviceReport, remedy: &Remedy) -> Reading {
    if is_gamble(device, remedy) {
        Reading::Gamble
    } else if delays(device, remedy) {
        Reading::Delays
    } else {
        Reading::Passes
    }
}

/// Whether `remedy` leaves a leak as it is, which goes on.
fn delays(device: &DeviceReport, remedy: &Remedy) -> bool {
    let goes_on =
        |f: &Finding| f.cause == Cause::Leak && f.growth.as_ref().is_some_and(|g| g.dies_again_in_steps.is_some());
    device.findings.first().is_some_and(goes_on) && !remedy.id.starts_with("code/drop")
}

/// Whether the figures tried lie on both sides of the recorded one, where nothing but figures is asked.
fn is_open(device: &DeviceReport, remedy: &Remedy) -> bool {
    let Some((low, high)) = remedy.peak_reserved_range else { return false };
    let recorded = device.peak.reserved_bytes;
    // A hundredth is a segment here or there.
    let slack = recorded / 100;
    device.oom.is_none()
        && !is_limit_asked(device)
        && remedy.first_failure.is_none()
        && low.saturating_add(slack) < recorded
        && high > recorded.saturating_add(slack)
}

/// Whether the question is if a run that did not fail would live under a limit that was given.
pub(super) fn is_limit_asked(device: &DeviceReport) -> bool {
    device.oom.is_none() && device.limit.source == "argument" && device.limit.low_bytes.is_some()
}

/// Bytes left under the limit's low end by the least favourable placement tried.
pub(super) fn spare(device: &DeviceReport, remedy: &Remedy) -> Option<u64> {
    let headroom = remedy.headroom_bytes?;
    let worst = match (device.limit.low_bytes, remedy.peak_reserved_range) {
        (Some(limit), Some((_, high))) => limit.saturating_sub(high),
        _ => headroom,
    };
    Some(headroom.min(worst))
}

/// Whether less than half a percent of the limit is left: the next library update decides.
fn is_gamble(device: &DeviceReport, remedy: &Remedy) -> bool {
    match (spare(device, remedy), device.limit.low_bytes) {
        _ if remedy.passes_under_bytes.is_some() => false,
        (Some(spare), Some(limit)) => u128::from(spare) * 200 < u128::from(limit),
        _ => false,
    }
}

/// Whether the verdict is that nothing is wrong.
pub(super) fn is_healthy(device: &DeviceReport) -> bool {
    device.findings.first().is_some_and(|f| f.cause == Cause::Healthy)
}
