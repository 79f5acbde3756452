//! One pass over whole buffers for the words of all recognisers.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};

use crate::Recogniser;

/// Finds lines that hold a word of some recogniser.
#[derive(Debug)]
pub(crate) struct Filter {
    words: AhoCorasick,
    /// For each word, the recognisers that asked for it, as bits.
    asked: Vec<u64>,
}

impl Filter {
    /// At most 64 recognisers; those beyond see no line.
    pub(crate) fn new(recognisers: &[Box<dyn Recogniser>]) -> Result<Self, BuildError> {
        let mut words: Vec<(&'static str, u64)> = Vec::new();
        for (i, recogniser) in recognisers.iter().enumerate().take(64) {
            for &needle in recogniser.needles() {
                match words.iter_mut().find(|w| w.0 == needle) {
                    Some(word) => word.1 |= 1 << i,
                    None => words.push((needle, 1 << i)),
                }
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words.iter().map(|w| w.0))?;
        Ok(Self { words: automaton, asked: words.into_iter().map(|w| w.1).collect() })
    }

    /// The end of the first word at or after the beginning of `text`.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        self.words.find(text).map(|found| found.end())
    }

    /// The recognisers whose words a line holds, as bits.
    pub(crate) fn asked_by(&self, line: &[u8]) -> u64 {
        self.words.find_overlapping_iter(line).fold(0, |bits, found| bits | self.asked[found.pattern().as_usize()])
    }
}
