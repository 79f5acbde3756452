//! One pass over whole buffers for the words of all recognisers.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::{Builder, DFA};
use aho_corasick::{Anchored, BuildError, MatchError, StartKind};

use memchr::memchr2;

use crate::Recogniser;

/// Finds lines that hold a word of some recogniser.
#[derive(Debug)]
pub(crate) struct Filter {
    words: DFA,
    start: StateID,
    /// For each word, the recognisers that asked for it, as bits.
    asked: Vec<u64>,
}

/// Parts of a text that are gone through side by side.
const LANES: usize = 4;
/// Bytes that are looked at ahead: few where lines are known by their shapes, more where they are not.
const LEAST_AHEAD: usize = 1 << 10;
const MOST_AHEAD: usize = 1 << 15;

/// The words of a text, found ahead a part at a time.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The last bytes of words, and who asked for each.
    hits: Vec<(usize, u64)>,
    next: usize,
    /// Up to where they were looked for.
    to: usize,
    ahead: usize,
    lanes: [Vec<(usize, StateID)>; LANES],
}

impl Marks {
    /// Forgets a text for the next one.
    pub(crate) fn clear(&mut self) {
        self.hits.clear();
        (self.next, self.to) = (0, 0);
    }

    /// Looks on from `from`, the beginning of a line, unless it has been there.
    fn look(&mut self, filter: &Filter, text: &[u8], from: usize) {
        self.ahead = if from > self.to { LEAST_AHEAD } else { (self.ahead * 2).clamp(LEAST_AHEAD, MOST_AHEAD) };
        let from = self.to.max(from);
        let least = text.len().min(from + self.ahead);
        let end = memchr2(b'\n', b'\r', &text[least..]).map_or(text.len(), |n| least + n + 1);
        self.hits.clear();
        self.next = 0;
        filter.mark(&text[from..end], from, &mut self.lanes, &mut self.hits);
        self.to = end;
    }

    /// Who asked for the line between `from` and `to`. Lines are asked for in their order.
    pub(crate) fn asked(&mut self, filter: &Filter, text: &[u8], from: usize, to: usize) -> u64 {
        if to > self.to {
            self.look(filter, text, from);
        }
        let mut asked = 0;
        while let Some((at, bits)) = self.hits.get(self.next).filter(|(at, _)| *at < to) {
            asked |= if *at >= from { *bits } else { 0 };
            self.next += 1;
        }
        asked
    }

    /// The first place at `from` or behind it that somebody asked for.
    pub(crate) fn find(&mut self, filter: &Filter, text: &[u8], from: usize) -> Option<usize> {
        loop {
            while let Some((at, _)) = self.hits.get(self.next) {
                if *at >= from {
                    return Some(*at);
                }
                self.next += 1;
            }
            if self.to >= text.len() {
                return None;
            }
            self.look(filter, text, from);
        }
    }
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

    /// Adds the ends of all words in a text, with who asked for each. No word holds a line ending, so that each line
    /// begins afresh, and several parts of the text can be gone through side by side: one step hangs on the step
    /// before, and a processor has time for more.
    fn mark(&self, text: &[u8], base: usize, lanes: &mut [Vec<(usize, StateID)>; LANES], hits: &mut Vec<(usize, u64)>) {
        let mut bounds = [0; LANES + 1];
        for lane in 1..LANES {
            let from = (text.len() * lane / LANES).max(bounds[lane - 1]);
            bounds[lane] = memchr2(b'\n', b'\r', &text[from..]).map_or(text.len(), |n| from + n + 1);
        }
        bounds[LANES] = text.len();
        let parts: [&[u8]; LANES] = std::array::from_fn(|lane| &text[bounds[lane]..bounds[lane + 1]]);
        let shared = parts.iter().map(|part| part.len()).min().unwrap_or(0);
        let mut states = [self.start; LANES];
        let [a, b, c, d] = parts.map(|part| &part[..shared]);
        for (at, (((a, b), c), d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            for (lane, byte) in [*a, *b, *c, *d].into_iter().enumerate() {
                states[lane] = self.words.next_state(Anchored::No, states[lane], byte);
                if self.words.is_match(states[lane]) {
                    lanes[lane].push((at, states[lane]));
                }
            }
        }
        for lane in 0..LANES {
            let mut state = states[lane];
            for (at, &byte) in parts[lane].iter().enumerate().skip(shared) {
                state = self.words.next_state(Anchored::No, state, byte);
                if self.words.is_match(state) {
                    lanes[lane].push((at, state));
                }
            }
            let begin = base + bounds[lane];
            hits.extend(lanes[lane].drain(..).map(|(at, state)| (begin + at, self.asked_at(state))));
        }
    }

    fn asked_at(&self, state: StateID) -> u64 {
        (0..self.words.match_len(state))
            .fold(0, |bits, i| bits | self.asked[self.words.match_pattern(state, i).as_usize()])
    }
}
