//! `whyoom replay`: does the model reproduce this recording; what happens otherwise.

use crate::{Exit, Streams, cli::ReplayArgs, pipeline};

pub(crate) fn run(args: &ReplayArgs, streams: &mut Streams<'_>) -> Exit {
    let loading = match pipeline::load(&args.input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    loading.exit()
}
