//! Settings strings in what people paste: shell lines, Dockerfiles, Compose and Kubernetes files, Windows, Python.

mod form;
mod value;

pub use form::Form;

/// The variables that carry settings, in some release or build.
pub const VARIABLES: [&str; 3] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"];

/// The call that carries settings without a variable (`torch.cuda.memory`, 2.1).
const CALL: &str = "_set_allocator_settings(";

/// A settings string, and what it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pasted {
    /// The value, as PyTorch gets it.
    pub value: String,
    /// The variable that it is given to; `None` where none is named.
    pub variable: Option<&'static str>,
    /// How it is written.
    pub form: Form,
    /// Line of the text, from 1 on.
    pub line: u64,
    /// A newline stood behind the value, and was not taken for a part of it.
    pub newline_follows: bool,
    /// What a shell cuts off, where that looks like settings.
    pub cut_off: Option<String>,
}

impl Pasted {
    /// `text` is the value itself.
    pub fn value(text: impl Into<String>) -> Self {
        Self { value: text.into(), variable: None, form: Form::Value, line: 1, newline_follows: false, cut_off: None }
    }

    /// The value on the one line of `text` that says something, where no variable is named: an editor or `echo` ended
    /// it, comments stand beside it. `None` if several lines do.
    pub fn alone(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let line = lines.next().unwrap_or_default();
        lines.next().is_none().then(|| Self { newline_follows: text.contains('\n'), ..Self::value(line) })
    }
}

/// Every assignment of settings in `text`, in order. Comments count only where nothing else does.
pub fn find(text: &str) -> Vec<Pasted> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Vec<(bool, Pasted)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_comment = line.trim_start().starts_with(['#', '/']) && !line.trim_start().starts_with("#!");
        let mut from = 0;
        while let Some((at, name)) = next_name(line, from) {
            from = at + name.len();
            let place = Place { lines: &lines, index, before: &line[..at], after: &line[from..] };
            if let Some(mut pasted) = place.read() {
                pasted.variable = Some(name);
                pasted.line = index as u64 + 1;
                found.push((is_comment, pasted));
            }
        }
        if let Some(at) = line.find(CALL)
            && let Some((value, _)) = value::python(line[at + CALL.len()..].trim_start())
        {
            let line = index as u64 + 1;
            found.push((is_comment, Pasted { form: Form::Call, line, ..Pasted::value(value) }));
        }
    }
    let has_live = found.iter().any(|(is_comment, _)| !is_comment);
    found.into_iter().filter(|(is_comment, _)| !(*is_comment && has_live)).map(|(_, pasted)| pasted).collect()
}

/// The next variable's name at or behind `from`, whole.
fn next_name(line: &str, from: usize) -> Option<(usize, &'static str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    VARIABLES
        .iter()
        .flat_map(|name| line[from..].match_indices(name).map(move |(at, _)| (from + at, *name)))
        .filter(|(at, name)| !line[..*at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part))
        .min_by_key(|(at, _)| *at)
}

/// Where a variable is named.
struct Place<'a> {
    lines: &'a [&'a str],
    index: usize,
    before: &'a str,
    after: &'a str,
}

