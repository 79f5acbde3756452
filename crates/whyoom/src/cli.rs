//! The grammar of the command line.

use std::{num::NonZeroU64, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use whyoom_allocator::Release;
use whyoom_diagnosis::explanation::Cause;
use whyoom_report::Layout;

use crate::size::parse_size;

const AFTER_HELP: &str = "\
`whyoom FILE...` is `whyoom explain FILE...`. Snapshots are read as data: nothing
in them is ever run. A file named like a verb is reached as ./explain or after --.

Examples:
  whyoom oom.pickle                  why it died, and what would have helped
  whyoom rank*.pickle                several ranks together, the worst first
  whyoom --limit 24GiB oom.pickle    had the limit been 24 GiB
  whyoom replay --settings expandable_segments:True oom.pickle
  ssh host cat oom.pickle.xz | whyoom -

A snapshot comes from torch.cuda.memory._dump_snapshot(\"oom.pickle\"), after
torch.cuda.memory._record_memory_history() before the model was built.

Exit status: 0 fine, 1 a finding named by --fail-on, 2 wrong usage,
3 unreadable input.";

/// Says why a PyTorch run ran out of GPU memory, and which remedy would have stopped it
#[derive(Debug, Parser)]
#[command(
    name = "whyoom",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    max_term_width = 80,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) explain: ExplainArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Says why, who, and what would help (the default verb)
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Explain(ExplainArgs),
    /// Checks that the model reproduces a recording, or tries other settings on it
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Replay(ReplayArgs),
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Exit with 1 if one of these causes is found with strong evidence or proof; `any` is every cause but healthy
    #[arg(long, value_name = "CAUSE", value_delimiter = ',', value_parser = FailOn::from_str)]
    pub(crate) fail_on: Vec<FailOn>,
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Replay under this PYTORCH_CUDA_ALLOC_CONF instead of the recorded one; '' is PyTorch's defaults
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) settings: Option<String>,
    /// Call `empty_cache()` after every step, or after every Nth
    #[arg(long, value_name = "step|N", value_parser = EmptyCache::from_str)]
    pub(crate) empty_cache: Option<EmptyCache>,
}

/// What to read, and how to take it.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Snapshots, plain or gzip, zstd, xz; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only this device index (may be given again, or as 0,1)
    #[arg(long, value_name = "D", value_delimiter = ',')]
    pub(crate) device: Vec<u32>,
    /// What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]
    #[arg(long, value_name = "SIZE|none", value_parser = LimitArg::from_str)]
    pub(crate) limit: Option<LimitArg>,
    /// Model the allocator of this PyTorch release [default: inferred, else 2.11]
    #[arg(long, value_name = "VERSION", value_parser = Release::from_str)]
    pub(crate) torch: Option<Release>,
}

/// How to show it.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write JSON (pretty or, with --json=compact, on one line)
    #[arg(long, value_name = "LAYOUT", num_args = 0..=1, require_equals = true, default_missing_value = "pretty", value_enum)]
    pub(crate) json: Option<JsonLayout>,
    /// Show everything, not only what matters most
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show exact bytes
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Keep to ASCII characters
    #[arg(long)]
    pub(crate) ascii: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto)]
    pub(crate) color: ColorWhen,
}

/// `--json` layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JsonLayout {
    Pretty,
    Compact,
}

impl From<JsonLayout> for Layout {
    fn from(layout: JsonLayout) -> Self {
        match layout {
            JsonLayout::Pretty => Self::Pretty,
            JsonLayout::Compact => Self::Compact,
        }
    }
}

/// `--color` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    Auto,
    Always,
    Never,
}

/// `--limit` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitArg {
    /// So many bytes.
    Bytes(u64),
    /// No limit.
    None,
}

impl FromStr for LimitArg {
    type Err = crate::SizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().eq_ignore_ascii_case("none") { Ok(Self::None) } else { parse_size(text).map(Self::Bytes) }
    }
}

/// `--empty-cache` values: a call after every so many steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EmptyCache(pub(crate) NonZeroU64);

impl FromStr for EmptyCache {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "step" {
            return Ok(Self(NonZeroU64::MIN));
        }
        text.parse()
            .map(Self)
            .map_err(|_| format!("`{text}` is no number of steps; write step for every step, or a number from 1 on"))
    }
}

/// `--fail-on` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailOn {
    /// Any cause but `healthy`.
    Any,
    /// This cause.
    Cause(Cause),
}

impl FailOn {
    /// Causes by the names of the JSON contract.
    pub(crate) const CAUSES: [(&str, Cause); 11] = [
        ("leak", Cause::Leak),
        ("fragmentation", Cause::Fragmentation),
        ("capacity", Cause::Capacity),
        ("spike", Cause::Spike),
        ("outside", Cause::Outside),
        ("limit", Cause::Limit),
        ("settings", Cause::Settings),
        ("pending_free", Cause::PendingFree),
        ("private_pool", Cause::PrivatePool),
        ("healthy", Cause::Healthy),
        ("undetermined", Cause::Undetermined),
    ];

    /// Whether `cause` is one that was named.
    pub(crate) fn names(self, cause: Cause) -> bool {
        match self {
            Self::Any => cause != Cause::Healthy,
            Self::Cause(named) => named == cause,
        }
    }
}

impl FromStr for FailOn {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::Any);
        }
        Self::CAUSES.iter().find(|(name, _)| *name == text).map(|(_, cause)| Self::Cause(*cause)).ok_or_else(|| {
            let names: Vec<&str> = Self::CAUSES.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is no cause; the causes are any, {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn causes_are_named_as_in_the_contract() {
        for (name, cause) in FailOn::CAUSES {
            assert_eq!(serde_json::to_value(cause).expect("a cause is a string"), name);
        }
    }

    #[test]
    fn any_is_all_but_healthy() {
        assert!(FailOn::Any.names(Cause::Leak) && FailOn::Any.names(Cause::Undetermined));
        assert!(!FailOn::Any.names(Cause::Healthy));
    }

    #[test]
    fn empty_cache_counts_steps() {
        assert_eq!("step".parse::<EmptyCache>().map(|e| e.0.get()), Ok(1));
        assert_eq!("12".parse::<EmptyCache>().map(|e| e.0.get()), Ok(12));
        assert!("0".parse::<EmptyCache>().is_err() && "often".parse::<EmptyCache>().is_err());
    }
}
