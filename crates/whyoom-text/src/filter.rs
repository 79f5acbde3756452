//! One pass over whole buffers for the words of all recognisers.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::{Builder, DFA};
use aho_corasick::{Anchored, BuildError, MatchError, StartKind};

use crate::Recogniser;

/// Finds lines that hold a word of some recogniser.
#[derive(Debug)]
pub(crate) struct Filter {
    words: DFA,
    start: StateID,
    /// For each word, the recognisers that asked for it, as bits.
    asked: Vec<u64>,
}

/// A line that somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Where the line ends.
    pub end: usize,
    /// The recognisers that asked for it, as bits.
    pub asked: u64,
}

/// Why [`Filter::new`] cannot be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// Too many words.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Never: the automaton is built for searches of this kind.
    #[error(transparent)]
    Start(#[from] MatchError),
}

impl Filter {
    /// At most 64 recognisers; those beyond see no line.
    pub(crate) fn new(recognisers: &[Box<dyn Recogniser>]) -> Result<Self, FilterError> {
        let mut words: Vec<(&'static str, u64)> = Vec::new();
        for (i, recogniser) in recognisers.iter().enumerate().take(64) {
            for &needle in recogniser.needles() {
                match words.iter_mut().find(|w| w.0 == needle) {
                    Some(word) => word.1 |= 1 << i,
                    None => words.push((needle, 1 << i)),
                }
            }
        }
        let dfa = Builder::new()
            .ascii_case_insensitive(true)
            .prefilter(false)
            .start_kind(StartKind::Unanchored)
            .build(words.iter().map(|w| w.0))?;
        let start = dfa.start_state(Anchored::No)?;
        Ok(Self { words: dfa, start, asked: words.into_iter().map(|w| w.1).collect() })
    }

    /// The first line of a text that holds a word. No word holds a line ending, so that each line begins afresh.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Hit> {
        let mut state = self.start;
        for (i, &byte) in text.iter().enumerate() {
            state = self.words.next_state(Anchored::No, state, byte);
            if self.words.is_match(state) {
                let asked = self.asked_at(state);
                return Some(self.rest_of_line(text, i + 1, state, asked));
            }
        }
        None
    }

    /// The first line of a text, whoever asked for it.
    pub(crate) fn first_line(&self, text: &[u8]) -> Hit {
        self.rest_of_line(text, 0, self.start, 0)
    }

    fn rest_of_line(&self, text: &[u8], from: usize, mut state: StateID, mut asked: u64) -> Hit {
        for (i, &byte) in text.iter().enumerate().skip(from) {
            if matches!(byte, b'\n' | b'\r') {
                return Hit { end: i, asked };
            }
            state = self.words.next_state(Anchored::No, state, byte);
            if self.words.is_match(state) {
                asked |= self.asked_at(state);
            }
        }
        Hit { end: text.len(), asked }
    }

    fn asked_at(&self, state: StateID) -> u64 {
        (0..self.words.match_len(state))
            .fold(0, |bits, i| bits | self.asked[self.words.match_pattern(state, i).as_usize()])
    }
}
