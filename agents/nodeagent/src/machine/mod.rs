//! What a fault may take hold of: the data interface, the machine's cgroup, the role.

pub mod cgroup;
pub mod cgroup_place;
pub mod command;
pub mod disk;
pub mod environment;
pub mod fingerprint;
pub mod network;
pub mod processes;
pub mod role;

use std::sync::Arc;

use crate::config::Config;
use cgroup::Cgroups;
use network::{DataInterface, TokenBucket};
use role::Role;

/// Environment variable that marks the processes of one interference episode.
pub const FAULT_MARK: &str = "SPARECRAFT_FAULT";

/// This machine, as the faults see it. Where a part is missing, the text says why.
#[derive(Debug)]
pub struct Machine {
    pub config: Config,
    pub data: Result<DataInterface, String>,
    pub cgroups: Arc<Cgroups>,
    pub role: Role,
}

impl Machine {
    /// The bucket that the data interface has when no fault is active.
    pub fn nominal_bucket(&self) -> Option<TokenBucket> {
        let rate_mbps = self.config.nic_mbps?;
        Some(TokenBucket::for_rate((rate_mbps * 1e6).round() as u64))
    }

    /// The data interface, or the reason text.
    pub fn data(&self) -> Result<&DataInterface, String> {
        self.data.as_ref().map_err(Clone::clone)
    }
}
