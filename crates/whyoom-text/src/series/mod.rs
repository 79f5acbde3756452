//! Series of figures: growth, plateaus, saw-tooth, jumps, correlation, time to a limit.
