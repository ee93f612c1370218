//! What clients are to do, from a file of JSON.

use serde::Deserialize;

use crate::core::call::Strategy;

/// What is invoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `GetLots`, the method that the paper measures.
    GetLots,
    /// `EnterLot` and `ExitLot` in turn: changes, each to be done once.
    Park,
}

/// A strategy by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// 0, or with `wait_s` 1.
    Primary,
    /// 2.
    Cached,
    /// 3: the list and the connections are made anew every 1.5 s.
    Open,
    /// 4: as 3, and made anew when the naming service says so.
    Watched,
    /// 6: as 4, and a server whose heartbeats stop is left.
    Heartbeat,
}

/// The whole plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Addresses of etcd.
    pub naming: String,
    /// How many clients.
    pub clients: i32,
    /// Invocations of each; fewer where it is ended before.
    pub invocations: i64,
    /// From a reply to the next invocation [s].
    pub gap_s: f64,
    /// What is invoked.
    pub method: Method,
    /// What a client does when its server is gone.
    pub strategy: Named,
    /// With `primary`: before it asks the naming service [s].
    #[serde(default)]
    pub wait_s: f64,
    /// A reply that takes longer is not waited for [s].
    pub patience_s: f64,
    /// An invocation that takes longer is given up [s].
    pub give_up_s: f64,
}

impl Plan {
    /// The strategy, as the state machine knows it.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        match self.strategy {
            Named::Primary => Strategy::Primary {
                wait_s: self.wait_s,
            },
            Named::Cached => Strategy::Cached,
            Named::Open | Named::Watched | Named::Heartbeat => Strategy::Open,
        }
    }
}
