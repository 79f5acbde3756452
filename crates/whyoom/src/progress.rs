//! A spinner on standard error while something takes time, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Streams;

/// How long between two pictures.
const TICK: Duration = Duration::from_millis(120);

/// Shows what is being done until dropped; leaves no trace on the screen.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(streams: &Streams<'_>) -> Self {
        if !streams.shows_progress {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
