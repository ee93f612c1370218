//! Checks of the configuration's values.

use std::collections::HashSet;
use std::path::PathBuf;

use policy::impossible::in_range;
use policy::{Impossible, HEDGE_PERCENTILE, LOOK_AHEAD, OBSERVATION_AGE_MS};
use wire::arbiter::{Compare, CompareMode, Protocol, Server};

use super::{Config, TOKENS_MAX};

/// Maximum servers of a tier.
pub const SERVERS_MAX: u64 = 1_000;
const THREADS_MAX: u64 = 64;
/// Maximum requests that wait for tokens.
const WAITING_MAX: u64 = 1_000_000;
/// 1 TiB.
const HELD_MIB_MAX: u64 = 1 << 20;
/// 1 GiB/s.
const CLIENT_KIB_PER_S_MAX: u64 = 1 << 20;
/// Maximum dedicated connections.
const PINNED_MAX: u64 = 1_000_000;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// About 150 bytes each.
const TRACE_LINES_MAX: u64 = 1_000_000_000;
const CORES_MAX: f64 = 4_096.0;

/// Bounds of `mysql.packet_bytes_max`, as the servers' for max_allowed_packet.
const PACKET_BYTES_MAX: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 30;

impl Config {
    /// Refuses values that an arbiter cannot work with.
    pub(super) fn validate(&self) -> Result<(), Impossible> {
        let (replicas_max, of_replicas) = self.protocol.replicas_max(self.servers.len());
        let age_ms = OBSERVATION_AGE_MS;
        let (age_min, age_max) = (age_ms.minimum as u64, age_ms.maximum as u64);
        // Every server has to see memcached's writes in the same order.
        let (threads_max, of_threads) = match self.protocol {
            Protocol::Memcached => (1, " with memcached"),
            _ => (THREADS_MAX, ""),
        };
        let per_address_max = self.pinned_per_address_max.unwrap_or(1);
        let bounds = [
            ("servers", self.servers.len() as u64, 1, SERVERS_MAX, " [[servers]] tables"),
            ("replicas", self.replicas as u64, 1, replicas_max as u64, of_replicas),
            ("tokens", self.tokens as u64, 1, TOKENS_MAX as u64, ""),
            ("look_ahead", self.look_ahead as u64, 0, LOOK_AHEAD.maximum as u64, " servers"),
            ("threads", self.threads as u64, 1, threads_max, of_threads),
            ("connect_timeout_ms", self.connect_timeout_ms, 1, MINUTE_MS, " ms"),
            ("request_timeout_ms", self.request_timeout_ms, 1, 60 * MINUTE_MS, " ms"),
            ("idle_timeout_ms", self.idle_timeout_ms, 1, 7 * DAY_MS, " ms"),
            ("observation_age_ms", self.observation_age_ms, age_min, age_max, " ms"),
            ("waiting_max", self.waiting_max as u64, 0, WAITING_MAX, ""),
            ("held_mib_max", self.held_mib_max as u64, 1, HELD_MIB_MAX, " MiB"),
            ("client_kib_per_s_min", self.client_kib_per_s_min, 1, CLIENT_KIB_PER_S_MAX, " KiB/s"),
            ("streaming_ms_max", self.streaming_ms_max, 1, 60 * MINUTE_MS, " ms"),
            ("pinned_max", self.pinned_max as u64, 0, PINNED_MAX, ""),
            ("pinned_per_address_max", per_address_max as u64, 1, PINNED_MAX, ""),
            ("pinned_idle_ms", self.pinned_idle_ms, 1, 24 * 60 * MINUTE_MS, " ms"),
            ("trace_lines_max", self.trace_lines_max, 1, TRACE_LINES_MAX, ""),
        ];
        for (key, value, least, most, of) in bounds {
            in_range(key, value, least..=most, of)?;
        }
        if !(self.server_cores > 0.0 && self.server_cores <= CORES_MAX) {
            let expected = format!("above 0 to {CORES_MAX}");
            return refuse("server_cores", expected, self.server_cores);
        }
        let is_file = |path: &PathBuf| path.file_name().is_some();
        if let Some(path) = self.trace.as_ref().filter(|path| !is_file(path)) {
            return refuse("trace", "the path of a file", format!("{path:?}"));
        }
        let (least, most) = (HEDGE_PERCENTILE.minimum, HEDGE_PERCENTILE.maximum);
        in_range("hedge_percentile", self.hedge_percentile, least..=most, "")?;
        wire::guardrails::validate(&self.guardrails)?;
        may_compare(&self.compare, self.protocol, self.replicas)?;
        if let Some(check) = &self.health_check {
            check.validate(self.protocol)?;
        }
        self.validate_servers()?;
        if self.redis.is_some() && self.protocol != Protocol::Redis {
            return refuse("redis", "no [redis] table with another protocol", "one");
        }
        if self.detects_primary() && self.redis.is_some_and(|redis| redis.read_your_writes) {
            let expected = "false with redis.primary = \"detected\"";
            let hint = "true (a promoted replica may lack a client's writes)";
            return refuse("redis.read_your_writes", expected, hint);
        }
        if let Some(path) = self.streamed_paths.iter().find(|path| !path.starts_with('/')) {
            return refuse("streamed_paths", "paths that begin with '/'", format!("{path:?}"));
        }
        if !self.streamed_paths.is_empty() && self.protocol != Protocol::Http {
            return refuse("streamed_paths", "none with another protocol than http", "some");
        }
        if self.memcached.is_some() && self.protocol != Protocol::Memcached {
            return refuse("memcached", "no [memcached] table with another protocol", "one");
        }
        self.validate_mysql()
    }

