//! The clients' plan, from a file of JSON.

use serde::Deserialize;

use crate::client::calls::Calls;
use crate::core::call::Strategy;
use crate::core::Server;

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
    /// 5: as 4, and a late call is sent to a second server too, where it changes nothing.
    Hedged,
    /// 6: as 4, and a server whose heartbeats stop is left.
    Heartbeat,
    /// 7: one connection, to the arbiter in front of the servers.
    Arbiter,
}

/// The whole plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Addresses of etcd.
    pub naming: String,
    /// Number of clients.
    pub clients: i32,
    /// Invocations of each client at most.
    pub invocations: i64,
    /// Time from a reply to the next invocation [s].
    pub gap_s: f64,
    /// The operation that is invoked.
    pub calls: Calls,
    /// The client's strategy for a server that is gone.
    pub strategy: Named,
    /// Wait of `primary` before it asks the naming service [s].
    #[serde(default)]
    pub wait_s: f64,
    /// The arbiter in front of the servers, where there is one.
    #[serde(default)]
    pub arbiter: Option<String>,
    /// A reply that takes longer is not waited for [s].
    pub patience_s: f64,
    /// An invocation that takes longer is given up [s].
    pub give_up_s: f64,
}

impl Plan {
    /// The strategy, as the state machine knows it.
    pub fn strategy(&self) -> Strategy {
        match self.strategy {
            Named::Primary => Strategy::Primary { wait_s: self.wait_s },
            // The arbiter is a list of one.
            Named::Cached | Named::Arbiter => Strategy::Cached,
            Named::Open | Named::Watched | Named::Hedged | Named::Heartbeat => Strategy::Open,
        }
    }

    /// The arbiter, where it is what clients ask.
    pub fn front(&self) -> Option<Server> {
        let address = self.arbiter.clone()?;
        (self.strategy == Named::Arbiter).then(|| Server {
            name: "arbiter".to_owned(),
            address,
            incarnation: 0,
        })
    }
}
