//! What a process can reserve on cards that people name.

use std::{fmt, str::FromStr};

const MIB: u64 = 1 << 20;

/// What CUDA's context and loaded kernels take beside the allocator, in bytes: the most of what OOM messages show
/// (0.1 GiB on a T4 to 0.73 GiB on an H200 with PyTorch 2.11), so that a verdict errs on the safe side.
const CONTEXT: u64 = 748 * MIB;

/// Cards and their total memory in hundredths of a GiB, as PyTorch's OOM messages print it on Linux ("total capacity").
const CARDS: [(&str, u64); 22] = [
    ("T4", 1475),
    ("P100", 1590),
    ("V100 16GB", 1577),
    ("V100 32GB", 3174),
    ("GTX 1080 Ti", 1091),
    ("RTX 2080 Ti", 1075),
    ("RTX 3060", 1176),
    ("RTX 3080", 978),
    ("RTX 3090", 2369),
    ("RTX 4070", 1172),
    ("RTX 4080", 1570),
    ("RTX 4090", 2364),
    ("RTX 5090", 3136),
    ("A10", 2206),
    ("L4", 2203),
    ("L40S", 4443),
    ("A6000", 4754),
    ("A100 40GB", 3939),
    ("A100 80GB", 7915),
    ("H100", 7910),
    ("H200", 13980),
    ("MI300X", 19198),
];

/// A card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    name: &'static str,
    centi_gib: u64,
}

impl Card {
    /// Bytes that the allocator may reserve on it when nothing else runs there.
    pub(crate) fn usable(self) -> u64 {
        self.centi_gib * (MIB << 10) / 100 - CONTEXT
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Letters and digits alone, in lower case, less the maker's names.
fn plain(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let is_maker =
        |w: &str| matches!(w, "nvidia" | "geforce" | "tesla" | "amd" | "instinct" | "sxm" | "pcie" | "rtx" | "gtx");
    let joined: String = words.filter(|w| !is_maker(w)).collect();
    joined.strip_prefix("rtx").or_else(|| joined.strip_prefix("gtx")).map(str::to_owned).unwrap_or(joined)
}

impl FromStr for Card {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let asked = plain(text);
        let card = |&(name, centi_gib): &(&'static str, u64)| Self { name, centi_gib };
        if let Some(found) = CARDS.iter().find(|(name, _)| plain(name) == asked) {
            return Ok(card(found));
        }
        let alike: Vec<&str> =
            CARDS.iter().map(|c| c.0).filter(|name| !asked.is_empty() && plain(name).starts_with(&asked)).collect();
        Err(match alike.as_slice() {
            [] => {
                let names: Vec<&str> = CARDS.iter().map(|c| c.0).collect();
                format!("this card is not in the table ({}); give its memory with --limit", names.join(", "))
            }
            some => format!("there are several: {}", some.join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_by_the_names_people_use() {
        for text in ["RTX 3090", "rtx3090", "3090", "NVIDIA GeForce RTX 3090"] {
            assert_eq!(text.parse::<Card>().map(|c| c.name), Ok("RTX 3090"), "{text}");
        }
        assert_eq!("a100-80gb".parse::<Card>().map(|c| c.name), Ok("A100 80GB"));
        assert!("A100".parse::<Card>().is_err_and(|e| e.contains("A100 40GB")), "two sizes");
        assert!("Voodoo 2".parse::<Card>().is_err_and(|e| e.contains("--limit")));
    }

    #[test]
    fn less_is_usable_than_is_printed_on_the_box() {
        for (name, centi_gib) in CARDS {
            let usable = Card { name, centi_gib }.usable();
            assert!(usable < centi_gib * (MIB << 10) / 100 && usable > 8 << 30, "{name}: {usable}");
        }
    }
}
