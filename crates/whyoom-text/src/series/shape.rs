//! Which form a series has.

use serde::Serialize;

use super::slope::{Trend, median, trend};
use super::teeth::{Saw, Teeth};
use super::{Axis, Point, Series, axis};

/// Figures that differ by less than this part of their level are level, unless they keep rising.
const LEVEL_SHARE: f64 = 0.02;

/// The form of a series. Positions are on the axis of its [`Analysis`]; sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
pub enum Shape {
    /// Fewer than two figures: nothing can be said.
    TooFew,
    /// The figures stay where they are.
    Flat {
        /// The median.
        level: u64,
        /// Highest less lowest.
        spread: u64,
    },
    /// The figures rise and keep rising. The pace is in [`Analysis`].
    Growth {
        /// Last less first.
        rise: i64,
        /// Whether each interval shows the same pace, to a tenth or to the last digit printed; unknown of one interval.
        constant: Option<bool>,
        /// Whether the second half rises at less than half of the pace of the first.
        slowing: bool,
    },
    /// A rise at the beginning, level from there: optimizer state, workspaces, a cache that fills.
    WarmUp {
        /// Where it ends.
        settles_at: f64,
        /// The first figure.
        from: u64,
        /// The median from there on.
        level: u64,
    },
    /// Rises that end in a fall, again and again: what is collected is let go, as at the end of an epoch.
    SawTooth {
        /// Falls.
        resets: u64,
        /// Distance between falls; none where one fall is all there is and no step says where its tooth began.
        period: Option<f64>,
        /// Median fall.
        fall: u64,
        /// What one period adds for good; none where no two periods can be compared.
        drift: Option<i64>,
    },
    /// One rise (or fall) between level parts.
    Jump {
        /// Position of the first figure after it.
        at: f64,
        /// How far.
        by: i64,
        /// The figure before it.
        before: u64,
        /// The figure after it.
        after: u64,
        /// Distance from its predecessor: 1 if one step lies between.
        over: f64,
    },
    /// Level parts, each higher than the one before: growth that comes with events, not with steps.
    Staircase {
        /// Rises.
        rises: u64,
        /// Median rise.
        rise: u64,
    },
    /// The figures fall and keep falling.
    Decline {
        /// First less last.
        fall: u64,
    },
    /// The figures go up and down without a trend.
    Fluctuating {
        /// Lowest.
        low: u64,
        /// Highest.
        high: u64,
    },
}

/// A form with its pace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Analysis {
    /// What the positions of [`Shape`] are.
    pub axis: Axis,
    /// Figures that the series saw.
    pub points: u64,
    /// The form.
    #[serde(flatten)]
    pub shape: Shape,
    /// Bytes per step, the median of all pairs of points (of the rising parts of a saw-tooth).
    pub per_step: Option<f64>,
    /// Bytes per second, likewise.
    pub per_second: Option<f64>,
    /// Bytes per sample, likewise.
    pub per_sample: Option<f64>,
}

/// The axes and figures of one series.
struct Drawn<'a> {
    points: &'a [Point],
    xs: Vec<f64>,
    ys: Vec<f64>,
    axis: Axis,
    range: f64,
    /// Differences up to this may come from rounding alone.
    rounding: f64,
}

