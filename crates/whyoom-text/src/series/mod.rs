//! Series of memory figures over steps or time, and what can be said of their form.
//!
//! A [`Series`] is bounded however long its log is: count, first, last, lowest and highest are exact, and of the
//! points in between an even selection is kept. [`analyse`] names the [`Shape`] with numbers that a person can check
//! with a pencil; [`compare`] sets two series side by side; [`until`] says when a limit is met at this pace.

mod axis;
mod compare;
mod shape;
mod slope;
mod teeth;
mod until;

use serde::Serialize;

pub use axis::Axis;
pub use compare::{GapTrend, Imbalance, Relation, Share, compare, imbalance, share};
pub use shape::{Analysis, Shape, analyse};
pub use until::{Until, until};

/// Points that a series keeps at most, beside its exact ends and extremes.
pub const MAX_POINTS: usize = 4096;

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Ordinal of the sample in its log, from 0: two series of one log have the same ordinal on the same line.
    pub at: u64,
    /// The step, iteration or batch as printed; it may begin again at each epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The epoch as printed; some loops print fractions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<f64>,
    /// Seconds: since 1970 where a date is printed, since midnight or since the beginning of the run where not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The figure, in bytes.
    pub bytes: u64,
}

/// Figures of one quantity in the order in which they were printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// Figures seen, all of them.
    pub count: u64,
    /// The first figure; none in an empty series.
    pub first: Option<Point>,
    /// The last figure.
    pub last: Option<Point>,
    /// The lowest figure, the earliest of equals.
    pub min: Option<Point>,
    /// The highest figure, the earliest of equals.
    pub max: Option<Point>,
    /// Half of the last digit printed, in bytes: figures nearer than twice this may be equal.
    pub within: u64,
    #[serde(skip)]
    points: Vec<Point>,
    #[serde(skip)]
    stride: u64,
}

impl Series {
    /// An empty series.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a figure that was rounded to `within` bytes on either side. Amortised O(1), bounded memory.
    pub fn push(&mut self, point: Point, within: u64) {
        self.within = self.within.max(within);
        self.first.get_or_insert(point);
        self.last = Some(point);
        if self.min.is_none_or(|min| point.bytes < min.bytes) {
            self.min = Some(point);
        }
        if self.max.is_none_or(|max| point.bytes > max.bytes) {
            self.max = Some(point);
        }
        self.stride = self.stride.max(1);
        if self.count.is_multiple_of(self.stride) {
            if self.points.len() == MAX_POINTS {
                // Every second one stays: which ones depends on the count alone, so series of one log stay aligned.
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.points.push(point);
            }
        }
        self.count += 1;
    }

    /// The points kept, in order: all up to [`MAX_POINTS`] figures, then every 2nd, 4th, … and always the last.
    pub fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        if let Some(last) = self.last
            && points.last().is_some_and(|kept| kept.at != last.at)
        {
            points.push(last);
        }
        points
    }

    /// The series with each figure multiplied by `times` and divided by `over`, for a unit that is known late.
    #[must_use]
    pub fn scaled(mut self, times: u64, over: u64) -> Self {
        let scale = |bytes: u64| {
            let scaled = u128::from(bytes) * u128::from(times) / u128::from(over.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        self.each_point(|point| point.bytes = scale(point.bytes));
        self.within = scale(self.within);
        self
    }

    /// Changes every point kept, and the ends and extremes.
    pub(crate) fn each_point(&mut self, mut change: impl FnMut(&mut Point)) {
        let ends = [&mut self.first, &mut self.last, &mut self.min, &mut self.max].into_iter().flatten();
        for point in ends.chain(&mut self.points) {
            change(point);
        }
    }

    /// Whether there is no figure.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u64, bytes: u64) -> Point {
        Point { at, step: Some(at), epoch: None, seconds: None, bytes }
    }

    #[test]
    fn a_long_series_is_bounded_and_its_ends_are_exact() {
        let mut series = Series::new();
        for at in 0..100_001 {
            series.push(point(at, if at == 77_777 { 1 << 40 } else { 1000 + at }), 0);
        }
        assert_eq!(series.count, 100_001);
        assert_eq!(series.first.map(|p| p.bytes), Some(1000));
        assert_eq!(series.last.map(|p| p.at), Some(100_000));
        assert_eq!(series.max.map(|p| p.at), Some(77_777));
        let points = series.points();
        assert!(points.len() <= MAX_POINTS + 1 && points.len() > MAX_POINTS / 2, "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(points.last().map(|p| p.at), Some(100_000));
    }

    #[test]
    fn two_series_of_one_log_keep_the_same_samples() {
        let mut series = [Series::new(), Series::new()];
        for at in 0..9999 {
            for one in &mut series {
                one.push(point(at, at), 0);
            }
        }
        assert_eq!(series[0].points(), series[1].points());
    }
}
