//! The arbiter: the proxy in front of a tier (sPARE section 4).
//!
//! It clones each read to `r` servers that the [`policy`] chooses, passes the first good reply on,
//! and drains the losers off the client's path.
//!
//! | module | what |
//! |---|---|
//! | `config` | the file |
//! | `tier` | the state that all share; `traced` is its selector, `meter` what is measured |
//! | `collision_avoidance` | which servers are kept apart |
//! | `delayed` | when a hedge is due |
//! | `comparing`, `voting` | replicas' replies, held against each other |
//! | `memory`, `min_rate` | what clients make it hold, and how fast they have to be meanwhile |
//! | `contract` | the protocols and policies that there are |
//! | `listen`, `stream`, `splice` | where clients come in, what bytes travel on, two streams that are one |
//! | `health` | which servers are there |
//! | `http`, `mysql`, `resp` (Redis), `memcached`, `tcp` | the protocols; `kv` is what Redis and memcached share |
//! | `admin` | the API to watch and change it |

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod admin;
pub mod collision_avoidance;
pub mod comparing;
pub mod config;
pub mod conn;
pub mod contract;
pub mod counters;
mod delayed;
pub mod health;
pub mod http;
pub mod kv;
pub mod listen;
pub mod memcached;
pub mod memory;
pub mod meter;
pub mod metrics;
pub mod min_rate;
pub mod mysql;
pub mod mysql_auth;
pub mod parsers;
pub mod resp;
pub mod server;
mod splice;
pub mod stats;
pub mod stream;
pub mod tcp;
pub mod tier;
pub mod traced;
pub mod voting;

/// Every step under a lock is total: a panic while it was held leaves nothing half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