/// Names the form of a series. O(1) memory beside the points kept; the same series gives the same answer.
pub fn analyse(series: &Series) -> Analysis {
    let points = series.points();
    let steps = axis::steps(&points);
    let seconds = axis::seconds(&points);
    let samples = axis::samples(&points);
    let (xs, axis) = match (&steps, &seconds) {
        (Some(steps), _) => (steps.clone(), Axis::Step),
        (None, Some(seconds)) => (seconds.clone(), Axis::Second),
        (None, None) => (samples.clone(), Axis::Sample),
    };
    let ys: Vec<f64> = points.iter().map(|point| point.bytes as f64).collect();
    let (low, high) = (series.min.map_or(0, |point| point.bytes), series.max.map_or(0, |point| point.bytes));
    let range = (high - low) as f64;
    let drawn = Drawn { points: &points, xs, ys, axis, range, rounding: 2.0 * series.within as f64 };
    let teeth = Teeth::cut(&drawn.ys, range, drawn.rounding.max(LEVEL_SHARE * high as f64));
    let saw = teeth.saw(&points, &drawn.xs, &drawn.ys);
    let shape = drawn.shape(saw, (low, high));
    let pace = |xs: Option<&Vec<f64>>| {
        let xs = xs?;
        if saw.is_some() { teeth.saw(&points, xs, &drawn.ys).map(|saw| saw.slope) } else { drawn.slope(xs) }
    };
    Analysis {
        axis,
        points: series.count,
        shape,
        per_step: pace(steps.as_ref()),
        per_second: pace(seconds.as_ref()),
        per_sample: pace(Some(&samples)),
    }
}

