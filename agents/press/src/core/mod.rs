//! The protocol as a state machine: what happens goes in, what is to be done comes out. It knows no
//! clock, no socket and no disk, so that a test can be all three of them (`tests/simulation.rs`).
//!
//! | module | what |
//! |---|---|
//! | `node` | one node: requests, cache changes, links |
//! | `cache` | pages in memory, least recently used out first, by bytes |
//! | `directory` | what the others have in memory |
//! | `link` | the window of a kept connection |
//! | `membership` | whom the node works with: a cluster formed once, or a monitored one |
//! | `monitor` | heartbeats around the ring, the master, its queries |
//! | `message` | what nodes say to each other |

pub mod cache;
pub mod directory;
pub mod link;
pub mod members;
pub mod membership;
pub mod message;
pub mod monitor;
pub mod node;
