//! The arbiter: the proxy in front of a tier (sPARE section 4).
//!
//! It clones each read to `r` servers that the [`policy`] chooses, passes the first good reply on,
//! and drains the losers off the client's path. `config` is the file, `tier` the state that all
//! share, `traced` its selector, `siblings` who must be kept apart, `delayed` when a hedge is due,
//! `meter` what is measured, `comparing` whether replicas' replies are held against each other, `memory` what clients make it hold, `pace` how fast they have to be, `contract` what there is to choose
//! from. `listen` is where clients come in, `stream` what bytes travel on, `tls` how the two ends
//! prove themselves, `joined` two streams that are one, `names` what host names mean, `health` who
//! is there, `awake` whether threads sleep in between. The protocols are `http` (`http2`: clients of that version), `mysql`, `resp` (Redis),
//! `memcached` and `tcp` (`kv` is what Redis and memcached share); `admin` is the API to watch and
//! change it.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod admin;
pub mod comparing;
pub mod config;
pub mod conn;
pub mod contract;
pub mod counters;
mod delayed;
pub mod health;
pub mod http;
mod joined;
pub mod kv;
pub mod listen;
pub mod memcached;
pub mod memory;
pub mod meter;
pub mod metrics;
pub mod mysql;
pub mod names;
pub mod pace;
pub mod parsers;
pub mod resp;
pub mod server;
pub mod siblings;
pub mod stats;
pub mod stream;
pub mod tcp;
pub mod tier;
pub mod tls;
pub mod traced;

/// Every step under a lock is total: a panic while it was held leaves nothing half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
