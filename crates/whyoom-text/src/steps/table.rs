//! The series of a log while it is read.

use super::amount::{Number, Unit};
use super::scan::Figure;
use super::{Measure, StepSeries};
use crate::series::{Point, Series};

/// Series that a log keeps at most.
const MAX_SERIES: usize = 128;

/// What tells one series from another.
#[derive(Debug, Clone, PartialEq)]
struct Identity {
    measure: Measure,
    variant: Option<String>,
    label: String,
    device: Option<u32>,
    rank: Option<u32>,
}

/// Figures without a unit are kept as if they were MiB until the end, when their sizes decide.
#[derive(Debug)]
struct Open {
    identity: Identity,
    unit: Option<Unit>,
    /// Whether all numbers without unit are whole.
    is_whole: bool,
    figures: Series,
}

/// All series of a log.
#[derive(Debug, Default)]
pub(super) struct Table {
    series: Vec<Open>,
    pub(super) left_out: u64,
}

/// What figures are read beside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub variant: Option<&'a str>,
    pub label: &'a str,
    pub rank: Option<u32>,
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Enters a figure; `point.bytes` is not looked at. The series that it went to, if any.
    pub(super) fn push(&mut self, figure: &Figure, point: Point, context: Context<'_>) -> Option<usize> {
        let label = if context.label.ends_with(&figure.qualifier) {
            context.label.to_owned()
        } else {
            format!("{} {}", context.label, figure.qualifier).trim().to_owned()
        };
        let identity = Identity {
            measure: figure.measure,
            variant: context.variant.map(str::to_owned),
            label,
            device: figure.device,
            rank: context.rank,
        };
        raw(&figure.number, figure.unit)?;
        let is_open = |one: &Open| one.identity == identity && one.unit.is_some() == figure.unit.is_some();
        let index = match self.series.iter().position(is_open) {
            Some(index) => index,
            None if self.series.len() < MAX_SERIES => {
                self.series.push(Open { identity, unit: figure.unit, is_whole: true, figures: Series::new() });
                self.series.len() - 1
            }
            None => {
                self.left_out += 1;
                return None;
            }
        };
        self.push_to(index, figure, point);
        Some(index)
    }

    /// Enters a figure of a series.
    pub(super) fn push_to(&mut self, index: usize, figure: &Figure, point: Point) {
        let (Some((bytes, within)), Some(open)) = (raw(&figure.number, figure.unit), self.series.get_mut(index)) else {
            return;
        };
        open.is_whole &= figure.number.decimals == 0;
        // `512 MiB`, then `1.2 GB`: what is open in one figure is open in the series.
        if let (Some(unit), Some(now)) = (open.unit, figure.unit)
            && unit.or_bytes.is_none()
            && now.or_bytes.is_some()
        {
            open.unit = Some(now);
        }
        open.figures.push(Point { bytes, ..point }, within);
    }

    /// The series, and what was assumed of them.
    pub(super) fn finish(mut self) -> (Vec<StepSeries>, Vec<String>, u64) {
        self.merge_labels();
        let mut assumptions: Vec<String> = Vec::new();
        let mut all = Vec::new();
        for open in self.series {
            let (unit, figures) = match open.unit {
                Some(unit) => (unit, open.figures),
                None => settle(open.figures, open.is_whole),
            };
            let assumption = match unit {
                Unit { assumed: true, name, .. } => Some(format!("numbers without a unit are read as {name}")),
                Unit { or_bytes: Some(_), name, .. } => {
                    Some(format!("{name} is read as a decimal unit; the program may mean a binary one"))
                }
                _ => None,
            };
            assumptions.extend(assumption.filter(|text| !assumptions.contains(text)));
            let Identity { measure, variant, label, device, rank } = open.identity;
            let label = Some(label).filter(|label| !label.is_empty());
            all.push(StepSeries { measure, variant, label, device, rank, unit, figures });
        }
        (all, assumptions, self.left_out)
    }

    /// Labels that are new in nearly every line tell nothing apart: their series are one.
    fn merge_labels(&mut self) {
        let figures: u64 = self.series.iter().map(|open| open.figures.count).sum();
        let mut labels: Vec<&str> = self.series.iter().map(|open| open.identity.label.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        if labels.len() <= 8 || figures >= 4 * self.series.len() as u64 {
            return;
        }
        let mut merged: Vec<(Open, Vec<(Point, u64)>)> = Vec::new();
        for mut open in std::mem::take(&mut self.series) {
            open.identity.label.clear();
            let points = open.figures.points().into_iter().map(|point| (point, open.figures.within));
            let is_same =
                |one: &&mut (Open, _)| one.0.identity == open.identity && one.0.unit.is_some() == open.unit.is_some();
            if let Some((one, all)) = merged.iter_mut().find(is_same) {
                one.is_whole &= open.is_whole;
                all.extend(points);
            } else {
                let points = points.collect();
                merged.push((open, points));
            }
        }
        for (mut open, mut points) in merged {
            points.sort_by_key(|(point, _)| point.at);
            open.figures = Series::new();
            for (point, within) in points {
                open.figures.push(point, within);
            }
            self.series.push(open);
        }
    }
}

fn raw(number: &Number, unit: Option<Unit>) -> Option<(u64, u64)> {
    match unit {
        Some(unit) => number.bytes(unit),
        None => number.bytes(Unit::MIB),
    }
}

/// Decides the unit of numbers without one: PyTorch's counters are bytes; what programs divide fits a card.
fn settle(figures: Series, is_whole: bool) -> (Unit, Series) {
    const MIB: f64 = 1_048_576.0;
    let highest = figures.max.map_or(0.0, |max| max.bytes as f64 / MIB);
    if (is_whole && highest >= 65_536.0 * 16.0) || highest >= 4.0 * MIB {
        return (Unit::BYTES, figures.scaled(1, 1 << 20));
    }
    // No card has 512 GiB; a log of a run that never holds 512 MiB says so in whole MiB or with a unit.
    if highest <= 512.0 && !(is_whole && highest > 192.0) {
        return (Unit { assumed: true, ..Unit::GIB }, figures.scaled(1 << 10, 1));
    }
    (Unit { assumed: true, ..Unit::MIB }, figures)
}
