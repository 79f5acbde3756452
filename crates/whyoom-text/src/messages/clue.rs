//! Words that bear on a failure without being a message: what a traceback, a comment or a log says the program does.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::Serialize;

use crate::{Fact, Found, Line, Recogniser};

/// What the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// CUDA graphs, by themselves or through `torch.compile`: they keep pools of their own.
    CudaGraphs,
    /// A convolution, whose library may ask for a workspace.
    Convolution,
    /// The optimizer's step, whose state is made at its first call.
    OptimizerStep,
    /// Tensors shared with other processes.
    Sharing,
    /// `PYTORCH_MPS_HIGH_WATERMARK_RATIO` is set, rightly or not.
    MpsWatermark,
    /// Shapes of the inputs.
    Shapes,
    /// How many parameters the model has.
    Parameters,
    /// Gradient checkpointing asked for in a model that is in evaluation mode.
    CheckpointInEval,
    /// The allocator gave back what it had cached and asked again.
    Retries,
    /// Python's collector is called.
    Collecting,
    /// Memory of the host being pinned.
    Pinning,
    /// A checkpoint being made.
    Saving,
    /// `RuntimeError` or the OOM itself is caught, and the program goes on.
    Caught,
}

/// A sign of what the program does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Clue {
    /// What it does.
    pub doing: Doing,
    /// The words, cut at 200 characters.
    pub text: String,
    /// The number in them, where that is what they say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

/// A clue, and the words of it: the group `words` if it has one, else all that matched.
const ROWS: [(Doing, &str); 14] = [
    (Doing::CudaGraphs, r"reduce-overhead|cuda_?graph|torch\.cuda\.graph\b|CUDA graph|mode=.max-autotune."),
    (
        Doing::Convolution,
        r"\bF\.conv(?:_transpose)?[123]d\b|functional\.conv|\b_conv_forward\b|(?:cudnn|miopen)_convolution|convolution_backward",
    ),
    (Doing::OptimizerStep, r"\boptim(?:izer)?\w*\.step\(|torch/optim/\w+\.py|_(?:multi|single)_tensor_\w+"),
    (Doing::Sharing, r"custom_all_reduce|cudaIpc\w+|reductions\.py|_share_cuda_|CUDA IPC"),
    (
        Doing::MpsWatermark,
        r"(?:^|[^e] |[^se ])(?<words>PYTORCH_MPS_HIGH_WATERMARK_RATIO['\x22]?\]?\s*[=:]\s*['\x22]?[0-9.]+)",
    ),
    (Doing::Shapes, r"\b(?:input_?)?shape\s*[=:]\s*(?:torch\.Size\()?(?<words>[\[(][0-9, ]+[\])])"),
    (
        Doing::Parameters,
        r"\b(?:[a-z]+[ _])?param(?:eter)?s\b\s*[=:]\s*(?<words>[0-9][0-9_,]*(?:\.[0-9]+)?\s?[KMBG]?\b)",
    ),
    (Doing::CheckpointInEval, r"gradient_checkpointing\w*\s*=\s*True.*\.eval\(\)|\.eval\(\).*gradient_checkpointing"),
    (
        Doing::Saving,
        r"Failed to clone\(\) tensor|\bstate_dict\(\)|torch\.save\(|\bsave_checkpoint\b|\bsave_pretrained\b|_save_checkpoint",
    ),
    (Doing::Pinning, r"\bpin_memory\b|cudaHostAlloc|cudaHostRegister|_pin_memory_loop"),
    (Doing::Retries, r"num_alloc_retries\D{1,4}[1-9]|[1-9][0-9]* (?:pytorch )?allocator cache flushes"),
    (Doing::Collecting, r"\bgc\.collect\b"),
    (Doing::Caught, r"^\s*except (?:\w+\.)*(?:RuntimeError|OutOfMemoryError|Exception)\b"),
    (
        Doing::Caught,
        r"(?i)\b(?:skipping (?:this )?batch|retrying)\b.*\b(?:oom|out of memory)\b|\b(?:oom|out of memory)\b.*\b(?:skipping|retrying)\b",
    ),
];

const NEEDLES: [&str; 33] = [
    "reduce-overhead",
    "cudagraph",
    "cuda_graph",
    "cuda.graph",
    "cuda graph",
    "max-autotune",
    "f.conv",
    "functional.conv",
    "conv_forward",
    "_convolution",
    "convolution_backward",
    ".step(",
    "torch/optim/",
    "_tensor_",
    "custom_all_reduce",
    "cudaipc",
    "reductions.py",
    "watermark_ratio",
    "shape=",
    "params",
    "parameters",
    "gradient_checkpointing",
    "except ",
    "skipping",
    "pin_memory",
    "num_alloc_retries",
    "cache flushes",
    "gc.collect",
    "cudahost",
    "state_dict(",
    "torch.save(",
    "save_checkpoint",
    "save_pretrained",
];

