//! `whyoom diff`: what changed between two recordings.

use whyoom_report::write_diff;

use crate::{
    Exit, Streams,
    cli::DiffArgs,
    pipeline::{self, Presentation},
    progress::Progress,
};

pub(crate) fn run(args: &DiffArgs, streams: &mut Streams<'_>) -> Exit {
    let input = args.input();
    let loading = match pipeline::load(&input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    // Half of a comparison is none; what could not be read was complained of.
    let [a, b] = loading.inputs.as_slice() else { return Exit::Unreadable };
    let progress = Progress::new(streams);
    progress.say("comparing");
    let diff = whyoom_diagnosis::diff(a, b, &pipeline::options(&input));
    drop(progress);
    let presentation = Presentation::new(&args.output, streams);
    streams.print(loading.exit(), |out| presentation.show(&diff, write_diff, out))
}
