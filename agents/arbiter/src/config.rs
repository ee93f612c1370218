//! The configuration file (TOML), validated: unknown keys and impossible values are refused with
//! the place, the expected and the given value.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use policy::{Impossible, HEDGE_PERCENTILE, LOOK_AHEAD, OBSERVATION_AGE_MS};
use serde::Deserialize;
use thiserror::Error;
use wire::arbiter::{Compare, Guardrails, Policy, Protocol, Server};

use crate::mysql_auth::Method;

mod checks;
pub mod health;
#[cfg(test)]
mod tests;

pub use checks::{may_compare, SERVERS_MAX};
use health::HealthCheck;

/// Configuration of one arbiter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The protocol spoken to clients and servers.
    pub protocol: Protocol,
    /// The address for clients.
    pub listen: SocketAddr,
    /// The address of the admin API: loopback or the control network.
    pub admin: SocketAddr,
    /// The tier served.
    pub tier: String,
    /// How servers are chosen.
    #[serde(default)]
    pub policy: Policy,
    /// Replicas of each read.
    pub replicas: usize,
    /// Tokens per server (with tad and tad-paper).
    pub tokens: usize,
    /// Servers looked at beyond the r that are needed, n of sPARE 4.1 (with tad and tad-paper).
    #[serde(default = "default_look_ahead")]
    pub look_ahead: usize,
    /// Limit of one attempt to reach a server.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// Limit of one request.
    #[serde(default = "default_request_timeout_ms")]
    pub request_timeout_ms: u64,
    /// TCP: silence on both sides after which a connection is closed.
    #[serde(default = "default_idle_timeout_ms")]
    pub idle_timeout_ms: u64,
    /// Age from which an observed latency no longer counts and the server is tried again.
    #[serde(default = "default_observation_age_ms")]
    pub observation_age_ms: u64,
    /// Bounds on every policy.
    #[serde(default)]
    pub guardrails: Guardrails,
    /// Comparison of the replicas' replies.
    #[serde(default)]
    pub compare: Compare,
    /// Requests (MySQL: connections and commands) that may wait for tokens; further ones are refused
    /// at once.
    #[serde(default = "default_waiting_max")]
    pub waiting_max: usize,
    /// Memory that all clients together may make the arbiter hold [MiB]: see `memory`.
    #[serde(default = "default_held_mib_max")]
    pub held_mib_max: usize,
    /// Minimum rate of a client [KiB/s]: in sending while a server waits for it, and in both
    /// directions while memory is scarce. See `min_rate`.
    #[serde(default = "default_client_kib_per_s_min")]
    pub client_kib_per_s_min: u64,
    /// HTTP: maximum time for which a request holds its token while its body is streamed.
    #[serde(default = "default_streaming_ms_max")]
    pub streaming_ms_max: u64,
    /// HTTP: path prefixes whose reads go to one server and are streamed without a time limit.
    #[serde(default)]
    pub streamed_paths: Vec<String>,
    /// Redis: clients that may have a dedicated connection at a time.
    #[serde(default = "default_pinned_max")]
    pub pinned_max: usize,
    /// Redis: dedicated connections for one client address; by default a quarter of all.
    pub pinned_per_address_max: Option<usize>,
    /// Redis: time after which a dedicated connection is idle: no traffic, no reply due, no open
    /// transaction, no subscription.
    #[serde(default = "default_pinned_idle_ms")]
    pub pinned_idle_ms: u64,
    /// The percentile of latencies after which `hedge` sends another replica.
    #[serde(default = "default_hedge_percentile")]
    pub hedge_percentile: f64,
    /// Seed of the random draws, for reproducible runs.
    pub seed: Option<u64>,
    /// Threads that serve clients, each with its own listener and server connections.
    #[serde(default = "default_threads")]
    pub threads: usize,
    /// Cores of one server, V: concurrent requests share them (see `meter`).
    #[serde(default = "default_server_cores")]
    pub server_cores: f64,
    /// HTTP: stamps each replica of a read. MySQL: keeps sessions whose statements carry the stamps
    /// of sibling replicas on different servers; servers are then chosen at the first statement.
    #[serde(default)]
    pub avoid_collisions: bool,
    /// Trace of every decision, for replay in the simulator.
    pub trace: Option<PathBuf>,
    /// Decisions after which the trace ends.
    #[serde(default = "default_trace_lines_max")]
    pub trace_lines_max: u64,
    /// TCP: health check of the servers.
    pub health_check: Option<HealthCheck>,
    /// TLS of the admin API.
    pub admin_tls: Option<mtls::Files>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Only with `protocol = "redis"`.
    pub redis: Option<Redis>,
    /// Only with `protocol = "memcached"`.
    pub memcached: Option<Memcached>,
    /// Only with `protocol = "mysql"`.
    pub mysql: Option<Mysql>,
}

/// Settings of Redis alone.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    /// Send a client's reads to servers that are known to have its writes.
    #[serde(default)]
    pub read_your_writes: bool,
    /// The server for writes.
    #[serde(default)]
    pub primary: Primary,
}

/// Settings of memcached alone.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memcached {
    /// Treatment of a read that finds nothing.
    #[serde(default)]
    pub miss: Miss,
}

