//! Runs a machine of `baton-peer` over a real network.
