//! Slopes that single outliers do not move.

/// Points that take part in the median of pairs: 2⁹ points are 2¹⁷ pairs.
const MAX_PAIRED: usize = 512;

/// Nearer than a microsecond two points are at the same place.
const LEAST_RUN: f64 = 1e-6;

/// The median slope of all pairs (Theil 1950, Sen 1968) and how uniformly the pairs point one way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trend {
    /// Median slope, in units of y per unit of x.
    pub slope: f64,
    /// Rising pairs less falling ones, over all pairs (Kendall's tau): 1 where each point is above those before.
    pub tau: f64,
}

/// The trend over pieces that are each taken by itself; `None` without two points that differ in x.
pub(super) fn trend<'a>(pieces: impl IntoIterator<Item = (&'a [f64], &'a [f64])>) -> Option<Trend> {
    let mut slopes = Vec::new();
    let mut sign = 0_i64;
    for (xs, ys) in pieces {
        let kept = even(xs.len().min(ys.len()), MAX_PAIRED);
        for (position, &first) in kept.iter().enumerate() {
            for &second in &kept[position + 1..] {
                let run = xs[second] - xs[first];
                if run >= LEAST_RUN {
                    let rise = ys[second] - ys[first];
                    sign += i64::from(rise > 0.0) - i64::from(rise < 0.0);
                    slopes.push(rise / run);
                }
            }
        }
        if slopes.len() > MAX_PAIRED * MAX_PAIRED {
            break;
        }
    }
    let pairs = slopes.len();
    Some(Trend { slope: median(&mut slopes)?, tau: sign as f64 / pairs as f64 })
}

/// Indices of at most `most` of `len` points, evenly spread, the first and the last among them.
fn even(len: usize, most: usize) -> Vec<usize> {
    if len <= most { (0..len).collect() } else { (0..most).map(|index| index * (len - 1) / (most - 1)).collect() }
}

/// The median; the mean of the middle two where there is no middle one. Reorders the values.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_move_the_slope() {
        let xs: Vec<f64> = (0..21).map(f64::from).collect();
        let mut ys: Vec<f64> = xs.iter().map(|x| 3.0 * x + 7.0).collect();
        ys[11] = 1e9;
        let found = trend([(&xs[..], &ys[..])]).expect("points differ in x");
        assert!((found.slope - 3.0).abs() < 1e-9);
    }

    #[test]
    fn no_run_is_no_trend() {
        assert_eq!(trend([(&[1.0, 1.0][..], &[0.0, 5.0][..])]), None);
        assert_eq!(trend([(&[][..], &[][..])]), None);
    }

    #[test]
    fn a_selection_keeps_both_ends() {
        let kept = even(10_000, 512);
        assert_eq!((kept.len(), kept[0], kept[511]), (512, 0, 9999));
    }
}
