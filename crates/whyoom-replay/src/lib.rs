//! Drives the allocator model with a recorded trace: exact check and counterfactuals.
