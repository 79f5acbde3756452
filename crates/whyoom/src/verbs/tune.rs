//! `whyoom tune`: the settings that reserve least.

use whyoom_report::write_tuning;

use crate::{
    Exit, Streams,
    cli::TuneArgs,
    pipeline::{self, Presentation},
    progress::Progress,
};

pub(crate) fn run(args: &TuneArgs, streams: &mut Streams<'_>) -> Exit {
    let loading = match pipeline::load(&args.input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let progress = Progress::new(streams);
    progress.say("replaying settings");
    let mut tuning = whyoom_diagnosis::tune(&loading.inputs, &pipeline::options(&args.input));
    drop(progress);
    let exit = loading.exit();
    let presentation = Presentation::new(&args.output, streams);
    presentation.add_failures(&mut tuning.warnings, loading.failed);
    streams.print(exit, |out| presentation.show(&tuning, write_tuning, out))
}