impl Drawn<'_> {
    fn slope(&self, xs: &[f64]) -> Option<f64> {
        trend([(xs, &self.ys[..])]).map(|trend| trend.slope)
    }

    fn trend(&self, range: std::ops::Range<usize>) -> Option<Trend> {
        trend([(&self.xs[range.clone()], &self.ys[range])])
    }

    fn shape(&self, saw: Option<Saw>, (low, high): (u64, u64)) -> Shape {
        let len = self.ys.len();
        if len < 2 {
            return Shape::TooFew;
        }
        let level = middle(&self.ys);
        let Some(overall) = self.trend(0..len) else { return Shape::Fluctuating { low, high } };
        let is_level = self.range <= LEVEL_SHARE * level && overall.tau.abs() < 0.6;
        if self.range <= self.rounding || is_level {
            return Shape::Flat { level: bytes(level), spread: high - low };
        }
        if len == 2 {
            return self.of_two();
        }
        if let Some(saw) = saw {
            return Shape::SawTooth {
                resets: saw.resets,
                period: saw.period,
                fall: bytes(saw.fall),
                drift: saw.drift.map(|drift| if drift.abs() <= self.rounding { 0 } else { drift.round() as i64 }),
            };
        }
        self.jump().or_else(|| self.staircase()).or_else(|| self.settled()).unwrap_or_else(|| {
            let rise = self.ys[len - 1] - self.ys[0];
            if overall.tau >= 0.5 && rise > self.rounding {
                self.growth(rise)
            } else if overall.tau <= -0.5 && -rise > self.rounding {
                Shape::Decline { fall: bytes(-rise) }
            } else {
                Shape::Fluctuating { low, high }
            }
        })
    }

    /// Two figures. A pace that would make the figure negative at the first step cannot have lasted since then.
    fn of_two(&self) -> Shape {
        let rise = self.ys[1] - self.ys[0];
        if rise < 0.0 { Shape::Decline { fall: bytes(-rise) } } else { self.sudden(1).unwrap_or(self.growth(rise)) }
    }

    /// A jump at `index` that the steps before it prove to be one.
    fn sudden(&self, index: usize) -> Option<Shape> {
        let run = self.xs[index] - self.xs[index - 1];
        let steps_before = self.points[index - 1].step? as f64;
        let rise = self.ys[index] - self.ys[index - 1];
        let is_proven = self.axis == Axis::Step && run > 0.0 && rise / run * steps_before > self.ys[index - 1];
        is_proven.then(|| self.jump_at(index))
    }

    fn jump_at(&self, index: usize) -> Shape {
        let (before, after) = (self.ys[index - 1], self.ys[index]);
        Shape::Jump {
            at: self.xs[index],
            by: (after - before).round() as i64,
            before: bytes(before),
            after: bytes(after),
            over: self.xs[index] - self.xs[index - 1],
        }
    }

    /// One increment that is nearly all of the range, level before and after.
    fn jump(&self) -> Option<Shape> {
        let increments: Vec<f64> = self.ys.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let largest = (0..increments.len()).max_by(|a, b| increments[*a].abs().total_cmp(&increments[*b].abs()))?;
        let by = increments[largest].abs();
        let others = (0..increments.len()).filter(|index| *index != largest).map(|index| increments[index].abs());
        // The rest may wander, but it must not add up to something that rivals the jump.
        let (most, sum) = others.fold((0.0_f64, 0.0), |(most, sum), other| (most.max(other), sum + other));
        let drift = (self.ys[self.ys.len() - 1] - self.ys[0]).abs() - by;
        if by < 0.8 * self.range || most > 0.15 * by || drift.abs() > 0.2 * by || sum > 2.0 * by {
            return None;
        }
        let index = largest + 1;
        if increments[largest] > 0.0 && index == 1 {
            return self.sudden(index).or(Some(self.warm_up(index)));
        }
        Some(self.jump_at(index))
    }

    /// At least two rises among figures that are otherwise level.
    fn staircase(&self) -> Option<Shape> {
        let increments: Vec<f64> = self.ys.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let most = increments.iter().copied().fold(0.0, f64::max);
        let (mut rises, level): (Vec<f64>, Vec<f64>) = increments.iter().partition(|rise| rise.abs() > 0.2 * most);
        let is_stairs = rises.len() >= 2
            && rises.iter().all(|rise| *rise > 0.4 * most)
            && level.len() >= 2 * rises.len()
            && level.iter().all(|rise| rise.abs() <= (0.05 * most).max(self.rounding));
        if !is_stairs || most <= self.rounding.max(1.0) {
            return None;
        }
        // Rises that stop well before the end are a warm-up.
        let last_rise = increments.iter().rposition(|rise| *rise > 0.2 * most)?;
        if last_rise * 3 < increments.len() {
            return Some(self.warm_up(last_rise + 1));
        }
        Some(Shape::Staircase { rises: rises.len() as u64, rise: bytes(median(&mut rises)?) })
    }

    /// Level, or rising at first and level for at least the last third.
    fn settled(&self) -> Option<Shape> {
        let len = self.ys.len();
        let least = (len / 3).max(3);
        if len <= least {
            return None;
        }
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        let mut begin = len;
        while begin > 0 {
            let figure = self.ys[begin - 1];
            (low, high) = (low.min(figure), high.max(figure));
            if high - low > (LEVEL_SHARE * high).min(0.2 * self.range).max(self.rounding) {
                break;
            }
            begin -= 1;
        }
        if begin == 0 || len - begin < least {
            return None;
        }
        let (head, tail) = (self.trend(0..begin + 1)?, self.trend(begin..len)?);
        let rises_first = self.ys[begin] > self.ys[0] && head.slope > 0.0 && tail.slope < 0.25 * head.slope;
        rises_first.then(|| self.warm_up(begin))
    }

    fn warm_up(&self, begin: usize) -> Shape {
        let level = middle(&self.ys[begin..]);
        Shape::WarmUp { settles_at: self.xs[begin], from: bytes(self.ys[0]), level: bytes(level) }
    }

    fn growth(&self, rise: f64) -> Shape {
        let len = self.ys.len();
        let overall = self.slope(&self.xs).unwrap_or(0.0);
        let interval = |(xs, ys): (&[f64], &[f64])| {
            let run = xs[1] - xs[0];
            ((ys[1] - ys[0]) - overall * run).abs() <= (0.1 * overall.abs() * run).max(self.rounding)
        };
        let alike = self.xs.windows(2).zip(self.ys.windows(2)).filter(|pair| interval(*pair)).count();
        let halves = (len >= 6).then(|| (self.trend(0..len / 2), self.trend(len / 2..len)));
        let slowing = matches!(halves, Some((Some(early), Some(late))) if late.slope < 0.5 * early.slope);
        Shape::Growth { rise: rise.round() as i64, constant: (len > 2).then_some(alike * 10 >= (len - 1) * 9), slowing }
    }
}

fn middle(values: &[f64]) -> f64 {
    median(&mut values.to_vec()).unwrap_or(0.0)
}

fn bytes(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
