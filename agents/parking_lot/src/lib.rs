//! Parking lots whose servers may die: the service, its naming and replication management, and the
//! client that measures fail-over as it feels it. `README.md` has the whole; begin with
//! `core/call.rs`.
//!
//! | module | what |
//! |---|---|
//! | `core` | what decides: a client's next step, who is suspected, what the manager orders |
//! | `etcd`, `naming` | the naming service: etcd's API, and what is kept there |
//! | `store`, `server` | state in MariaDB; the ten methods |
//! | `manager` | rounds over all servers |
//! | `client` | clients that invoke in a closed loop, and their records |
//! | `audit` | those records against what was done |

pub mod audit;
pub mod client;
pub mod core;
pub mod etcd;
pub mod manager;
pub mod naming;
pub mod server;
pub mod store;

/// The messages of `proto/`.
#[allow(missing_docs, clippy::all)]
pub mod api {
    tonic::include_proto!("lots");
    /// The messages of etcd.
    pub mod etcd {
        tonic::include_proto!("etcdserverpb");
    }
}

/// The kernel's monotonic clock [s]: one clock for all processes of a host, and Python's
/// `time.monotonic()`. It can always be read.
pub fn now_s() -> f64 {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(0.0, |time| time.tv_sec() as f64 + 1e-9 * time.tv_nsec() as f64)
}
