//! Arguments of `whyoom settings`.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use super::{OutputArgs, TorchArg};

/// Arguments of `settings`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true).multiple(false))]
pub(crate) struct SettingsArgs {
    /// The value, or a line that sets it: of a shell, Dockerfile, YAML, Windows or Python; - is standard input
    #[arg(value_name = "STRING", num_args = 1.., group = "source")]
    pub(crate) string: Vec<String>,
    /// Read the text from a file
    #[arg(long, value_name = "FILE", group = "source")]
    pub(crate) file: Option<PathBuf>,
    /// Read the variables of this environment
    #[arg(long, group = "source")]
    pub(crate) env: bool,
    /// Take the text as the value itself, whatever it looks like
    #[arg(long)]
    pub(crate) raw: bool,
    /// Ask only this PyTorch release (may be given again, or as 2.9,2.10) [default: all from 1.13 to 2.15]
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = TorchArg::from_str)]
    pub(crate) torch: Vec<TorchArg>,
    /// Exit with 1 if a release asked refuses the string, does not read its variable, or ignores a part of it
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
