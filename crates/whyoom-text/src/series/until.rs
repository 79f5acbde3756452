//! When a limit is met.

use serde::Serialize;

use super::{Analysis, Series, Shape};

/// How long the pace lasts until a limit is met, from the last figure on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Until {
    /// Limit less last figure.
    pub room_bytes: u64,
    /// Steps until then.
    pub steps: Option<f64>,
    /// Seconds until then.
    pub seconds: Option<f64>,
    /// Samples until then.
    pub samples: Option<f64>,
}

/// When the figures meet `limit` if they go on as they do; `None` if they do not keep rising, or are there already.
pub fn until(series: &Series, analysis: &Analysis, limit: u64) -> Option<Until> {
    if !matches!(analysis.shape, Shape::Growth { .. } | Shape::Staircase { .. }) {
        return None;
    }
    let room = limit.checked_sub(series.last?.bytes)?;
    let at = |pace: Option<f64>| pace.filter(|pace| *pace > 0.0).map(|pace| room as f64 / pace);
    let found = Until {
        room_bytes: room,
        steps: at(analysis.per_step),
        seconds: at(analysis.per_second),
        samples: at(analysis.per_sample),
    };
    (found.steps.is_some() || found.seconds.is_some() || found.samples.is_some()).then_some(found)
}
