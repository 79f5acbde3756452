//! Load, explain, present: the steps every verb shares.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use whyoom_allocator::Release;
use whyoom_diagnosis::{
    ExplainOptions, InputMeta, LimitChoice, TextInput,
    explanation::{Explanation, Input, WarningLine},
};
use whyoom_report::{Layout, Numbers, TextOptions, write_json};
use whyoom_snapshot::{ReadError, ReadOptions, Snapshot, read_path, read_reader};

use crate::{
    Exit, Streams,
    cli::{ColorWhen, InputArgs, LimitArg, OutputArgs, TorchArg},
    progress::Progress,
    reading::{self, Content},
};

/// One file read, and what is known of it besides its content.
pub(crate) type Loaded = (InputMeta, Snapshot);

/// What could be read of the files named, in the order given.
pub(crate) struct Loading {
    pub(crate) inputs: Vec<Loaded>,
    /// Messages, tables, logs and settings, where the verb takes them.
    pub(crate) texts: Vec<TextInput>,
    /// Files that could not be read: already complained of, and counted here for the result.
    pub(crate) failed: Vec<WarningLine>,
    /// The same files, as inputs of the result.
    pub(crate) unreadable: Vec<Input>,
}

impl Loading {
    /// The status if all else goes well.
    pub(crate) fn exit(&self) -> Exit {
        if self.failed.is_empty() { Exit::Fine } else { Exit::Unreadable }
    }
}

/// Code of the warning for a file that could not be read.
const UNREADABLE: &str = "unreadable_input";

/// What a verb takes besides snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// No texts.
    Refused,
    /// Texts too.
    Taken,
    /// Texts too; standard input is one, and is passed on as it comes.
    PassedOn,
}

/// Reads every file, in parallel. One that cannot be read is complained of and does not lose the others.
///
/// # Errors
///
/// The exit status, if there is nothing to go on with.
pub(crate) fn load(args: &InputArgs, streams: &mut Streams<'_>) -> Result<Loading, Exit> {
    load_with(args, Texts::Refused, streams)
}

/// As [`load`], with texts.
pub(crate) fn load_with(args: &InputArgs, texts: Texts, streams: &mut Streams<'_>) -> Result<Loading, Exit> {
    let is_stdin = |p: &PathBuf| p.as_os_str() == "-";
    if args.files.iter().filter(|p| is_stdin(p)).count() > 1 {
        streams.complain("standard input can be read once only", &["Name - once, or give files."], None);
        return Err(Exit::Usage);
    }
    let progress = Progress::new(streams);
    progress.say(match args.files.as_slice() {
        [one] => format!("reading {}", whyoom_report::printable(&one.to_string_lossy())),
        many => format!("reading {} files", many.len()),
    });
    let options = ReadOptions::default();
    // What passes through owns the screen.
    let progress = (texts != Texts::PassedOn).then_some(progress);
    let piped = args.files.iter().any(is_stdin).then(|| read_stdin(texts, streams, &options));
    let mut piped = piped.into_iter();
    let read: Vec<Option<Result<Content, ReadError>>> =
        args.files.par_iter().map(|p| (!is_stdin(p)).then(|| read_file(p, texts, &options))).collect();
    drop(progress);

    let mut loading = Loading { inputs: Vec::new(), texts: Vec::new(), failed: Vec::new(), unreadable: Vec::new() };
    for (path, result) in args.files.iter().zip(read) {
        match result.or_else(|| piped.next()) {
            Some(Ok(Content::Snapshot(loaded))) => loading.inputs.push(*loaded),
            Some(Ok(Content::Text(text))) => loading.texts.push(text),
            Some(Err(error)) => {
                complain_of(path, &error, streams);
                loading.unreadable.push(Input {
                    path: path.to_string_lossy().into_owned(),
                    kind: "unreadable",
                    size_bytes: std::fs::metadata(path).map_or(0, |m| m.len()),
                    torch: None,
                    error: Some(reason(&error)),
                });
                loading.failed.push(WarningLine {
                    code: UNREADABLE.into(),
                    count: 1,
                    message: format!("{} could not be read: {}", path.to_string_lossy(), reason(&error)),
                });
            }
            None => {}
        }
    }
    if loading.inputs.is_empty() && loading.texts.is_empty() {
        Err(Exit::Unreadable)
    } else {
        check_devices(args, loading, streams)
    }
}

fn read_file(path: &Path, texts: Texts, options: &ReadOptions) -> Result<Content, ReadError> {
    if texts != Texts::Refused {
        return reading::file(path, options);
    }
    let snapshot = read_path(path, options)?;
    let size_bytes = std::fs::metadata(path).map_or(snapshot.input_bytes, |m| m.len());
    Ok(Content::Snapshot(Box::new((InputMeta { path: path.to_string_lossy().into_owned(), size_bytes }, snapshot))))
}

fn read_stdin(texts: Texts, streams: &mut Streams<'_>, options: &ReadOptions) -> Result<Content, ReadError> {
    match texts {
        Texts::Taken => reading::piped(&mut streams.stdin, "-", options),
        Texts::PassedOn => reading::passed_on(&mut streams.stdin, &mut *streams.stdout).map(Content::Text),
        Texts::Refused => {
            let snapshot = read_reader(&mut streams.stdin, options)?;
            let meta = InputMeta { path: "-".into(), size_bytes: snapshot.input_bytes };
            Ok(Content::Snapshot(Box::new((meta, snapshot))))
        }
    }
}

