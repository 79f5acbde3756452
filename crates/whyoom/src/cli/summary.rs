//! Arguments of `whyoom summary`.

use std::str::FromStr;

use clap::Args;
use whyoom_diagnosis::Moment;

use super::{InputArgs, OutputArgs};

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// After which event: its index, the peak of allocated bytes, the last failed request, or the end
    #[arg(long, value_name = "EVENT|peak|oom|end", default_value = "end", value_parser = Moment::from_str)]
    pub(crate) at: Moment,
    /// Say what lies between requested, allocated, active, reserved and the limit
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