    fn validate_servers(&self) -> Result<(), Impossible> {
        let mut names = HashSet::new();
        let mut addresses = HashSet::new();
        for (place, Server { name, address }) in self.servers.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let expected = if name.is_empty() || !name.chars().all(plain) {
                "a name of letters, digits, '-', '_' and '.'"
            } else if !names.insert(name) {
                "a name that no other server has"
            } else if !addresses.insert(address) {
                let key = format!("servers[{place}].address");
                return refuse(key, "an address that no other server has", address);
            } else {
                continue;
            };
            return refuse(format!("servers[{place}].name"), expected, format!("{name:?}"));
        }
        Ok(())
    }

    fn validate_mysql(&self) -> Result<(), Impossible> {
        let (expected, got) = match (self.protocol, &self.mysql) {
            (Protocol::Mysql, None) => ("a [mysql] table with user, password, database", "none"),
            (Protocol::Mysql, Some(mysql))
                if mysql.user.is_empty() || mysql.user.contains('\0') =>
            {
                ("a user name in mysql.user", "an empty one, or one with a zero byte")
            }
            (Protocol::Mysql, Some(mysql))
                if !PACKET_BYTES_MAX.contains(&mysql.packet_bytes_max) =>
            {
                ("1 MiB to 1 GiB in mysql.packet_bytes_max", "less or more than that")
            }
            (Protocol::Mysql, Some(_)) | (_, None) => return Ok(()),
            (_, Some(_)) => ("no [mysql] table with another protocol", "one"),
        };
        refuse("mysql", expected, got)
    }
}

/// Refuses a comparison that this protocol or number of replicas cannot make.
pub fn may_compare(
    wanted: &Compare,
    protocol: Protocol,
    replicas: usize,
) -> Result<(), Impossible> {
    wire::compare::validate(wanted)?;
    let expected = if wanted.mode == CompareMode::Off {
        return Ok(());
    } else if !protocol.compares() {
        "\"off\" (this protocol's replies are not compared)"
    } else if replicas < 2 {
        "\"off\" (with one replica there is nothing to compare; set replicas to 2 or more)"
    } else {
        return Ok(());
    };
    refuse("compare.mode", expected, format!("{:?}", wanted.mode).to_lowercase())
}

pub(super) fn refuse(
    key: impl Into<String>,
    expected: impl Into<String>,
    got: impl ToString,
) -> Result<(), Impossible> {
    Err(Impossible::new(key, expected, got))
}
