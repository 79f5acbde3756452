//! `whyoom settings`: what each release makes of a settings string.

use std::{
    fs::File,
    io::{self, Read},
};

use whyoom_allocator::Release;
use whyoom_diagnosis::settings_check::{Form, Pasted, VARIABLES, check, find};
use whyoom_report::write_settings;

use crate::{Exit, Streams, cli::SettingsArgs, pipeline::Presentation};

/// More text than anybody pastes, in bytes.
const MOST: u64 = 1 << 20;

pub(crate) fn run(args: &SettingsArgs, streams: &mut Streams<'_>) -> Exit {
    let strings = match strings(args, streams) {
        Ok(strings) => strings,
        Err(exit) => return exit,
    };
    let asked: Vec<Release> = args.torch.iter().map(|torch| torch.modelled()).collect();
    for newer in args.torch.iter().filter(|torch| torch.is_newer()) {
        let newest = Release::NEWEST;
        streams.complain(&format!("torch {newer} is newer than any that is known; {newest} is asked"), &[], None);
    }
    let answer = check(&strings, &asked);
    let exit = if args.check && !answer.is_whole() { Exit::Found } else { Exit::Fine };
    let presentation = Presentation::new(&args.output, streams);
    streams.print(exit, |out| presentation.show(&answer, write_settings, out))
}

/// The strings to ask about.
///
/// # Errors
/// The exit status, where there are none; said already.
fn strings(args: &SettingsArgs, streams: &mut Streams<'_>) -> Result<Vec<Pasted>, Exit> {
    if args.env {
        return Ok(environment());
    }
    let from = args.file.as_ref().map(|path| path.to_string_lossy().into_owned());
    let text = match (&args.file, args.string.as_slice()) {
        (Some(path), _) if path.as_os_str() != "-" => File::open(path).and_then(read),
        (None, [one]) if one != "-" => return Ok(told(one, args.raw)),
        (None, [_, _, ..]) => return Ok(told(&args.string.join(" "), args.raw)),
        _ => read(&mut streams.stdin),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            let what = format!("cannot read the settings: {}", crate::pipeline::without_number(&error));
            streams.complain(&what, &[], Some(from.as_deref().unwrap_or("standard input")));
            return Err(Exit::Unreadable);
        }
    };
    if args.raw {
        return Ok(vec![Pasted::value(text)]);
    }
    let found = find(&text);
    if !found.is_empty() {
        return Ok(found);
    }
    let Some(alone) = Pasted::alone(&text) else {
        let what = format!("nothing in the text sets {}", VARIABLES.join(", "));
        streams.complain(&what, &["Name the value alone, or give --raw for a value of several lines."], None);
        return Err(Exit::Usage);
    };
    Ok(vec![alone])
}

/// What an argument says: a line that sets a variable, or the value itself.
fn told(text: &str, raw: bool) -> Vec<Pasted> {
    let found = if raw { Vec::new() } else { find(text) };
    if found.is_empty() { vec![Pasted::value(text)] } else { found }
}

fn read(source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    // Editors of Windows begin a file with a mark.
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The variables that are set, the first read first; the empty string where none is.
fn environment() -> Vec<Pasted> {
    let value = |name: &'static str| {
        let value = std::env::var_os(name)?.to_string_lossy().into_owned();
        Some(Pasted { variable: Some(name), form: Form::Environment, ..Pasted::value(value) })
    };
    let set: Vec<Pasted> = VARIABLES.into_iter().filter_map(value).collect();
    if set.is_empty() { vec![Pasted { form: Form::Environment, ..Pasted::value("") }] } else { set }
}
