//! The environment variables that carry the settings.

use crate::Release;

/// Which variables a release reads at start, on a CUDA build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variables {
    /// Read in this order; the first one that is set (also to nothing) wins.
    pub read: &'static [&'static str],
    /// Known to some part of the release and yet without effect on the device allocator.
    pub without_effect: &'static [&'static str],
    /// The release warns, wrongly, that `PYTORCH_CUDA_ALLOC_CONF` is deprecated.
    pub warns_of_deprecation: bool,
}

impl Variables {
    /// The variable to write settings into.
    pub fn preferred(&self) -> &'static str {
        self.read[0]
    }
}

/// The variables of `release`.
///
/// 2.9 knows `PYTORCH_ALLOC_CONF` in its core library (`AcceleratorAllocatorConfig::instance`, `c10/core/AllocatorConfig.cpp`)
/// while its CUDA allocator still reads `PYTORCH_CUDA_ALLOC_CONF` alone; from 2.10 both read all, the CUDA name first.
/// ROCm builds also read `PYTORCH_HIP_ALLOC_CONF`, after the CUDA name.
pub fn variables(release: Release) -> Variables {
    const CUDA: &str = "PYTORCH_CUDA_ALLOC_CONF";
    const ANY: &str = "PYTORCH_ALLOC_CONF";
    if release.at_least(2, 10) {
        Variables { read: &[CUDA, ANY], without_effect: &[], warns_of_deprecation: false }
    } else if release.at_least(2, 9) {
        Variables { read: &[CUDA], without_effect: &[ANY], warns_of_deprecation: true }
    } else {
        Variables { read: &[CUDA], without_effect: &[], warns_of_deprecation: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_name_works_from_2_10() {
        let (old, between, new) =
            (variables(Release::new(2, 8)), variables(Release::new(2, 9)), variables(Release::new(2, 10)));
        assert_eq!(old.read, ["PYTORCH_CUDA_ALLOC_CONF"]);
        assert_eq!((between.read, between.without_effect), (old.read, ["PYTORCH_ALLOC_CONF"].as_slice()));
        assert_eq!(new.read, ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]);
        assert_eq!(new.preferred(), "PYTORCH_CUDA_ALLOC_CONF");
    }
}
