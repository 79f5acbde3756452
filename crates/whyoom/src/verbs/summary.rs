//! `whyoom summary`: the allocator's statistics at any event, in `memory_summary()`'s layout.

use whyoom_report::write_summary;

use crate::{
    Exit, Streams,
    cli::SummaryArgs,
    pipeline::{self, Presentation},
    progress::Progress,
};

pub(crate) fn run(args: &SummaryArgs, streams: &mut Streams<'_>) -> Exit {
    let loading = match pipeline::load(&args.input, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let progress = Progress::new(streams);
    progress.say("counting");
    let mut summary = whyoom_diagnosis::summary(&loading.inputs, args.at, &pipeline::options(&args.input));
    drop(progress);
    if summary.devices.is_empty() {
        let absent = summary.warnings.iter().find(|w| w.code == "no_such_moment");
        let what = absent.map_or("the input has nothing on any device", |w| w.message.as_str());
        streams.complain(what, &[], None);
        return if absent.is_some() { Exit::Usage } else { loading.exit() };
    }
    let exit = loading.exit();
    summary.warnings.extend(pipeline::torch_warning(&args.input));
    let presentation = Presentation::new(&args.output, streams);
    presentation.add_failures(&mut summary.warnings, loading.failed);
    let text = |summary: &_, options, out: &mut dyn std::io::Write| write_summary(summary, args.explain, options, out);
    streams.print(exit, |out| presentation.show(&summary, text, out))
}
