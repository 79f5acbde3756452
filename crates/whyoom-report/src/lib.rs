//! Presenters over one result: text for people, JSON for programs.
//!
//! A presenter knows nothing of how a result was found. It writes to the writer it is given, the same bytes for
//! the same result: no clock, locale, terminal or environment is consulted here.
//!
//! # Example
//!
//! ```no_run
//! use whyoom_report::{TextOptions, write_explanation};
//! # fn example(explanation: &whyoom_diagnosis::explanation::Explanation) -> std::io::Result<()> {
//! write_explanation(explanation, TextOptions::default(), &mut std::io::stdout())
//! # }
//! ```

pub mod json;
pub mod number;
pub mod path;
pub mod replay;
mod text;

pub use json::{Layout, write_json};
pub use number::Numbers;
pub use text::{
    TextOptions, WIDTH, printable, write_diff, write_explanation, write_replay, write_settings, write_summary,
    write_tuning,
};
