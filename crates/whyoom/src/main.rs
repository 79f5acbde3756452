//! The binary: `main` and nothing else.

fn main() {}
