//! The parts of a machine that faults act on: the data interface, the machine's cgroup, the role.

pub mod calls;
pub mod cgroup;
pub mod cgroup_place;
pub mod closed;
pub mod command;
pub mod confine;
pub mod disk;
pub mod environment;
pub mod fingerprint;
pub mod guard;
pub mod memory;
pub mod network;
pub mod processes;
pub mod role;
pub mod store;
mod system_calls;
pub mod tap;
#[cfg(test)]
mod unified_tests;
pub mod workers;

use std::sync::Arc;

use anyhow::Result;

use crate::config::Config;
use cgroup::Cgroups;
use cgroup_place::Controller;
use network::{DataInterface, TokenBucket};
use role::Role;
use workers::Workers;

/// Environment variable that marks the processes of one interference episode.
pub const FAULT_MARK: &str = "SPARECRAFT_FAULT";

/// This machine, as the faults see it. A missing part has its reason as text.
#[derive(Debug)]
pub struct Machine {
    pub config: Config,
    pub data: Result<DataInterface, String>,
    pub cgroups: Arc<Cgroups>,
    pub role: Role,
    pub workers: Workers,
}

impl Machine {
    /// The bucket that the data interface has when no fault is active.
    pub fn nominal_bucket(&self) -> Result<Option<TokenBucket>> {
        let rate_of = |rate_mbps: f64| self.data()?.bucket((rate_mbps * 1e6).round() as u64);
        self.config.nic_mbps.map(rate_of).transpose()
    }

    /// The data interface.
    pub fn data(&self) -> Result<&DataInterface, Missing> {
        available(&self.data)
    }

    /// The cgroup that limits CPU time.
    pub fn cpu(&self) -> Result<&Controller, Missing> {
        available(&self.cgroups.cpu)
    }

    /// The cgroup that throttles the disk.
    pub fn disk(&self) -> Result<&Controller, Missing> {
        available(&self.cgroups.disk)
    }
}

/// Reason for a missing part of this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

fn available<T>(part: &Result<T, String>) -> Result<&T, Missing> {
    part.as_ref().map_err(|reason| Missing(reason.clone()))
}