/// Clues of one kind that are kept.
const MOST: usize = 64;
/// Lines after one clue in which another of its kind says nothing new.
const NEAR: u64 = 30;

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(ROWS.iter().map(|row| row.1)).unwrap_or_else(|e| unreachable!("constant patterns: {e}"))
});
static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    ROWS.iter().map(|row| Regex::new(row.1).unwrap_or_else(|e| unreachable!("a constant pattern: {e}"))).collect()
});

/// Finds clues. Lines stay those of the other recognisers.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// Of each row: how many were kept, the line of the last, its words.
    kept: [(usize, u64, String); ROWS.len()],
}

impl Recogniser for Clues {
    fn needles(&self) -> &'static [&'static str] {
        &NEEDLES
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        if self.kept.iter().all(|(count, ..)| *count >= MOST) {
            return false;
        }
        // The end of a very long line is no traceback's.
        let text = crate::steps::cut(line.text, 2000);
        for row in &SET.matches(text) {
            let (count, last, words) = &mut self.kept[row];
            let Some(caught) = EACH[row].captures(text).filter(|_| *count < MOST) else { continue };
            let Some(span) = caught.name("words").or_else(|| caught.get(0)) else { continue };
            if *count > 0 && line.place.line - *last < NEAR && words == span.as_str() {
                continue;
            }
            *count += 1;
            *last = line.place.line;
            span.as_str().clone_into(words);
            let doing = ROWS[row].0;
            let number = (doing == Doing::Parameters).then(|| parameters(span.as_str())).flatten();
            let text = if caught.name("words").is_some() { span.as_str() } else { text.trim() };
            let clue = Clue { doing, text: text.chars().take(200).collect(), number };
            found.add(line.place, line.rank, Fact::Clue(clue));
        }
        false
    }

    fn end(&mut self, _: &mut Found) {}
}

/// `138,357,544`, `7B`, `125.4 M`.
fn parameters(words: &str) -> Option<u64> {
    let digits: String = words.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let times = match words.chars().last() {
        Some('K') => 1e3,
        Some('M') => 1e6,
        Some('B' | 'G') => 1e9,
        _ => 1.0,
    };
    let number: f64 = digits.parse().ok()?;
    // A model of less is none, and one of more was not seen yet.
    Some((number * times).round()).filter(|n| (1e3..1e14).contains(n)).map(|n| n as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, read};

    fn clues(text: &str) -> Vec<(Doing, String, Option<u64>)> {
        let read = read(text.as_bytes(), &Limits::default()).expect("bytes in memory");
        let clue = |fact| if let Fact::Clue(c) = fact { Some((c.doing, c.text, c.number)) } else { None };
        read.readings.into_iter().filter_map(|reading| clue(reading.fact)).collect()
    }

    #[test]
    fn what_the_program_does() {
        let one = |text: &str| clues(text).into_iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(one("# model uses torch.compile(mode=\"reduce-overhead\")"), [Doing::CudaGraphs]);
        assert_eq!(one("    return F.conv2d(input, weight, bias, self.stride)"), [Doing::Convolution]);
        assert_eq!(one("    optimizer.step()"), [Doing::OptimizerStep]);
        assert_eq!(one("unet.eval()  # gradient_checkpointing=True"), [Doing::CheckpointInEval]);
        assert!(one("  (conv): Conv2d(3, 64, kernel_size=3)").is_empty());
        assert!(one("scheduler.step(epoch)").is_empty());
    }

    #[test]
    fn the_hint_of_a_message_sets_nothing() {
        let hint = "Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit";
        assert_eq!(clues(hint), []);
        for set in ["f(docs, PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0)", "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.7"] {
            assert_eq!(clues(set).first().map(|c| c.0), Some(Doing::MpsWatermark), "{set}");
        }
    }

    #[test]
    fn numbers_of_parameters() {
        assert_eq!(clues("params=138357544 optimizer=Adam").first().and_then(|c| c.2), Some(138_357_544));
        assert_eq!(clues("Trainable params: 7.1B").first().and_then(|c| c.2), Some(7_100_000_000));
        assert_eq!(clues("params: 12").first().and_then(|c| c.2), None);
    }

    #[test]
    fn shapes_that_change_are_told_apart_and_bounded() {
        let lines: Vec<String> = (0..5000).map(|i| format!("it={i} shape=(16,1,80,{})\n", 800 + i)).collect();
        let log = lines.concat();
        let found = clues(&log);
        assert_eq!(found.len(), MOST);
        assert_eq!(clues("shape=(1,2)\nshape=(1,2)\n").len(), 1);
    }
}
