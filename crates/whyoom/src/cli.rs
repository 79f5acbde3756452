//! The grammar of the command line.

mod settings;
mod summary;

use std::{num::NonZeroU64, path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use whyoom_allocator::Release;
use whyoom_diagnosis::{Change, GroupName, StateTensors, When, explanation::Cause};
use whyoom_report::Layout;

use crate::{card::Card, size::parse_size};

pub(crate) use settings::SettingsArgs;
pub(crate) use summary::SummaryArgs;

const AFTER_HELP: &str = "\
`whyoom FILE...` is `whyoom explain FILE...`. Snapshots are read as data: nothing
in them is ever run. A file named like a verb is reached as ./explain or after --.

Examples:
  whyoom oom.pickle                  why it died, and what would have helped
  whyoom rank*.pickle                several ranks together, the worst first
  whyoom --limit 24GiB oom.pickle    had the limit been 24 GiB
  whyoom replay --settings expandable_segments:True oom.pickle
  whyoom replay --scale batch=0.5 --card 3090 oom.pickle
  whyoom tune oom.pickle             the settings that reserve least
  whyoom diff adamw.pickle sgd.pickle
  whyoom summary --at peak --explain oom.pickle
  whyoom settings --torch 2.9 -- max_split_size_mb:20
  ssh host cat oom.pickle.xz | whyoom -
  whyoom oom.txt smi.csv             a message and a monitor, no snapshot
  python train.py 2>&1 | whyoom explain --tee -

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
    /// Searches the allocator's settings for those that reserve least
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Tune(TuneArgs),
    /// Says what changed between two recordings: optimizer, batch, version, rank
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Diff(DiffArgs),
    /// Says what each PyTorch release makes of a PYTORCH_CUDA_ALLOC_CONF
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Settings(SettingsArgs),
    /// Prints `memory_summary()` of a recording, at its end or at any event
    #[command(arg_required_else_help = true, max_term_width = 80)]
    Summary(SummaryArgs),
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
    /// Look for source files here too, to show the lines named (may be given again); with --json, put them in
    #[arg(long, value_name = "DIR")]
    pub(crate) source: Vec<PathBuf>,
    /// Pass standard input on as it comes, and explain at its end
    #[arg(long)]
    pub(crate) tee: bool,
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
    /// Call `empty_cache()` after every step, every Nth step, every `zero_grad()`, or every evaluation
    #[arg(long, value_name = "step|N|zero_grad|evaluation", value_parser = parse_when)]
    pub(crate) empty_cache: Option<When>,
    /// Leave out a group of allocations: leak, activations, gradients, `optimizer_state`, parameters, batch, or those
    /// made at a place as train.py:132, train.py or a function's name (may be given again)
    #[arg(long, value_name = "GROUP", value_parser = GroupName::from_str)]
    pub(crate) drop: Vec<GroupName>,
    /// Scale a group's requests, as batch=0.5 for half the batch (may be given again)
    #[arg(long, value_name = "GROUP=FACTOR", value_parser = Scaling::from_str)]
    pub(crate) scale: Vec<Scaling>,
    /// Replace the recorded optimizer's state by that of another
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) optimizer: Option<OptimizerName>,
}

impl ReplayArgs {
    /// The changes asked for, in the order in which they are made.
    pub(crate) fn changes(&self) -> Vec<Change> {
        // The optimizer first: its state is resized by what was recorded.
        let dropped = self.drop.iter().cloned().map(Change::Drop);
        let scaled = self.scale.iter().map(|s| Change::Scale(s.group.clone(), s.factor));
        let optimizer = self.optimizer.map(|o| Change::Optimizer(o.into()));
        let calls = self.empty_cache.map(Change::EmptyCache);
        optimizer.into_iter().chain(dropped).chain(scaled).chain(calls).collect()
    }
}

/// Arguments of `tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Two snapshots, plain or gzip, zstd, xz: what B holds more or less than A
    #[arg(value_names = ["A", "B"], num_args = 2, required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only this device index (may be given again, or as 0,1)
    #[arg(long, value_name = "D", value_delimiter = ',', value_parser = device_index)]
    pub(crate) device: Vec<u32>,
    /// Model the allocator of this PyTorch release [default: inferred, else 2.11]
    #[arg(long, value_name = "VERSION", value_parser = TorchArg::from_str)]
    pub(crate) torch: Option<TorchArg>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl DiffArgs {
    /// What to read, as other verbs take it.
    pub(crate) fn input(&self) -> InputArgs {
        InputArgs { files: self.files.clone(), device: self.device.clone(), limit: None, card: None, torch: self.torch }
    }
}

/// What to read, and how to take it.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Snapshots, plain or gzip, zstd, xz; - is standard input. `explain` takes messages, tables, logs and settings too
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only this device (may be given again, or as 0,1)
    #[arg(long, value_name = "D", value_delimiter = ',', value_parser = device_index)]
    pub(crate) device: Vec<u32>,
    /// What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]
    #[arg(long, value_name = "SIZE|none", value_parser = LimitArg::from_str)]
    pub(crate) limit: Option<LimitArg>,
    /// The limit of a card with nothing else on it, as "RTX 3090", instead of --limit
    #[arg(long, value_name = "NAME", value_parser = Card::from_str, conflicts_with = "limit")]
    pub(crate) card: Option<Card>,
    /// Model the allocator of this PyTorch release [default: inferred, else 2.11]
    #[arg(long, value_name = "VERSION", value_parser = TorchArg::from_str)]
    pub(crate) torch: Option<TorchArg>,
}

