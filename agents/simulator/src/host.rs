//! The host's own cores, for which all servers compete, where they are machines of one host.
//!
//! Who wants to run gets a core if there are enough, else all get the same share of one, as a fair
//! scheduler gives it: `pace`. `host_sharing` keeps it up.

use crate::scenario;

/// Who wants how much of it.
#[derive(Debug)]
pub(crate) struct Host {
    cores: f64,
    busy_cores: f64,
    /// Per server, as of its last change.
    pub(crate) wanted: Vec<f64>,
}

impl Host {
    pub(crate) fn new(host: scenario::Host, servers: usize) -> Self {
        Self { cores: host.cores, busy_cores: host.busy_cores, wanted: vec![0.0; servers] }
    }

    /// Share of a core that each gets who wants one.
    pub(crate) fn pace(&self) -> f64 {
        let wanted = self.busy_cores + self.wanted.iter().sum::<f64>();
        (self.cores / wanted).min(1.0)
    }
}
