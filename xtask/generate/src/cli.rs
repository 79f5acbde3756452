//! What follows from the grammar of the command line: reference, man pages, completions.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;

use crate::Files;

/// Columns of the help in the reference, whatever the terminal.
const COLUMNS: usize = 80;

/// Adds them.
pub(crate) fn add(files: &mut Files) -> Result<()> {
    let mut command = whyoom::command().term_width(COLUMNS);
    command.build();
    let mut reference =
        String::from("# Command line\n\nThis page is generated from the program: what `--help` shows for each verb.\n");
    describe(&command, &mut reference);
    files.insert("docs/cli.md".into(), reference.into_bytes());
    pages(&command, files)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut whyoom::command(), "whyoom", &mut script);
        let name = match shell {
            Shell::Bash => "whyoom.bash",
            Shell::Zsh => "_whyoom",
            Shell::Fish => "whyoom.fish",
            _ => "_whyoom.ps1",
        };
        files.insert(Path::new("docs/completions").join(name), script);
    }
    Ok(())
}

/// The verbs that a person types; clap adds `help` beside them.
fn verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set())
}

fn describe(command: &Command, reference: &mut String) {
    let mut own = command.clone().term_width(COLUMNS);
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = own.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(reference, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim());
    for verb in verbs(command) {
        describe(verb, reference);
    }
}

/// One page per verb: `whyoom.1`, `whyoom-explain.1`, ...
fn pages(command: &Command, files: &mut Files) -> Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    files.insert(Path::new("docs/man").join(page.get_filename()), text);
    for verb in verbs(command) {
        pages(verb, files)?;
    }
    Ok(())
}