impl InputArgs {
    /// The limit given, by size or by card.
    pub(crate) fn limit(&self) -> Option<LimitArg> {
        self.limit.or_else(|| self.card.map(|card| LimitArg::Card(card.usable())))
    }
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

/// A value of `--device`.
fn device_index(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no device index; write a number such as 0, or several as 0,1"))
}

/// `--torch` values: a release that is modelled, or a newer one of the same major version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TorchArg(Release);

impl TorchArg {
    /// The release whose allocator is taken.
    pub(crate) fn modelled(self) -> Release {
        if self.is_newer() { Release::NEWEST } else { self.0 }
    }

    /// Newer than what is modelled.
    pub(crate) fn is_newer(self) -> bool {
        self.0.at_least(Release::NEWEST.major, Release::NEWEST.minor + 1)
    }
}

impl std::fmt::Display for TorchArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TorchArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let release: Release = text.parse().map_err(|e: whyoom_allocator::ReleaseError| e.to_string())?;
        let (oldest, newest) = (Release::OLDEST, Release::NEWEST);
        if !release.at_least(oldest.major, oldest.minor) || release.major > newest.major || release.minor > 99 {
            return Err(format!("torch {release} is not modelled; the releases {oldest} to {newest} are"));
        }
        Ok(Self(release))
    }
}

/// `--limit` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitArg {
    /// So many bytes, as a cap.
    Bytes(u64),
    /// So many bytes, as a card.
    Card(u64),
    /// No limit.
    None,
}

impl FromStr for LimitArg {
    type Err = crate::SizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SMALLEST_SEGMENT: u64 = 2 << 20;
        let text = text.trim();
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        let bytes = parse_size(text)?;
        // A unit shows that it is meant.
        if bytes < SMALLEST_SEGMENT && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(crate::SizeError::TooSmall(text.to_owned()));
        }
        Ok(Self::Bytes(bytes))
    }
}

/// Reads `--empty-cache` values.
fn parse_when(text: &str) -> Result<When, String> {
    match text {
        "step" => Ok(When::Steps(1)),
        "zero_grad" => Ok(When::ZeroGrad),
        "evaluation" | "eval" => Ok(When::Evaluation),
        other => other.parse::<NonZeroU64>().map(|n| When::Steps(n.get())).map_err(|_| {
            format!("`{other}` is no number of steps; write step, a number from 1 on, zero_grad or evaluation")
        }),
    }
}

/// `--scale` values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scaling {
    group: GroupName,
    factor: f64,
}

impl FromStr for Scaling {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        /// More than any program is scaled by, and far from where sizes have no room.
        const MOST: f64 = 1000.0;
        /// A smaller factor leaves nothing, which 0 says.
        const LEAST: f64 = 1e-6;
        let Some((group, factor)) = text.rsplit_once('=') else {
            return Err("write a group and a factor, as activations=0.5".to_owned());
        };
        let factor = factor.trim().trim_start_matches(['x', 'X', '\u{d7}']);
        let factor = factor.parse::<f64>().ok().filter(|f| *f == 0.0 || (LEAST..=MOST).contains(f));
        let factor = factor.ok_or_else(|| format!("the factor is a number from 0 to {MOST}"))?;
        Ok(Self { group: group.trim().parse()?, factor })
    }
}

/// `--optimizer` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizerName {
    /// SGD without momentum: no state
    Sgd,
    /// SGD with momentum: one tensor for each parameter
    SgdMomentum,
    /// Adam and AdamW: two tensors for each parameter
    Adamw,
}

impl From<OptimizerName> for StateTensors {
    fn from(name: OptimizerName) -> Self {
        match name {
            OptimizerName::Sgd => Self::None,
            OptimizerName::SgdMomentum => Self::One,
            OptimizerName::Adamw => Self::Two,
        }
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
    fn empty_cache_is_called_after_steps_or_marks() {
        assert_eq!(parse_when("step"), Ok(When::Steps(1)));
        assert_eq!(parse_when("12"), Ok(When::Steps(12)));
        assert_eq!(parse_when("zero_grad"), Ok(When::ZeroGrad));
        assert!(parse_when("0").is_err() && parse_when("often").is_err());
    }

    #[test]
    fn factors_are_finite_and_not_negative() {
        let ok = "train.py:12=0.5".parse::<Scaling>().expect("a place and a factor");
        assert_eq!(ok.group.to_string(), "train.py:12");
        for bad in ["activations", "activations=", "activations=-1", "activations=inf", "activations=NaN", "=2"] {
            assert!(bad.parse::<Scaling>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_releases_that_are_modelled_are_taken() {
        let modelled = |text: &str| text.parse::<TorchArg>().map(|t| t.modelled().to_string());
        assert_eq!(modelled("1.13").as_deref(), Ok("1.13"));
        assert_eq!(modelled("2.9.1+cu130").as_deref(), Ok("2.9.1"));
        assert_eq!(modelled("2.15").as_deref(), Ok("2.15"));
        assert_eq!(modelled("2.31").as_deref(), Ok("2.15"));
        for text in ["0.1", "1.12", "3.0", "99.9"] {
            let error = modelled(text).expect_err(text);
            assert!(error.contains("1.13 to 2.15"), "{error}");
        }
    }
}
