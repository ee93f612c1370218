//! `[health_check]`: servers are asked whether they are well, each `interval_ms`.

use std::time::Duration;

use serde::Deserialize;
use wire::arbiter::Protocol;

use super::checks::{refuse, Impossible};

/// See the module.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// HTTP: what is asked for with GET; without it a connection that is taken is enough.
    pub path: Option<String>,
    /// Least status of a server that is well.
    #[serde(default = "default_status_min")]
    pub status_min: u16,
    /// Greatest.
    #[serde(default = "default_status_max")]
    pub status_max: u16,
    /// From one check of a server to the next.
    #[serde(default = "default_interval_ms")]
    pub interval_ms: u64,
    /// For one check; no longer than from one to the next.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Good checks in a row that bring a dead server in again.
    #[serde(default = "default_rise")]
    pub rise: u32,
    /// Bad ones in a row after which a server is dead.
    #[serde(default = "default_fall")]
    pub fall: u32,
}

fn default_status_min() -> u16 {
    200
}

fn default_status_max() -> u16 {
    399
}

fn default_interval_ms() -> u64 {
    2_000
}

fn default_timeout_ms() -> u64 {
    1_000
}

fn default_rise() -> u32 {
    2
}

fn default_fall() -> u32 {
    3
}

impl HealthCheck {
    /// From one check of a server to the next.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    /// For one check.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Whether it can work with this protocol.
    pub(super) fn validate(&self, protocol: Protocol) -> Result<(), Impossible> {
        if !matches!(protocol, Protocol::Http | Protocol::Tcp) {
            return refuse(
                "health_check",
                "one only with http and tcp",
                "another protocol",
            );
        }
        let is_target = |path: &String| {
            path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(path) = self.path.as_ref().filter(|path| !is_target(path)) {
            let expected = "a path that begins with / and has no space";
            return refuse("health_check.path", expected, format!("{path:?}"));
        }
        if self.path.is_some() && protocol == Protocol::Tcp {
            return refuse("health_check.path", "none with tcp", "one");
        }
        for (key, value, least, most) in [
            ("interval_ms", self.interval_ms, 10, 3_600_000),
            ("timeout_ms", self.timeout_ms, 1, self.interval_ms),
            ("status_min", self.status_min.into(), 200, 599),
            (
                "status_max",
                self.status_max.into(),
                self.status_min.into(),
                599,
            ),
            ("rise", self.rise.into(), 1, 100),
            ("fall", self.fall.into(), 1, 100),
        ] {
            if !(least..=most).contains(&value) {
                let key = format!("health_check.{key}");
                return refuse(key, format!("{least} to {most}"), value);
            }
        }
        Ok(())
    }
}
