//! What a series is drawn over.

use serde::Serialize;

use super::Point;

/// What lies on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Steps, counted on through the epochs.
    Step,
    /// Seconds.
    Second,
    /// Samples, one after the other: nothing else is printed.
    Sample,
}

/// Steps since the first point, counted on where an epoch begins again at a lower step; `None` if the points have none.
///
/// A point without a step between points that have one (`epoch 0 end`) is taken to lie as far from its predecessor as
/// that one lies from its own.
pub(super) fn steps(points: &[Point]) -> Option<Vec<f64>> {
    let with_step = points.iter().filter(|point| point.step.is_some()).count();
    if with_step < 2 || with_step * 2 <= points.len() {
        return None;
    }
    let mut steps: Vec<f64> = Vec::with_capacity(points.len());
    let mut offset = 0.0;
    let mut printed: Option<f64> = None;
    let mut stride = 1.0;
    let mut previous_has_step = true;
    for point in points {
        let here = match (point.step, printed, steps.last()) {
            (Some(step), Some(before), Some(&last)) => {
                let step = step as f64;
                if step > before {
                    if previous_has_step {
                        stride = step - before;
                    }
                } else if step < before || point.epoch.is_some() {
                    offset = last - step + if previous_has_step { stride } else { 0.0 };
                }
                printed = Some(step);
                (offset + step).max(last)
            }
            (Some(step), _, last) => {
                printed = Some(step as f64);
                offset = last.map_or(0.0, |last| last + 1.0 - step as f64);
                offset + step as f64
            }
            (None, _, last) => last.map_or(0.0, |last| last + stride),
        };
        previous_has_step = point.step.is_some();
        steps.push(here);
    }
    (steps.last() > steps.first()).then_some(steps)
}

/// Seconds of the points; a clock without a date that passes midnight goes on. `None` if one has no time.
pub(super) fn seconds(points: &[Point]) -> Option<Vec<f64>> {
    const DAY: f64 = 86_400.0;
    let mut seconds = points.iter().map(|point| point.seconds).collect::<Option<Vec<f64>>>()?;
    let mut offset = 0.0;
    for index in 1..seconds.len() {
        seconds[index] += offset;
        if seconds[index] < seconds[index - 1] && seconds[index - 1] - offset <= DAY {
            offset += DAY;
            seconds[index] += DAY;
        }
    }
    (seconds.last() > seconds.first()).then_some(seconds)
}

/// Ordinals of the points.
pub(super) fn samples(points: &[Point]) -> Vec<f64> {
    points.iter().map(|point| point.at as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(steps: &[Option<u64>]) -> Vec<Point> {
        let point = |(at, step): (usize, &Option<u64>)| Point {
            at: at as u64,
            step: *step,
            epoch: None,
            seconds: None,
            bytes: 0,
        };
        steps.iter().enumerate().map(point).collect()
    }

    #[test]
    fn epochs_are_counted_on() {
        let printed = [Some(50), Some(100), Some(150), None, Some(0), Some(50)];
        assert_eq!(steps(&points(&printed)), Some(vec![50.0, 100.0, 150.0, 200.0, 200.0, 250.0]));
        let printed = [Some(0), Some(10), Some(20), Some(0), Some(10)];
        assert_eq!(steps(&points(&printed)), Some(vec![0.0, 10.0, 20.0, 30.0, 40.0]));
    }

    #[test]
    fn a_series_without_steps_has_no_steps() {
        assert_eq!(steps(&points(&[None, None, Some(1)])), None);
        assert_eq!(steps(&points(&[Some(3), Some(3)])), None);
    }
}