impl Place<'_> {
    /// What is assigned there, if anything is.
    fn read(&self) -> Option<Pasted> {
        let made = |value: String, form| Some(Pasted { form, ..Pasted::value(value) });
        // The hint in PyTorch's own message.
        if self.before.trim_end().ends_with("setting") {
            return None;
        }
        if let Some(rest) = self.after.strip_prefix(['"', '\'']) {
            return self.quoted_name(rest.trim_start());
        }
        if self.is_name_of_pair() {
            return self.value_of_pair().and_then(|value| made(value, Form::Kubernetes));
        }
        if let Some(rest) = self.after.strip_prefix(':') {
            return value::yaml(rest, self.rest()).and_then(|value| made(value, Form::YamlMap));
        }
        let word = self.before.split_whitespace().next().unwrap_or("");
        let last = self.before.split_whitespace().next_back().unwrap_or("");
        if self.after.starts_with([' ', '\t']) && !self.after.trim_start().starts_with('=') {
            let rest = self.after.trim_start();
            return match last {
                "ENV" | "ARG" => made(value::shell(rest, false).0, Form::Dockerfile),
                "setenv" | "-x" | "-gx" | "-xg" | "-Ux" | "-xU" => made(value::shell(rest, true).0, Form::Shell),
                _ if last.eq_ignore_ascii_case("setx") => made(value::shell(rest, false).0, Form::WindowsSet),
                _ => None,
            };
        }
        let rest = self.after.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='))?;
        if self.before.ends_with("$env:") || self.before.ends_with("$Env:") {
            return made(value::shell(rest.trim_start(), true).0, Form::PowerShell);
        }
        if word.eq_ignore_ascii_case("set") && !last.starts_with('-') {
            return made(value::windows(rest, self.before), Form::WindowsSet);
        }
        if self.before.trim() == "-" {
            return made(value::plain(rest), Form::ComposeList);
        }
        // `- "NAME=value"`, `-e "NAME=value"`, `Environment="NAME=value"`: the quote opened before the name.
        if let Some(quote) = self.before.chars().next_back().filter(|c| matches!(c, '"' | '\'')) {
            let inner = rest.split_once(quote).map_or(rest, |(inner, _)| inner);
            let is_list = self.before.trim_end_matches(quote).trim() == "-";
            return made(inner.to_owned(), if is_list { Form::ComposeListQuoted } else { Form::Shell });
        }
        if self.after.starts_with([' ', '\t']) {
            // `NAME = value` is no shell's: an INI or TOML file.
            let rest = rest.trim();
            return made(value::python(rest).map_or_else(|| rest.to_owned(), |(value, _)| value), Form::Shell);
        }
        if matches!(word, "ENV" | "ARG") {
            return made(value::shell(rest, false).0, Form::Dockerfile);
        }
        let (value, behind) = value::shell(rest, true);
        let behind = behind.trim_start();
        let looks = behind.starts_with(';') && behind.contains(':') && !behind.contains(' ');
        let cut_off = looks.then(|| behind.to_owned());
        Some(Pasted { form: Form::Shell, cut_off, ..Pasted::value(value) })
    }

    /// `"NAME"] = "value"`, `"NAME", "value"`, `"NAME": "value"`.
    fn quoted_name(&self, rest: &str) -> Option<Pasted> {
        let made = |value: String, form| Pasted { form, ..Pasted::value(value) };
        if let Some(rest) = rest.strip_prefix(']') {
            let rest = rest.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='))?;
            return value::python(rest.trim_start()).map(|(value, _)| made(value, Form::Python));
        }
        if let Some(rest) = rest.strip_prefix(',') {
            return value::python(rest.trim_start()).map(|(value, _)| made(value, Form::Python));
        }
        if let Some(rest) = rest.strip_prefix(':') {
            return value::yaml(rest, self.rest()).map(|value| made(value, Form::YamlMap));
        }
        (rest.is_empty() && self.is_name_of_pair()).then(|| self.value_of_pair())?.map(|v| made(v, Form::Kubernetes))
    }

    fn rest(&self) -> &[&str] {
        self.lines.get(self.index + 1..).unwrap_or(&[])
    }

    /// `- name: NAME`, with the value in a line of its own.
    fn is_name_of_pair(&self) -> bool {
        self.before.trim_end_matches(['"', '\'']).trim_end().ends_with("name:")
    }

    fn value_of_pair(&self) -> Option<String> {
        let next = self.rest().iter().position(|line| !line.trim().is_empty())?;
        let rest = &self.rest()[next..];
        value::yaml(rest[0].trim_start().strip_prefix("value:")?, rest.get(1..).unwrap_or(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> (String, Form) {
        let found = find(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        (found[0].value.clone(), found[0].form)
    }

    #[test]
    fn lines_as_people_paste_them() {
        let value = "max_split_size_mb:128";
        for (text, form) in [
            ("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", Form::Shell),
            ("export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:128' # why", Form::Shell),
            ("$ PYTORCH_ALLOC_CONF=\"max_split_size_mb:128\" python train.py", Form::Shell),
            ("env PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128 python train.py", Form::Shell),
            ("docker run -e \"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128\" image", Form::Shell),
            ("set -x PYTORCH_CUDA_ALLOC_CONF max_split_size_mb:128", Form::Shell),
            ("PYTORCH_CUDA_ALLOC_CONF = \"max_split_size_mb:128\"", Form::Shell),
            ("%env PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", Form::Shell),
            ("ENV PYTORCH_CUDA_ALLOC_CONF=\"max_split_size_mb:128\"", Form::Dockerfile),
            ("ENV PYTORCH_CUDA_ALLOC_CONF max_split_size_mb:128", Form::Dockerfile),
            ("set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128\r\n", Form::WindowsSet),
            ("SET \"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128\"", Form::WindowsSet),
            ("setx PYTORCH_CUDA_ALLOC_CONF \"max_split_size_mb:128\"", Form::WindowsSet),
            ("$env:PYTORCH_CUDA_ALLOC_CONF = \"max_split_size_mb:128\"", Form::PowerShell),
            ("  - PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", Form::ComposeList),
            ("  - \"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128\"", Form::ComposeListQuoted),
            ("  PYTORCH_CUDA_ALLOC_CONF: \"max_split_size_mb:128\"", Form::YamlMap),
            ("  PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb:128 # note", Form::YamlMap),
            ("  PYTORCH_CUDA_ALLOC_CONF: >-\n    max_split_size_mb:128\n", Form::YamlMap),
            ("{\"PYTORCH_CUDA_ALLOC_CONF\": \"max_split_size_mb:128\"}", Form::YamlMap),
            ("- name: PYTORCH_CUDA_ALLOC_CONF\n  value: \"max_split_size_mb:128\"\n", Form::Kubernetes),
            ("os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"max_split_size_mb:128\"", Form::Python),
            ("os.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'max_split_size_mb:128')", Form::Python),
            ("torch.cuda.memory._set_allocator_settings('max_split_size_mb:128')", Form::Call),
            ("# PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", Form::Shell),
        ] {
            assert_eq!(one(text), (value.to_owned(), form), "{text}");
        }
    }

    #[test]
    fn what_the_form_does_to_the_value() {
        for (text, value) in [
            // Compose's list form keeps quotes within an item; a Dockerfile strips them.
            ("- PYTORCH_CUDA_ALLOC_CONF=\"a:1\"", "\"a:1\""),
            ("set PYTORCH_CUDA_ALLOC_CONF=\"a:1\"", "\"a:1\""),
            ("PYTORCH_CUDA_ALLOC_CONF: |\n  a:1\n", "a:1\n"),
            ("export PYTORCH_CUDA_ALLOC_CONF= a:1", ""),
            ("export PYTORCH_CUDA_ALLOC_CONF=a:1,\\\nb:2", "a:1,"),
        ] {
            assert_eq!(one(text).0, value, "{text}");
        }
        let cut = find("export PYTORCH_CUDA_ALLOC_CONF=a:1;b:2");
        assert_eq!((cut[0].value.as_str(), cut[0].cut_off.as_deref()), ("a:1", Some(";b:2")));
    }

    #[test]
    fn a_mention_is_no_assignment() {
        for text in [
            "See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
            "if os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] == \"a\":",
            "MY_PYTORCH_CUDA_ALLOC_CONF=a:1",
            "max_split_size_mb:128",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
