//! The node agent in real containers: every fault is injected, seen, undone and leaves nothing.
//!
//! Needs Docker and the image `sparecraft/base:bookworm`; without them each test says so and is
//! skipped.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod support;

mod api;
mod calls;
mod client;
mod control;
mod disk_store;
mod dose;
mod faults;
mod held;
mod interference;
mod memory;
mod metrics;
mod network;
mod safety;
