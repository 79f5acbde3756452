//! The page of PyTorch's memory viewer: HTML with the pickle in it as base64.

/// Shortest run of base64 that can be a snapshot.
const SHORTEST: usize = 64;

/// The bytes that the longest run of base64 in `page` stands for.
pub(super) fn payload(page: &[u8]) -> Option<Vec<u8>> {
    let run = page.split(|b| digit(*b).is_none() && *b != b'=').max_by_key(|run| run.len())?;
    let digits: Vec<u8> = run.iter().map_while(|b| digit(*b)).collect();
    if digits.len() < SHORTEST {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for four in digits.chunks(4) {
        let word = four.iter().enumerate().fold(0u32, |word, (i, d)| word | u32::from(*d) << (18 - 6 * i));
        bytes.extend_from_slice(&word.to_be_bytes()[1..four.len().max(1)]);
    }
    Some(bytes)
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::payload;

    #[test]
    fn the_longest_run_is_decoded() {
        let text = b"x".repeat(60);
        // "eHh4" is "xxx".
        let page = format!("<script>var a = \"abcd\"; const b = \"{}\"</script>", "eHh4".repeat(20));
        assert_eq!(payload(page.as_bytes()), Some(text));
        let page = format!("\"{}eHg=\"", "eHh4".repeat(20));
        assert_eq!(payload(page.as_bytes()), Some(b"x".repeat(62)));
        assert_eq!(payload(b"<html>nothing here</html>"), None);
    }
}
