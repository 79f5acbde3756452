//! Releases as lists and in words.

use whyoom_allocator::Release;

/// Every release line that is modelled, the oldest first.
pub(crate) fn modelled() -> Vec<Release> {
    let newest = Release::NEWEST;
    std::iter::once(Release::OLDEST).chain((0..=newest.minor).map(|minor| Release::new(newest.major, minor))).collect()
}

/// Ascending, each once.
pub(super) fn in_order(releases: &[Release]) -> Vec<Release> {
    let mut all = releases.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// `1.13, 2.4 to 2.9`: `some` of `asked`, in runs. Both ascend.
pub(super) fn in_words(some: &[Release], asked: &[Release]) -> String {
    let mut runs: Vec<(Release, Release)> = Vec::new();
    let mut last_at = None;
    for release in some {
        let at = asked.iter().position(|r| r == release);
        let follows = at.zip(last_at).is_some_and(|(at, last): (usize, usize)| at == last + 1);
        match runs.last_mut() {
            Some(run) if follows => run.1 = *release,
            _ => runs.push((*release, *release)),
        }
        last_at = at;
    }
    let word = |(first, last): &(Release, Release)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    runs.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_read_as_ranges() {
        let all = modelled();
        assert_eq!(in_words(&all, &all), "1.13 to 2.15");
        let some = [Release::OLDEST, Release::new(2, 4), Release::new(2, 5)];
        assert_eq!(in_words(&some, &all), "1.13, 2.4 to 2.5");
    }
}
