//! Series and devices side by side.

use std::collections::HashMap;

use serde::Serialize;

use super::{Analysis, Point, Series, Shape, analyse};

/// What becomes of the distance between two series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapTrend {
    /// It stays: what grows in the upper series grows in the lower one (reserved follows allocated).
    Flat,
    /// It widens: the upper series grows without the lower one (a cache or fragments, not live tensors).
    Grows,
    /// It closes.
    Shrinks,
    /// It goes up and down.
    Varies,
}

/// Two series of one log, such as allocated below reserved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relation {
    /// Samples that both have.
    pub paired: u64,
    /// Upper less lower, sample by sample; a negative distance counts as 0.
    pub gap: Series,
    /// The form of the distance.
    pub gap_form: Analysis,
    /// In a word.
    pub trend: GapTrend,
    /// Pearson's correlation of the two; none where one of them does not move.
    pub correlation: Option<f64>,
}

/// Sets two series of one log side by side; `None` if they share no sample.
pub fn compare(lower: &Series, upper: &Series) -> Option<Relation> {
    let below: HashMap<u64, Point> = lower.points().into_iter().map(|point| (point.at, point)).collect();
    let pairs: Vec<(Point, Point)> =
        upper.points().into_iter().filter_map(|above| Some((*below.get(&above.at)?, above))).collect();
    let mut gap = Series::new();
    for (low, high) in &pairs {
        let distance = Point { bytes: high.bytes.saturating_sub(low.bytes), ..*high };
        gap.push(distance, lower.within.saturating_add(upper.within));
    }
    let gap_form = analyse(&gap);
    let moved = upper.max?.bytes - upper.min?.bytes;
    // A twentieth of what the upper series moves is no trend of its own.
    let is_small = gap.max?.bytes - gap.min?.bytes <= (moved / 20).max(gap.within.saturating_mul(2));
    let trend = match gap_form.shape {
        _ if is_small => GapTrend::Flat,
        Shape::Flat { .. } | Shape::TooFew => GapTrend::Flat,
        Shape::Growth { .. } | Shape::Staircase { .. } | Shape::WarmUp { .. } => GapTrend::Grows,
        Shape::Jump { by, .. } if by > 0 => GapTrend::Grows,
        Shape::Jump { .. } | Shape::Decline { .. } => GapTrend::Shrinks,
        Shape::SawTooth { .. } | Shape::Fluctuating { .. } => GapTrend::Varies,
    };
    let correlation = correlation(&pairs);
    Some(Relation { paired: pairs.len() as u64, gap, gap_form, trend, correlation })
}

fn correlation(pairs: &[(Point, Point)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(Point, Point)) -> u64| pairs.iter().map(|pair| of(pair) as f64).sum::<f64>() / count;
    let (mean_low, mean_high) = (mean(|pair| pair.0.bytes), mean(|pair| pair.1.bytes));
    let (mut both, mut low, mut high) = (0.0, 0.0, 0.0);
    for pair in pairs {
        let (a, b) = (pair.0.bytes as f64 - mean_low, pair.1.bytes as f64 - mean_high);
        both += a * b;
        low += a * a;
        high += b * b;
    }
    (low > 0.0 && high > 0.0).then(|| both / (low.sqrt() * high.sqrt()))
}

/// What one series is of another: a process of its card, other processes of a card.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// Part over whole at the first sample that both have.
    pub first: f64,
    /// At the last.
    pub last: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// The share of `part` in `whole` over the samples that both have.
pub fn share(part: &Series, whole: &Series) -> Option<Share> {
    let parts: HashMap<u64, u64> = part.points().into_iter().map(|point| (point.at, point.bytes)).collect();
    let shares: Vec<f64> = whole
        .points()
        .iter()
        .filter(|point| point.bytes > 0)
        .filter_map(|point| Some(*parts.get(&point.at)? as f64 / point.bytes as f64))
        .collect();
    Some(Share {
        first: *shares.first()?,
        last: *shares.last()?,
        min: shares.iter().copied().fold(f64::INFINITY, f64::min),
        max: shares.iter().copied().fold(0.0, f64::max),
    })
}

/// How unevenly devices are filled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Imbalance {
    /// The fullest device and its bytes; the lowest index of equals.
    pub fullest: (u32, u64),
    /// The emptiest device and its bytes; the lowest index of equals.
    pub emptiest: (u32, u64),
    /// Fullest less emptiest.
    pub spread_bytes: u64,
    /// Fullest over the median of all.
    pub over_median: f64,
}

/// Compares devices by bytes in use; `None` for fewer than two.
pub fn imbalance(devices: &[(u32, u64)]) -> Option<Imbalance> {
    if devices.len() < 2 {
        return None;
    }
    let mut sorted = devices.to_vec();
    sorted.sort_by_key(|(index, bytes)| (*bytes, *index));
    let emptiest = sorted[0];
    let highest = sorted[sorted.len() - 1].1;
    let fullest = *sorted.iter().find(|(_, bytes)| *bytes == highest)?;
    let middle = f64::midpoint(sorted[(sorted.len() - 1) / 2].1 as f64, sorted[sorted.len() / 2].1 as f64);
    let over_median = if middle > 0.0 { highest as f64 / middle } else { f64::from(u8::from(highest == 0)) };
    Some(Imbalance { fullest, emptiest, spread_bytes: highest - emptiest.1, over_median })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(figures: &[u64]) -> Series {
        let mut series = Series::new();
        for (at, bytes) in (0..).zip(figures) {
            series.push(Point { at, step: Some(at), epoch: None, seconds: None, bytes: *bytes }, 0);
        }
        series
    }

    #[test]
    fn reserved_that_follows_allocated_keeps_its_distance() {
        let relation = compare(&series(&[10, 20, 30, 40]), &series(&[15, 25, 35, 45])).expect("four pairs");
        assert_eq!((relation.paired, relation.trend), (4, GapTrend::Flat));
        assert!(relation.correlation.is_some_and(|correlation| correlation > 0.999));
    }

    #[test]
    fn a_cache_grows_over_what_is_live() {
        let relation = compare(&series(&[10, 10, 10, 10]), &series(&[15, 25, 35, 45])).expect("four pairs");
        assert_eq!((relation.trend, relation.correlation), (GapTrend::Grows, None));
    }

    #[test]
    fn shares_and_imbalance() {
        let found = share(&series(&[1, 2, 3]), &series(&[10, 10, 10])).expect("three pairs");
        assert!((found.last - 0.3).abs() < 1e-12 && (found.first - 0.1).abs() < 1e-12);
        let found = imbalance(&[(0, 18432), (1, 17010), (2, 17010), (3, 17010)]).expect("four devices");
        assert_eq!((found.fullest.0, found.emptiest.0, found.spread_bytes), (0, 1, 1422));
        assert_eq!(imbalance(&[(0, 1)]), None);
    }
}
