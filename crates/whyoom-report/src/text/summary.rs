//! `whyoom summary` as text: `torch.cuda.memory_summary()` to the character, and below it what it does not say.

use std::collections::BTreeMap;
use std::io::{self, Write};

use whyoom_diagnosis::summary::{DeviceSummary, Summary, SummaryLayout};

use super::{
    TextOptions,
    doc::{Doc, Tone},
    words::warnings,
};

/// Columns between the bars.
const INNER: usize = 75;

/// Metrics of the table in its order (`metrics_to_display`, `torch/cuda/memory.py`, 2.0).
const METRICS: [(&str, &str, Unit); 9] = [
    ("allocated_bytes", "Allocated memory", Unit::Bytes),
    ("active_bytes", "Active memory", Unit::Bytes),
    ("requested_bytes", "Requested memory", Unit::Bytes),
    ("reserved_bytes", "GPU reserved memory", Unit::Bytes),
    ("inactive_split_bytes", "Non-releasable memory", Unit::Bytes),
    ("allocation", "Allocations", Unit::Count),
    ("active", "Active allocs", Unit::Count),
    ("segment", "GPU reserved segments", Unit::Count),
    ("inactive_split", "Non-releasable allocs", Unit::Count),
];

/// Metrics without pools.
const OVERSIZE: [(&str, &str); 2] =
    [("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize GPU segments")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Count,
}

/// Writes `summary` as text: a table for each device, with what its figures mean below if `explains`.
///
/// # Errors
///
/// Those of `out`, a closed pipe among them.
pub fn write_summary(summary: &Summary, explains: bool, options: TextOptions, out: &mut dyn Write) -> io::Result<()> {
    for device in &summary.devices {
        out.write_all(table(device).as_bytes())?;
        let mut doc = Doc::new(options.ascii);
        if explains {
            for gap in &device.gaps {
                let name = |key: &str| key.trim_end_matches("_bytes").to_owned();
                let label = format!("{} → {}", name(gap.from), name(gap.to));
                doc.entry(0, &[(Tone::Heading, label)], 24, &[(Tone::Plain, gap.statement.clone())]);
            }
            doc.blank();
        }
        if let Some(note) = &device.note {
            doc.entry(0, &[(Tone::Caution, "Note:".into())], 9, &[(Tone::Plain, note.clone())]);
        }
        if doc.height() > 0 {
            out.write_all(b"\n")?;
            doc.write(options.colour, out)?;
        }
    }
    let mut doc = Doc::new(options.ascii);
    warnings(&mut doc, &summary.warnings, options);
    if doc.height() > 0 && !summary.devices.is_empty() {
        out.write_all(b"\n")?;
    }
    doc.write(options.colour, out)
}

/// `memory_summary()` (`torch/cuda/memory.py`, 1.4), with the last newline.
fn table(device: &DeviceSummary) -> String {
    let stat = |key: &str| device.stats.get(key).copied().unwrap_or(0);
    let rule = |c: &str| c.repeat(INNER);
    let mut lines = vec![
        rule("="),
        format!(" {:16} PyTorch CUDA memory summary, device ID {:<17} ", "", device.device),
        rule("-"),
        format!(
            "  {:9} CUDA OOMs: {:<12} | {:6} cudaMalloc retries: {:<8}  ",
            "",
            stat("num_ooms"),
            "",
            stat("num_alloc_retries")
        ),
        rule("="),
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ".to_owned(),
    ];
    for (key, name, unit) in METRICS {
        if !device.stats.contains_key(&format!("{key}.all.current")) {
            continue;
        }
        lines.push(rule("-"));
        let total = figures(&device.stats, &format!("{key}.all"));
        let pools = [("all", name), ("large_pool", "      from large pool"), ("small_pool", "      from small pool")];
        for (kind, label) in pools {
            let own = figures(&device.stats, &format!("{key}.{kind}"));
            lines.push(row(label, own, total, unit, device.layout));
        }
    }
    for (key, name) in OVERSIZE {
        lines.push(rule("-"));
        let own = figures(&device.stats, key);
        lines.push(row(name, own, own, Unit::Count, device.layout));
    }
    lines.push(rule("="));
    lines.iter().fold(String::new(), |text, line| text + "|" + line + "|\n")
}

fn figures(stats: &BTreeMap<String, i64>, key: &str) -> [i64; 4] {
    ["current", "peak", "allocated", "freed"].map(|figure| stats.get(&format!("{key}.{figure}")).copied().unwrap_or(0))
}

/// A row; the unit of each column is that of the row of all pools.
fn row(label: &str, own: [i64; 4], total: [i64; 4], unit: Unit, layout: SummaryLayout) -> String {
    let cells = own.iter().zip(total).map(|(value, total)| match unit {
        Unit::Bytes => size(*value, total, layout),
        Unit::Count => count(*value, total),
    });
    let cells = cells.collect::<Vec<_>>().join(" | ");
    format!(" {label:<21} | {cells} ")
}

/// `_format_size`: the unit from `guide`.
fn size(mut value: i64, guide: i64, layout: SummaryLayout) -> String {
    let units = match layout {
        SummaryLayout::UpTo113 => ["B ", "KB", "MB", "GB", "TB", "PB"],
        SummaryLayout::From20 => ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"],
    };
    let mut unit = units[0];
    // Halves survive the division here, unlike those of the value.
    let mut guide = guide as f64;
    for next in &units[1..] {
        if guide < f64::from(768 << 10) {
            break;
        }
        unit = next;
        value /= 1024;
        guide /= 1024.0;
    }
    match layout {
        SummaryLayout::UpTo113 => format!("{value:7} {unit}"),
        SummaryLayout::From20 => format!("{value:6} {unit}"),
    }
}

/// `_format_count`.
fn count(mut value: i64, guide: i64) -> String {
    let mut unit = " ";
    let mut guide = guide as f64;
    for next in ["K", "M"] {
        if guide < 750_000.0 {
            break;
        }
        unit = next;
        value /= 1000;
        guide /= 1000.0;
    }
    format!("{value:7} {unit} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_three_quarters() {
        let new = |value| size(value, value, SummaryLayout::From20);
        assert_eq!(new((768 << 10) - 1), "786431 B  ");
        assert_eq!(new(768 << 10), "   768 KiB");
        assert_eq!(size(1 << 30, 1 << 30, SummaryLayout::UpTo113), "   1024 MB");
        assert_eq!(size(5, 1 << 40, SummaryLayout::From20), "     0 GiB");
        assert_eq!((count(749_999, 749_999), count(750_000, 750_000)), (" 749999   ".into(), "    750 K ".into()));
    }
}
