//! The arbiter: the proxy in front of a tier (sPARE section 4).
//!
//! It clones each read to `r` servers that the [`policy`] chooses, passes the first good reply on,
//! and drains the losers off the client's path.
//!
//! | module | content |
//! |---|---|
//! | `config` | the configuration file |
//! | `tier` | the shared state; `traced` is its selector, `meter` its measurements |
//! | `claims`, `roles` | the primary, by what the servers say when they are asked |
//! | `collision_avoidance` | different servers for sibling replicas |
//! | `delayed` | the delay of hedges |
//! | `comparing`, `voting` | the comparison of replies |
//! | `memory`, `min_rate` | memory held for clients, and their minimum rate meanwhile |
//! | `contract` | the available protocols and policies |
//! | `listen`, `stream`, `splice` | listeners, streams, two streams joined |
//! | `health` | probes and health checks of servers |
//! | `http`, `mysql`, `resp` (Redis), `memcached`, `tcp` | the protocols; `kv` is shared by Redis and memcached |
//! | `admin` | the API to watch and change it |

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod admin;
pub mod claims;
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
mod roles;
pub mod server;
mod splice;
pub mod stats;
pub mod stream;
pub mod tcp;
pub mod tier;
pub mod traced;
pub mod voting;

/// Locks a mutex, also after a panic: every step under a lock is total, so nothing is left half
/// written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