/// Treatment of a miss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Miss {
    /// Pass the miss on.
    #[default]
    Pass,
    /// Ask another server as well, because one that was emptied, or lost the key to a `cas`, does
    /// not know the item.
    Ask,
}

/// The one account that clients use towards the arbiter and the arbiter towards the servers.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mysql {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Database that a probe uses.
    pub database: String,
    /// Preferred method of a client's password proof; a client may use the other one.
    #[serde(default)]
    pub auth_plugin: Method,
    /// The server for writes; without one, a tier of several servers refuses writes.
    pub primary: Option<Primary>,
    /// The servers that answer a connection's reads after it has written.
    #[serde(default)]
    pub reads_after_write: ReadsAfterWrite,
    /// Largest command of a client, and largest packet that is announced to servers.
    #[serde(default = "default_packet_bytes_max")]
    pub packet_bytes_max: usize,
}

/// The server that is written to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Primary {
    /// The first of the file.
    #[default]
    First,
    /// The one that says that it is the primary (MySQL: whose `read_only` is off).
    Detected,
}

/// The servers that answer a connection's reads after it has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadsAfterWrite {
    /// The primary, so that it reads its own writes.
    #[default]
    Primary,
    /// The same servers as before, even if they do not have the write yet.
    Replicas,
}

impl Mysql {
    /// The servers that answer a connection's reads after it has written; none without a primary.
    pub fn reads_after_write(&self) -> Option<ReadsAfterWrite> {
        self.primary.map(|_| self.reads_after_write)
    }
}

impl std::fmt::Debug for Mysql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mysql").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Makes functions of constants, because serde takes no values as defaults.
macro_rules! defaults {
    ($($name:ident: $kind:ty = $value:expr;)+) => {
        $(fn $name() -> $kind { $value })+
    };
}

defaults! {
    default_trace_lines_max: u64 = 1_000_000;
    default_server_cores: f64 = 1.0;
    // MariaDB's own default.
    default_packet_bytes_max: usize = 16 << 20;
    default_connect_timeout_ms: u64 = 1_000;
    default_request_timeout_ms: u64 = 6_000;
    // An hour.
    default_idle_timeout_ms: u64 = 3_600_000;
    default_observation_age_ms: u64 = OBSERVATION_AGE_MS.default as u64;
    default_look_ahead: usize = LOOK_AHEAD.default as usize;
    default_waiting_max: usize = 10_000;
    default_held_mib_max: usize = 256;
    default_client_kib_per_s_min: u64 = 64;
    default_streaming_ms_max: u64 = 60_000;
    default_pinned_max: usize = 1_000;
    default_pinned_idle_ms: u64 = 300_000;
    default_hedge_percentile: f64 = HEDGE_PERCENTILE.default;
    default_threads: usize = 1;
}

/// Why a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot read the configuration: {source}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, a wrong type (the text has line and column).
    #[error("{path}: {message}")]
    Malformed {
        /// Path of the file.
        path: String,
        /// The TOML reader's message.
        message: String,
    },
    /// A value that cannot work.
    #[error("{path}: {why}")]
    Impossible {
        /// Path of the file.
        path: String,
        /// The key, the valid values and the value found.
        why: Impossible,
    },
}

impl Config {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// [`ConfigError`] says the file, the key, what was expected and what was got.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Validates a text; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::Malformed {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        config.validate().map_err(|why| ConfigError::Impossible { path: path.to_owned(), why })?;
        Ok(config)
    }

    /// TLS of the admin API, if it is configured.
    ///
    /// # Errors
    /// Where the files cannot be used.
    pub fn admin_acceptor(&self) -> Result<Option<mtls::TlsAcceptor>, mtls::BadFiles> {
        let files = self.admin_tls.as_ref();
        files.map(|files| files.acceptor("admin_tls")).transpose()
    }

    /// Limit of one attempt to reach a server.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// Limit of a streamed body.
    pub fn streaming_max(&self) -> Duration {
        Duration::from_millis(self.streaming_ms_max)
    }

    /// Dedicated connections for the Redis clients of one address.
    pub fn pinned_per_address_max(&self) -> usize {
        let usual = self.pinned_max.div_ceil(4);
        self.pinned_per_address_max.unwrap_or(usual)
    }

    /// Idle time of a dedicated connection.
    pub fn pinned_idle(&self) -> Duration {
        Duration::from_millis(self.pinned_idle_ms)
    }

    /// True if the servers are asked which of them is the primary.
    pub fn detects_primary(&self) -> bool {
        let mysql = self.mysql.as_ref().and_then(|own| own.primary);
        let redis = self.redis.map(|own| own.primary);
        mysql.or(redis) == Some(Primary::Detected)
    }

    /// True if another memcached server is asked after a miss.
    pub fn asks_misses(&self) -> bool {
        self.memcached.is_some_and(|own| own.miss == Miss::Ask)
    }

    /// Limit of one request.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    /// Idle time after which a TCP connection is closed.
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }
}

/// Maximum tokens per server.
pub const TOKENS_MAX: usize = policy::TOKENS.maximum as usize;