/// A device that no input has is a slip, and its absence must not read as health.
fn check_devices(args: &InputArgs, loading: Loading, streams: &mut Streams<'_>) -> Result<Loading, Exit> {
    // What a text says of devices is known once it is judged.
    if !loading.texts.is_empty() {
        return Ok(loading);
    }
    let mut present: Vec<u32> =
        loading.inputs.iter().flat_map(|(_, snapshot)| &snapshot.devices).map(|d| d.index).collect();
    present.sort_unstable();
    present.dedup();
    let Some(absent) = args.device.iter().find(|d| !present.contains(d)) else { return Ok(loading) };
    let has = match present.as_slice() {
        [] => "No input has anything on any device.".to_owned(),
        some => {
            const SHOWN: usize = 16;
            let list: Vec<String> = some.iter().take(SHOWN).map(u32::to_string).collect();
            let more = some.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("There is something on device {}{more}.", list.join(", "))
        }
    };
    streams.complain(&format!("no input has device {absent}"), &[&has], None);
    Err(Exit::Usage)
}

/// The error without the path, which is said last and once.
fn reason(error: &ReadError) -> String {
    match error {
        ReadError::Open { source, .. } => format!("cannot open the snapshot: {}", without_number(source)),
        other => other.to_string(),
    }
}

/// What the system said, less the error number that Rust adds.
pub(crate) fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(said, _)| said.to_owned())
}

fn complain_of(path: &Path, error: &ReadError, streams: &mut Streams<'_>) {
    let shown = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.to_string_lossy().into_owned() };
    let mut hints = Vec::new();
    if let ReadError::Open { source, .. } = error {
        match source.kind() {
            std::io::ErrorKind::IsADirectory => {
                hints.push("Name the snapshots in it, such as all of one run: whyoom DIRECTORY/*.pickle".to_owned());
            }
            std::io::ErrorKind::PermissionDenied => {
                hints.push(
                    "Whose file it is shows `ls -l`; ask its owner, or copy it to a place of your own.".to_owned(),
                );
            }
            _ => {}
        }
    }
    if let ReadError::Open { source, .. } = error
        && source.kind() == std::io::ErrorKind::NotFound
    {
        let command = crate::command();
        if let Some(verb) = command.get_subcommands().map(clap::Command::get_name).find(|v| *v == shown) {
            hints.push(format!("To call the verb {verb}, name it first: whyoom {verb} …"));
        } else if shown.contains(['*', '?']) {
            hints.push("No file matches this pattern.".to_owned());
        } else {
            hints.push("Is the name right, and the directory?".to_owned());
        }
    }
    let hints: Vec<&str> = hints.iter().map(String::as_str).collect();
    streams.complain(&reason(error), &hints, Some(&shown));
}

/// How results are shown.
pub(crate) struct Presentation {
    json: Option<Layout>,
    text: TextOptions,
}

impl Presentation {
    pub(crate) fn new(args: &OutputArgs, streams: &Streams<'_>) -> Self {
        let colour = match args.color {
            ColorWhen::Auto => streams.stdout_colour,
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        Self {
            json: args.json.map(Into::into),
            text: TextOptions {
                verbose: args.verbose,
                numbers: Numbers { exact_bytes: args.bytes },
                colour,
                ascii: args.ascii,
            },
        }
    }

    /// Warnings for the files that could not be read, in code order with the others. In text they would say again
    /// what was already complained of.
    pub(crate) fn add_failures(&self, warnings: &mut Vec<WarningLine>, failed: Vec<WarningLine>) {
        if self.json.is_some() {
            warnings.extend(failed);
            warnings.sort_by(|a, b| a.code.cmp(&b.code));
        }
    }

    /// Writes `result` as JSON, or as `text` writes it.
    pub(crate) fn show<T: serde::Serialize>(
        &self,
        result: &T,
        text: impl FnOnce(&T, TextOptions, &mut dyn Write) -> std::io::Result<()>,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        match self.json {
            Some(layout) => write_json(result, layout, out),
            None => text(result, self.text, out),
        }
    }
}

/// What is said where the release asked for is newer than any that is modelled.
pub(crate) fn torch_warning(args: &InputArgs) -> Option<WarningLine> {
    let asked = args.torch.filter(|t| t.is_newer())?;
    let newest = Release::NEWEST;
    Some(WarningLine {
        code: "torch".into(),
        count: 1,
        message: format!(
            "--torch: {asked} is newer than any release that is modelled; the allocator of {newest} is taken"
        ),
    })
}

/// The diagnosis of everything loaded.
pub(crate) fn explain(loading: &Loading, args: &InputArgs) -> Explanation {
    let mut explanation = whyoom_diagnosis::explain_together(&loading.inputs, &loading.texts, &options(args));
    // After the others, whose indices the devices name.
    explanation.inputs.extend(loading.unreadable.iter().cloned());
    explanation
}

/// How a diagnosis takes its inputs.
pub(crate) fn options(args: &InputArgs) -> ExplainOptions {
    ExplainOptions {
        limit: args.limit().map(|limit| match limit {
            LimitArg::Bytes(bytes) => LimitChoice::Bytes(bytes),
            LimitArg::Card(bytes) => LimitChoice::Card(bytes),
            LimitArg::None => LimitChoice::None,
        }),
        torch: args.torch.map(TorchArg::modelled),
        devices: (!args.device.is_empty()).then(|| args.device.clone()),
    }
}
