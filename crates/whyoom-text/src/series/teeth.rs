//! Rises that end in a fall: the teeth of a saw.

use super::Point;
use super::slope::{median, trend};

/// A fall of this part of the whole range begins a new tooth.
const RESET_SHARE: f64 = 0.3;

/// Teeth of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Teeth {
    /// Index of the first point of each tooth, the first tooth at 0.
    starts: Vec<usize>,
    len: usize,
}

/// What the teeth have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Saw {
    pub resets: u64,
    pub slope: f64,
    pub period: Option<f64>,
    pub fall: f64,
    pub drift: Option<f64>,
}

impl Teeth {
    /// Cuts where the figures fall by much of their range.
    pub(super) fn cut(ys: &[f64], range: f64, tolerance: f64) -> Self {
        let is_reset = |pair: &[f64]| pair[0] - pair[1] > (RESET_SHARE * range).max(tolerance);
        let resets = ys.windows(2).enumerate().filter(|(_, pair)| is_reset(pair)).map(|(index, _)| index + 1);
        Self { starts: std::iter::once(0).chain(resets).collect(), len: ys.len() }
    }

    fn pieces(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = self.starts.iter().skip(1).copied().chain(std::iter::once(self.len));
        self.starts.iter().copied().zip(ends).map(|(start, end)| start..end)
    }

    /// The saw, if rises between the falls are what the series is made of.
    pub(super) fn saw(&self, points: &[Point], xs: &[f64], ys: &[f64]) -> Option<Saw> {
        let resets = self.starts.len() - 1;
        // A tooth of two points is as likely one of two levels that take turns.
        let longest = self.pieces().map(|piece| piece.len()).max()?;
        if resets == 0 || longest < 3 || self.len < 3 * resets {
            return None;
        }
        let rising = trend(self.pieces().map(|piece| (&xs[piece.clone()], &ys[piece])))?;
        if rising.slope <= 0.0 || rising.tau < 0.5 {
            return None;
        }
        let mut falls: Vec<f64> = self.starts[1..].iter().map(|&start| ys[start - 1] - ys[start]).collect();
        // The first tooth may have begun before the log does: a period is a distance between falls.
        let mut periods: Vec<f64> = self.starts[1..].windows(2).map(|pair| xs[pair[1]] - xs[pair[0]]).collect();
        let period = median(&mut periods).or_else(|| self.first_period(points, xs));
        Some(Saw {
            resets: resets as u64,
            slope: rising.slope,
            period,
            fall: median(&mut falls)?,
            drift: self.drift(points, ys),
        })
    }

    /// The length of the first tooth, where its printed steps say that it was counted from 0.
    fn first_period(&self, points: &[Point], xs: &[f64]) -> Option<f64> {
        let reset = *self.starts.get(1)?;
        let (first, after) = (points[0].step? as f64, points[reset].step? as f64);
        (after <= first).then(|| xs[reset] - after - (xs[0] - first)).filter(|period| *period > 0.0)
    }

    /// What one period adds for good: the same step of successive teeth, else successive lowest figures.
    fn drift(&self, points: &[Point], ys: &[f64]) -> Option<f64> {
        let pieces: Vec<_> = self.pieces().collect();
        let mut same_phase = Vec::new();
        for pair in pieces.windows(2) {
            let mut earlier = pair[0].clone().peekable();
            for later in pair[1].clone() {
                let Some(step) = points[later].step else { continue };
                while earlier.next_if(|&index| points[index].step.is_none_or(|before| before < step)).is_some() {}
                if let Some(&index) = earlier.peek()
                    && points[index].step == Some(step)
                {
                    same_phase.push(ys[later] - ys[index]);
                }
            }
        }
        if let Some(drift) = median(&mut same_phase) {
            return Some(drift);
        }
        let lowest = |piece: &std::ops::Range<usize>| ys[piece.clone()].iter().copied().fold(f64::INFINITY, f64::min);
        let lows: Vec<f64> = pieces[1..].iter().map(lowest).collect();
        median(&mut lows.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
    }
}
