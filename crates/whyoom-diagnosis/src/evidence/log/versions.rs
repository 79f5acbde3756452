//! One figure for each of two releases of PyTorch.

use whyoom_text::steps::StepLog;

use super::super::answer::{Answer, finding};
use super::super::{next, offers};
use super::amount;
use crate::causes::in_bytes;
use crate::explanation::{Cause, Confidence};

/// `1.13.1+cu117` as (1, 13).
fn release(label: &str) -> Option<(u16, u16)> {
    let from = label.find(|c: char| c.is_ascii_digit())?;
    let word = label[from..].split_whitespace().next()?;
    let mut parts = word.split(['.', '+', '-']);
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    ((1..=2).contains(&major) && minor < 40).then_some((major, minor))
}

pub(super) fn judge(log: &StepLog) -> Option<Answer> {
    let mut figures = Vec::new();
    for series in &log.series {
        let release = series.label.as_deref().and_then(release)?;
        figures.push((release, series, series.figures.last?.bytes));
    }
    figures.sort_by_key(|f| f.0);
    let (old, new) = match figures.as_slice() {
        [old, .., new] if old.0 < new.0 => (old, new),
        _ => return None,
    };
    let rise = new.2.checked_sub(old.2).filter(|rise| *rise > old.2 / 50)?;
    let parameters = rise / 4;
    let says = format!(
        "{} more with torch {}.{} than with {}.{}",
        amount(new.1, rise as f64),
        new.0.0,
        new.0.1,
        old.0.0,
        old.0.1
    );
    let crosses = old.0 < (2, 0) && new.0 >= (2, 0);
    let reason = if crosses {
        format!(
            " From 2.0 on optimizers work on all parameters at once (foreach) and keep a temporary copy of them for that: {} is a \
             32-bit copy of about {} million parameters.",
            amount(new.1, rise as f64),
            parameters / 1_000_000
        )
    } else {
        " One figure for each release does not say what needs it.".to_owned()
    };
    let evidence = vec![in_bytes(format!("{says}: an amount, the same at each step"), rise, &[])];
    let cause = if crosses { Cause::Capacity } else { Cause::Undetermined };
    let finding = finding(cause, Confidence::Weak, format!("{says}.{reason}"), rise, evidence);
    Some(
        Answer::of(finding)
            .not(Cause::Leak, "a difference between releases is not growth over steps")
            .offer(if crosses { offers::smaller_optimizer() } else { Vec::new() })
            .ask(next::record()),
    )
}
