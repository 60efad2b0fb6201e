//! The laboratory: every algorithm under the same faults, from a seed.
