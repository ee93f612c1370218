//! The native load worker: an open loop in Rust, by the contract of
//! `experiments/load/workers/README.md` or as a worker of a Locust master.
//!
//! Locust's own clients wait in Python for each answer, and are late themselves at some thousand
//! requests a second. Read `engine.rs` first (sending), then `conn.rs` (connections and answers),
//! then `block.rs` (threads and records).

pub mod account;
pub mod answer;
mod block;
pub mod clock;
mod conn;
pub mod contract;
mod control;
mod cpu;
mod engine;
pub mod locust;
pub mod operation;
pub mod outcome;
pub mod plan;
mod pool;
pub mod protocol;
pub mod record;
mod recorder;
pub mod refused;
mod signals;
mod tally;
pub mod target;
mod tls;
mod waiting;
