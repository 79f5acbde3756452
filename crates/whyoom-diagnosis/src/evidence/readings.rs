//! Facts as the contract lists them.

use serde_json::Value;

use super::TextInput;
use super::input::kind;
use crate::explanation::{Reading, WarningLine};

/// Readings that are listed of one input; the others are counted.
const LISTED: usize = 1000;

/// The facts of all texts, in their order. `first` is the index of the first text among all inputs.
pub(crate) fn readings(texts: &[TextInput], first: usize) -> Vec<Reading> {
    let mut list = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        for reading in text.text.readings.iter().take(LISTED) {
            let value = serde_json::to_value(&reading.fact).unwrap_or(Value::Null);
            let facts = match value {
                Value::Object(mut object) => object.remove("facts").unwrap_or(Value::Null),
                other => other,
            };
            list.push(Reading {
                input: first + index,
                kind: kind(&reading.fact),
                line: reading.place.line,
                rank: reading.rank,
                occurrences: reading.occurrences,
                facts,
            });
        }
    }
    list
}

/// Texts that say nothing, beside inputs that do.
fn silent(texts: &[TextInput], others: usize) -> Vec<WarningLine> {
    if texts.len() + others < 2 {
        return Vec::new();
    }
    let says_nothing = |text: &&TextInput| text.text.readings.is_empty() && !super::conf::is_one(text);
    let warning = |text: &TextInput| WarningLine {
        code: "no_evidence".to_owned(),
        count: 1,
        message: format!("{}: nothing in it speaks of GPU memory", text.meta.path),
    };
    texts.iter().filter(says_nothing).map(warning).collect()
}

/// What was lost in reading.
pub(crate) fn warnings(texts: &[TextInput], others: usize) -> Vec<WarningLine> {
    let mut list = silent(texts, others);
    for text in texts {
        if let Some(damage) = &text.damage {
            let message = format!("{} ends early and was read as far as it goes: {damage}", text.meta.path);
            list.push(WarningLine { code: "truncated".to_owned(), count: 1, message });
        }
    }
    let mut add = |code: &str, count: u64, message: &str| {
        if count > 0 {
            list.push(WarningLine { code: code.to_owned(), count, message: message.to_owned() });
        }
    };
    let sum = |of: fn(&TextInput) -> u64| texts.iter().map(of).fold(0, u64::saturating_add);
    add("cut_lines", sum(|t| t.text.cut_lines), "a line is longer than what is looked at; its end was not read");
    let dropped = |t: &TextInput| t.text.dropped_readings + t.text.readings.len().saturating_sub(LISTED) as u64;
    add("readings_left_out", sum(dropped), "a fact of the text is not listed: there are more than are kept");
    list
}
