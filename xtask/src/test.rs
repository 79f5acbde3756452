//! `cargo xtask test`: everything that must hold, with one plain line of figures at the end.

use anyhow::Result;

use crate::{bench, layers, shell};

/// How nextest's closing line begins.
const SUMMARY: &str = "Summary ";

/// What was checked so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    fn check(&mut self, name: &str, holds: Result<bool>) {
        match holds {
            Ok(true) => self.passed += 1,
            Ok(false) => {
                self.failed += 1;
                println!("FAILED: {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED: {name}: {error:#}");
            }
        }
    }

    fn skip(&mut self, what: &str) {
        self.skipped += 1;
        println!("skipped: {what}");
    }

    /// Adds the figures of a test runner; a runner that failed without naming a test counts as one failure.
    fn tests(&mut self, name: &str, observed: Result<(bool, Vec<String>)>) {
        let (success, lines) = match observed {
            Ok(observed) => observed,
            Err(error) => return self.check(name, Err(error)),
        };
        // What nextest shows of a failing test ends in a closing line of that test's own.
        let is_nextest = lines.iter().any(|line| line.trim_start().starts_with(SUMMARY));
        let is_own = |line: &&String| !is_nextest || line.trim_start().starts_with(SUMMARY);
        let found =
            lines.iter().filter(is_own).filter_map(|line| figures(line)).fold(Self::default(), |sum, more| Self {
                passed: sum.passed + more.passed,
                failed: sum.failed + more.failed,
                skipped: sum.skipped + more.skipped,
            });
        self.passed += found.passed;
        self.failed += found.failed;
        self.skipped += found.skipped;
        if !success && found.failed == 0 {
            self.check(name, Ok(false));
        }
    }
}

/// Runs everything; whether nothing failed.
pub(crate) fn run() -> bool {
    let mut tally = Tally::default();
    let corpus = std::env::var_os("WHYOOM_CORPUS").is_some();
    println!(
        "whyoom: format, lints, unit, property and conformance tests (generated files among them), documentation, layers."
    );
    if !corpus {
        println!("WHYOOM_CORPUS is not set: tests on recordings (tests/corpus.rs) are skipped.");
    }
    tally.check("format", shell::succeeds(&mut shell::cargo(&["fmt", "--all", "--check"])));
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    tally.check("lints", shell::succeeds(&mut shell::cargo(&lints)));
    tests(&mut tally, corpus);
    let examples = ["test", "--quiet", "--workspace", "--doc"];
    tally.tests("examples in documentation", shell::observed(&mut shell::cargo(&examples)));
    let mut pages = shell::cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    tally.check("documentation", shell::succeeds(pages.env("RUSTDOCFLAGS", "--deny warnings")));
    tally.check("layers", layers::run());
    match bench::gate() {
        Ok(bench::Gate::Skipped(why)) => tally.skip(&format!("instruction counts: {why}")),
        Ok(bench::Gate::Compared(holds)) => tally.check("instruction counts", Ok(holds)),
        Err(error) => tally.check("instruction counts", Err(error)),
    }
    println!("\n{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    tally.failed == 0
}

fn tests(tally: &mut Tally, corpus: bool) {
    if shell::has(&mut shell::cargo(&["nextest", "--version"])) {
        let mut arguments = vec![
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--color",
            "never",
            "--status-level",
            "slow",
            "--show-progress",
            "none",
        ];
        if !corpus {
            arguments.extend(["--filterset", "not binary(corpus)"]);
            tally
                .skip("tests on recordings outside of this checkout (tests/corpus.rs), since WHYOOM_CORPUS is not set");
        }
        tally.tests("tests", shell::observed(&mut shell::cargo(&arguments)));
        return;
    }
    let arguments =
        ["test", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--", "--show-output"];
    let observed = shell::observed(&mut shell::cargo(&arguments));
    // Here a test without its recordings passes, and says so.
    let without =
        observed.as_ref().map_or(0, |(_, lines)| lines.iter().filter(|line| line.starts_with("skipped: ")).count());
    tally.tests("tests", observed);
    tally.passed = tally.passed.saturating_sub(without as u64);
    tally.skipped += without as u64;
}

/// The figures of a runner's closing line: `Summary [...] 9 tests run: 8 passed, 1 failed, 2 skipped` (nextest) or
/// `test result: ok. 8 passed; 0 failed; 1 ignored; ...` (cargo test).
fn figures(line: &str) -> Option<Tally> {
    let line = line.trim_start();
    let figures = match line.strip_prefix("test result: ") {
        Some(rest) => rest,
        None => line.strip_prefix(SUMMARY)?.split_once("run: ")?.1,
    };
    let words: Vec<&str> = figures.split([' ', ',', ';', '(', ')']).filter(|word| !word.is_empty()).collect();
    let count = |names: &[&str]| -> u64 {
        words.windows(2).filter(|pair| names.contains(&pair[1])).filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
    };
    // `exec failed` and `timed out` come as `1 exec failed`, `1 timed out`.
    Some(Tally {
        passed: count(&["passed"]),
        failed: count(&["failed", "exec", "timed"]),
        skipped: count(&["skipped", "ignored"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_test_is_counted_once() {
        let lines = [
            "test result: FAILED. 0 passed; 1 failed; 0 ignored",
            "   Summary [ 1s] 9 tests run: 8 passed, 1 failed, 0 skipped",
        ];
        let mut tally = Tally::default();
        tally.tests("tests", Ok((false, lines.map(str::to_owned).to_vec())));
        assert_eq!(tally, Tally { passed: 8, failed: 1, skipped: 0 });
    }

    #[test]
    fn closing_lines_of_both_runners_are_read() {
        let nextest =
            "     Summary [   1.382s] 45 tests run: 42 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 3 skipped";
        assert_eq!(figures(nextest), Some(Tally { passed: 42, failed: 3, skipped: 3 }));
        let cargo =
            "test result: FAILED. 16 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 1.11s";
        assert_eq!(figures(cargo), Some(Tally { passed: 16, failed: 1, skipped: 2 }));
        assert_eq!(figures("test settings::tests::one ... ok"), None);
    }
}
