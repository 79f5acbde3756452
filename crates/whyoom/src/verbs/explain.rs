//! `whyoom explain`: why, who, and what would help.

use whyoom_diagnosis::explanation::{Confidence, Explanation, WarningLine};
use whyoom_report::write_explanation;

use crate::{
    Exit, Streams,
    cli::{ExplainArgs, FailOn},
    pipeline::{self, Presentation, Texts},
    progress::Progress,
    source,
};

pub(crate) fn run(args: &ExplainArgs, streams: &mut Streams<'_>) -> Exit {
    let is_stdin = |p: &std::path::PathBuf| p.as_os_str() == "-";
    if args.tee && !args.input.files.iter().any(is_stdin) {
        streams.complain("--tee passes standard input on, and no - is given", &["whyoom explain --tee -"], None);
        return Exit::Usage;
    }
    let texts = if args.tee { Texts::PassedOn } else { Texts::Taken };
    let loading = match pipeline::load_with(&args.input, texts, streams) {
        Ok(loading) => loading,
        Err(exit) => return exit,
    };
    let progress = Progress::new(streams);
    progress.say("replaying, and trying remedies");
    let mut explanation = pipeline::explain(&loading, &args.input);
    drop(progress);
    if explanation.devices.is_empty() && !loading.texts.is_empty() && !args.input.device.is_empty() {
        streams.complain("nothing given speaks of that device", &["Leave --device out to see which there are."], None);
        return Exit::Usage;
    }
    explanation.warnings.extend(unused_limit(args, &explanation));
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

/// What is said where a limit is given and nothing can be replayed under it.
fn unused_limit(args: &ExplainArgs, explanation: &Explanation) -> Option<WarningLine> {
    let is_replayed = explanation.inputs.iter().any(|input| input.kind == "snapshot");
    (args.input.limit().is_some() && !is_replayed).then(|| WarningLine {
        code: "limit".into(),
        count: 1,
        message: "--limit and --card ask about a replay; a text is judged by its own figures".into(),
    })
}

/// Whether a finding that `fail_on` names holds, with strong evidence at least.
fn is_found(explanation: &Explanation, fail_on: &[FailOn]) -> bool {
    let findings = explanation.devices.iter().flat_map(|d| &d.findings);
    findings.filter(|f| f.confidence >= Confidence::Strong).any(|f| fail_on.iter().any(|named| named.names(f.cause)))
}
