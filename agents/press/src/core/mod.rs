//! The protocol as a state machine: events are its input, actions its output. It uses no clock,
//! socket or disk, so a test can replace all three of them (`tests/simulation.rs`).
//!
//! | module | content |
//! |---|---|
//! | `node` | one node: requests, cache changes, links |
//! | `cache` | pages in memory, least recently used out first, by bytes |
//! | `directory` | the pages in the other nodes' memories |
//! | `link` | the window of a kept connection |
//! | `membership` | the nodes that work together: a cluster formed once, or a monitored one |
//! | `monitor` | heartbeats around the ring, the master, its queries |
//! | `message` | messages between nodes |

pub mod cache;
pub mod directory;
pub mod link;
pub mod members;
pub mod membership;
pub mod message;
pub mod monitor;
pub mod node;
