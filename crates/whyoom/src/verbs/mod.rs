//! One module per verb: each takes its arguments and the streams, and says how it went.

mod diff;
mod explain;
mod replay;
mod settings;
mod summary;
mod tune;

use crate::{
    Exit, Streams,
    cli::{Cli, Verb},
};

pub(crate) fn dispatch(cli: Cli, streams: &mut Streams<'_>) -> Exit {
    match cli.verb {
        None => explain::run(&cli.explain, streams),
        Some(Verb::Explain(args)) => explain::run(&args, streams),
        Some(Verb::Replay(args)) => replay::run(&args, streams),
        Some(Verb::Tune(args)) => tune::run(&args, streams),
        Some(Verb::Diff(args)) => diff::run(&args, streams),
        Some(Verb::Settings(args)) => settings::run(&args, streams),
        Some(Verb::Summary(args)) => summary::run(&args, streams),
    }
}
