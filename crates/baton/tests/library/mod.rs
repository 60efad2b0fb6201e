//! The library as a program uses it, on stores that work and on stores that fail.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod approval;
mod audit;
mod breakers;
mod callers;
mod ending;
mod fences;
mod following;
mod forgetting;
mod history;
mod idling;
mod leading;
mod lost_replies;
mod manifest;
mod operators;
mod partition;
mod policies;
mod regions;
mod remembering;
mod repeated;
mod slots;
