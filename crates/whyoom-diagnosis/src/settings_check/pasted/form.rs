//! How settings are written, and how to write them so.

use serde::Serialize;

/// What a settings string was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The value alone.
    Value,
    /// The environment of this process.
    Environment,
    /// A shell's assignment, a `.env` or INI file.
    Shell,
    /// `ENV` of a Dockerfile, which strips quotes.
    Dockerfile,
    /// An item of Compose's `environment` list, which keeps quotes.
    ComposeList,
    /// The same, quoted as a whole.
    ComposeListQuoted,
    /// A mapping of YAML or JSON.
    YamlMap,
    /// A `name` and `value` pair of Kubernetes.
    Kubernetes,
    /// `set` of Windows, which keeps quotes, or `setx`.
    WindowsSet,
    /// PowerShell.
    PowerShell,
    /// `os.environ`.
    Python,
    /// `torch.cuda.memory._set_allocator_settings`.
    Call,
}

impl Form {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Value => "the value alone",
            Self::Environment => "this environment",
            Self::Shell => "a shell's line",
            Self::Dockerfile => "a Dockerfile's line",
            Self::ComposeList | Self::ComposeListQuoted => "an item of a YAML list",
            Self::YamlMap => "a mapping of YAML or JSON",
            Self::Kubernetes => "a name and value pair of YAML",
            Self::WindowsSet => "a line of Windows' command prompt",
            Self::PowerShell => "a line of PowerShell",
            Self::Python => "a line of Python",
            Self::Call => "a call in Python",
        }
    }

    /// Whether it is for Windows.
    pub fn is_windows(self) -> bool {
        matches!(self, Self::WindowsSet | Self::PowerShell)
    }

    /// `value` written so, for `variable`; a pair takes two lines.
    pub fn write(self, variable: &str, value: &str) -> String {
        match self {
            Self::Value | Self::Environment => format!("{variable}={value}"),
            // A list's brackets and `>` mean something to a shell.
            Self::Shell if value.contains(['[', '>', ' ']) => format!("export {variable}='{value}'"),
            Self::Shell => format!("export {variable}={value}"),
            Self::Dockerfile => format!("ENV {variable}=\"{value}\""),
            Self::ComposeList => format!("- {variable}={value}"),
            Self::ComposeListQuoted => format!("- \"{variable}={value}\""),
            Self::YamlMap => format!("{variable}: \"{value}\""),
            Self::Kubernetes => format!("- name: {variable}\n  value: \"{value}\""),
            Self::WindowsSet => format!("set \"{variable}={value}\""),
            Self::PowerShell => format!("$env:{variable} = \"{value}\""),
            Self::Python => format!("os.environ[\"{variable}\"] = \"{value}\""),
            Self::Call => format!("torch.cuda.memory._set_allocator_settings(\"{value}\")"),
        }
    }
}
