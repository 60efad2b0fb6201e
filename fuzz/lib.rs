//! The targets are tests, in `tests/`; see `scripts/fuzz --help`.
