//! What launchers, containers and loggers put before a line.

use std::sync::LazyLock;

use regex::Regex;

/// Prefixes that begin with a bracket: `[rank3]: `, `[default3]:`, `[1,3]<stderr>:`, `(RayWorker pid=123, ip=…)`.
static BRACKETED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\[(?:(?:rank|default|Rank|RANK)[ :]?(?<rank>\d{1,6})\]:?(?:\[[^\]]*\])?|\d{1,4},(?<mpi>\d{1,6})\](?:<std(?:err|out)>)?:?|(?<plain>\d{1,6})\]:|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[^\]]*\]|\d\d:\d\d:\d\d[^\]]*\]|(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)[^\]]*\]) ?",
    )
});
static PARENTHESISED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\([\w.:<>\[\]-]+(?:[ ,]+(?:rank=(?<rank>\d{1,6})|\w+=[^ ,)]+)){1,6}\) ?"));
/// Prefixes that begin with a digit: timestamps of loggers, docker and Kubernetes, and the task of `srun -l`.
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP])?(?: - [\w.]+ - [A-Z]{3,8} -|:)? |\d\d:\d\d:\d\d(?:[.,]\d{1,9})? |(?<rank>\d{1,6}): )",
    )
});
/// Prefixes that begin with a letter: `worker 2 | `, `trainer-1  | `, `rank3: `, glog's `E0102 10:11:12.1 77 a.cc:3] `, syslog.
static LETTERED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:(?i:worker|rank|gpu|proc|process|node|replica)[ _=-]?(?<rank>\d{1,6}) {0,4}[|:] ?|[A-Za-z][\w.-]*-\d{1,6} +\| ?|[IWEF]\d{4} \d\d:\d\d:\d\d[.\d]* +\d+ [\w./-]+:\d+\] ?|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: |(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[?[\w./-]+:\d+\] ?)",
    )
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))
}

/// Whether an unindented `word` can begin one of the lettered prefixes; spares the regex on most lines.
fn may_be_lettered(text: &str) -> bool {
    text.bytes().take(100).any(|b| matches!(b, b'|' | b':' | b']'))
}

/// Up to which byte the number of digits decides whether a text begins with a prefix.
pub(crate) fn decides(text: &str) -> usize {
    const FAR: usize = 48;
    match text.as_bytes().first() {
        Some(b'[' | b'(' | b'0'..=b'9') => FAR,
        Some(b'A'..=b'Z' | b'a'..=b'z') if is_lettered(text) => FAR,
        _ => 0,
    }
}

/// Whether a text that begins with a letter begins as the prefixes do that do.
fn is_lettered(text: &str) -> bool {
    const LAUNCHED: [&str; 7] = ["worker", "rank", "gpu", "proc", "process", "node", "replica"];
    const LEVELS: [&str; 5] = ["DEBUG ", "INFO ", "WARNING ", "ERROR ", "CRITICAL "];
    const MONTHS: [&str; 12] =
        ["Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec "];
    let bytes = text.as_bytes();
    let starts = |word: &str| bytes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    let has_number = || {
        let first = bytes.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        bytes[..first].windows(2).any(|pair| pair[0] == b'-' && pair[1].is_ascii_digit())
    };
    match bytes.first() {
        Some(b'I' | b'W' | b'E' | b'F') if bytes.get(1).is_some_and(u8::is_ascii_digit) => true,
        _ => {
            LAUNCHED.iter().any(|word| starts(word))
                || LEVELS.iter().any(|word| text.starts_with(word))
                || MONTHS.iter().any(|word| text.starts_with(word))
                || has_number()
        }
    }
}

/// The text behind its prefixes, and the rank that the outermost of them names.
pub(crate) fn strip(line: &str) -> (&str, Option<u32>) {
    let mut text = line;
    let mut rank = None;
    for _ in 0..4 {
        let found = match text.as_bytes().first() {
            Some(b'[') => BRACKETED.captures(text),
            Some(b'(') => PARENTHESISED.captures(text),
            Some(b'0'..=b'9') => NUMBERED.captures(text),
            Some(b'A'..=b'Z' | b'a'..=b'z') if may_be_lettered(text) && is_lettered(text) => LETTERED.captures(text),
            _ => None,
        };
        let Some(found) = found else { break };
        let named = ["rank", "mpi", "plain"].iter().find_map(|name| found.name(name));
        rank = rank.or_else(|| named.and_then(|n| n.as_str().parse().ok()));
        text = &text[found.get(0).map_or(0, |all| all.end())..];
    }
    (text, rank)
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn prefixes_go_and_ranks_stay() {
        for (line, rank) in [
            ("[rank3]: CUDA", Some(3)),
            ("[rank3]:[W102 10:11:12.2 x.cpp:1] CUDA", Some(3)),
            ("[default3]:CUDA", Some(3)),
            ("[1,3]<stderr>:CUDA", Some(3)),
            ("worker 2 | CUDA", Some(2)),
            ("rank3: CUDA", Some(3)),
            ("3: CUDA", Some(3)),
            ("(RayWorker pid=123, ip=10.0.0.1) CUDA", None),
            ("(EngineCore_0 pid=77) ERROR 05-01 10:11:12 [core.py:12] CUDA", None),
            ("trainer-1  | CUDA", None),
            ("2025-03-04T09:10:00.123456789Z stderr F CUDA", None),
            ("2025-03-04 09:10:00,120 - train - ERROR - CUDA", None),
            ("[2025-03-04 09:10:00,120] [rank7]: CUDA", Some(7)),
            ("Mar  4 09:10:00 gpu1 train[77]: [rank1]: CUDA", Some(1)),
            ("W0102 10:11:12.123456 12345 torch/x/api.py:1] CUDA", None),
            ("CUDA", None),
        ] {
            assert_eq!(strip(line), ("CUDA", rank), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_prefix() {
        for line in [
            "2025/03/04 09:10:00.120, NVIDIA A10G, 0, 2210 MiB",
            "step     0 | loss 2.3015 | memory_allocated 1264582656",
            "|    0   N/A  N/A     41001      C   python      18432MiB |",
            "[6] NVIDIA A100 80GB PCIe | 52'C, 100 %",
            "[rank 1 of 8 is slow",
        ] {
            assert_eq!(strip(line), (line, None));
        }
    }
}
