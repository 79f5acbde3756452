use super::*;
use crate::series::until;

const MIB: u64 = 1 << 20;

fn series(figures: impl IntoIterator<Item = (Option<u64>, u64)>) -> Series {
    let mut series = Series::new();
    for (at, (step, bytes)) in (0..).zip(figures) {
        series.push(Point { at, step, epoch: None, seconds: None, bytes }, 0);
    }
    series
}

fn each_step(figures: impl IntoIterator<Item = u64>) -> Series {
    series((0..).zip(figures).map(|(step, bytes)| (Some(step), bytes)))
}

fn shape(series: &Series) -> Shape {
    analyse(series).shape
}

#[test]
fn a_leak_of_one_size_is_constant_growth() {
    let found = analyse(&each_step((0..50).map(|step| 1000 * MIB + step * 3 * MIB)));
    assert_eq!(found.shape, Shape::Growth { rise: (147 * MIB) as i64, constant: Some(true), slowing: false });
    assert_eq!(found.per_step, Some((3 * MIB) as f64));
}

#[test]
fn a_small_steady_leak_is_not_taken_for_level() {
    assert!(matches!(shape(&each_step((0..90).map(|step| 60_000 * MIB + step * MIB))), Shape::Growth { .. }));
}

#[test]
fn noise_is_level() {
    let noise = [5, 1, 4, 2, 6, 3, 1, 5, 2, 4].map(|mib| 10_000 * MIB + mib * MIB);
    assert!(matches!(shape(&each_step(noise)), Shape::Flat { .. }));
}

#[test]
fn warm_up_is_not_growth() {
    let figures = [1000, 3000, 3100, 3110, 3110, 3111, 3110, 3111, 3110, 3110];
    let found = shape(&each_step(figures.map(|mib| mib * MIB)));
    assert!(matches!(found, Shape::WarmUp { level, .. } if level == 3110 * MIB), "{found:?}");
    let found = shape(&each_step([1000, 2000, 2000, 2000].map(|mib| mib * MIB)));
    assert!(matches!(found, Shape::WarmUp { .. }), "{found:?}");
}

#[test]
fn growth_that_stops_early_is_a_warm_up_of_many_steps() {
    let figures = (0..60_u64).map(|step| MIB * (500 + 20 * step.min(20)));
    assert!(matches!(shape(&each_step(figures)), Shape::WarmUp { .. }));
}

#[test]
fn a_jump_stands_between_level_parts() {
    let figures = (0..40_u64).map(|step| MIB * if step < 30 { 6000 + step % 3 } else { 9000 + step % 2 });
    let found = shape(&each_step(figures));
    assert!(matches!(found, Shape::Jump { at: 30.0, over: 1.0, .. }), "{found:?}");
}

#[test]
fn two_figures_far_from_the_first_step_are_a_jump() {
    let found = shape(&series([(Some(2298), 61 << 30), (Some(2299), 79 << 30)]));
    assert!(matches!(found, Shape::Jump { by, .. } if by == 18 << 30), "{found:?}");
    let found = shape(&series([(Some(0), 300 * MIB), (Some(10), 340 * MIB)]));
    assert!(matches!(found, Shape::Growth { constant: None, .. }), "{found:?}");
}

#[test]
fn a_saw_has_a_period_and_a_drift() {
    for drift in [0, 7] {
        let figures = (0..50_u64).map(|step| (Some(step % 10), MIB * (1000 + step % 10 * 50 + step / 10 * drift)));
        let found = analyse(&series(figures));
        let Shape::SawTooth { resets: 4, period: Some(period), drift: Some(found_drift), .. } = found.shape else {
            panic!("{found:?}")
        };
        assert!((period - 10.0).abs() < 1e-9);
        assert_eq!(found_drift, (drift * MIB) as i64);
        assert_eq!(found.per_step, Some((50 * MIB) as f64));
        assert_eq!(until(&series([(Some(1), 1)]), &found, 1 << 40), None);
    }
}

#[test]
fn stairs_are_told_from_slopes() {
    let figures = (0..40_u64).map(|step| MIB * (4000 + step / 10 * 700));
    assert_eq!(shape(&each_step(figures)), Shape::Staircase { rises: 3, rise: 700 * MIB });
}

#[test]
fn two_levels_that_take_turns_are_no_saw() {
    let figures = (0..40_u64).map(|step| MIB * if step % 2 == 0 { 3000 } else { 9000 });
    assert!(matches!(shape(&each_step(figures)), Shape::Fluctuating { .. }));
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(shape(&Series::new()), Shape::TooFew);
    assert_eq!(shape(&each_step([5])), Shape::TooFew);
}

#[test]
fn a_limit_is_met_at_the_pace_seen() {
    let growing = each_step((0..11).map(|step| 1000 + 100 * step));
    let found = until(&growing, &analyse(&growing), 3000).expect("it grows");
    assert_eq!((found.room_bytes, found.steps), (1000, Some(10.0)));
    assert_eq!(until(&growing, &analyse(&growing), 1500), None);
}
