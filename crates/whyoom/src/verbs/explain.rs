//! `whyoom explain`: why, who, and what would help.

use whyoom_diagnosis::explanation::{Confidence, Explanation};
use whyoom_report::write_explanation;

use crate::{
    Exit, Streams,
    cli::{ExplainArgs, FailOn},
    pipeline::{self, Presentation, Texts},
    progress::Progress,
    source,
};

pub(crate) fn run(args: &ExplainArgs, streams: &mut Streams<'_>) -> Exit {
    let texts = if args.tee { Texts::PassedOn } else { Texts::Taken };
    let loading = match pipeline::load_with(&args.input, texts, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let progress = Progress::new(streams);
    progress.say("replaying, and trying remedies");
    let mut explanation = pipeline::explain(&loading, &args.input);
    drop(progress);
    // An unreadable input makes the answer incomplete, which matters more than what was found in the others.
    let exit = loading.exit().max(if is_found(&explanation, &args.fail_on) { Exit::Found } else { Exit::Fine });
    explanation.warnings.extend(pipeline::torch_warning(&args.input));
    explanation.warnings.sort_by(|a, b| a.code.cmp(&b.code));
    // JSON may be sent elsewhere: the user's code is in it only where that is asked for.
    if args.output.json.is_none() || !args.source.is_empty() {
        source::fill(&mut explanation, &args.source);
    }
    let presentation = Presentation::new(&args.output, streams);
    presentation.add_failures(&mut explanation.warnings, loading.failed);
    streams.print(exit, |out| presentation.show(&explanation, write_explanation, out))
}

/// Whether a finding that `fail_on` names holds, with strong evidence at least.
fn is_found(explanation: &Explanation, fail_on: &[FailOn]) -> bool {
    let findings = explanation.devices.iter().flat_map(|d| &d.findings);
    findings.filter(|f| f.confidence >= Confidence::Strong).any(|f| fail_on.iter().any(|named| named.names(f.cause)))
}
