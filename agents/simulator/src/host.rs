//! The cores of a host for which all servers compete, if they are machines of one host.
//!
//! Each runnable job gets a core if there are enough, otherwise all get the same share of one, as
//! by a fair scheduler: `pace`. `host_sharing` maintains it.

use crate::scenario;

/// Demands on the host's cores.
#[derive(Debug)]
pub(crate) struct Host {
    cores: f64,
    busy_cores: f64,
    /// Per server, as of its last change.
    pub(crate) demand_cores: Vec<f64>,
}

impl Host {
    pub(crate) fn new(host: scenario::Host, servers: usize) -> Self {
        Self { cores: host.cores, busy_cores: host.busy_cores, demand_cores: vec![0.0; servers] }
    }

    /// Share of a core for each that wants one.
    pub(crate) fn pace(&self) -> f64 {
        let demand_cores = self.busy_cores + self.demand_cores.iter().sum::<f64>();
        (self.cores / demand_cores).min(1.0)
    }
}
