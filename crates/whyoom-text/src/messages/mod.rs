//! Failures in words: OOM messages of every release and backend, and what looks like one.
