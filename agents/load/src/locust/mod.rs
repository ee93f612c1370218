//! A worker of a stock Locust master: its page, its command line and its CSV work as ever.
//!
//! ```text
//! loadworker                                     Locust's master
//! client_ready  again each second until           ack  with this worker's number
//! heartbeat     each second                       heartbeat
//! spawning, spawning_complete                     spawn  begins the block, with the first of them
//! stats         each 3 s, and at the end
//! histogram     at the block's end: all latencies as an HdrHistogram
//! client_stopped, client_ready                    stop   gives up what is under way
//! exception, quit                                 quit   the same, and the worker ends
//! ```
//!
//! The plan decides what is sent, whatever the number of users. Of several workers with one plan
//! each sends its share; the master reports their number (`--expect-workers`).

mod message;
mod session;
mod zmtp;

pub use session::{hostname, work, NoMaster, Options};
