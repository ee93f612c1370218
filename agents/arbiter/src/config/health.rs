//! `[health_check]` (TCP): each `interval_ms` a connection is made to every living server; a server
//! that does not accept it fails the check.

use std::time::Duration;

use policy::impossible::in_range;
use policy::Impossible;
use serde::Deserialize;
use wire::arbiter::Protocol;

use super::checks::refuse;

/// Health check of servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthCheck {
    /// Time between two checks of a server.
    pub interval_ms: u64,
    /// Time-out of one check; at most `interval_ms`.
    pub timeout_ms: u64,
    /// Successful checks in a row after which a dead server is used again.
    pub rise: u32,
    /// Failed checks in a row after which a server is dead.
    pub fall: u32,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self { interval_ms: 2_000, timeout_ms: 1_000, rise: 2, fall: 3 }
    }
}

impl HealthCheck {
    /// Time between two checks of a server.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// Time-out of one check.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Refuses impossible values, and any protocol but TCP.
    pub(super) fn validate(&self, protocol: Protocol) -> Result<(), Impossible> {
        if protocol != Protocol::Tcp {
            return refuse("health_check", "one only with tcp", "another protocol");
        }
        for (key, value, least, most) in [
            ("interval_ms", self.interval_ms, 10, 3_600_000),
            ("timeout_ms", self.timeout_ms, 1, self.interval_ms),
            ("rise", self.rise.into(), 1, 100),
            ("fall", self.fall.into(), 1, 100),
        ] {
            in_range(format!("health_check.{key}"), value, least..=most, "")?;
        }
        Ok(())
    }
}
