//! What values of the configuration can work.

use std::collections::HashSet;

use policy::{HEDGE_PERCENTILE, OBSERVATION_AGE_MS};
use wire::arbiter::Protocol;

use super::{Config, TOKENS_MAX};

/// More servers than this in a tier are a mistake.
pub const SERVERS_MAX: u64 = 1_000;
const THREADS_MAX: u64 = 64;
/// Requests that wait for tokens.
const WAITING_MAX: u64 = 1_000_000;
const MINUTE_MS: u64 = 60_000;
/// About 60 bytes each.
const TRACE_LINES_MAX: u64 = 1_000_000_000;
const CORES_MAX: f64 = 4_096.0;

/// What `mysql.packet_bytes_max` may be: the servers' own bounds for max_allowed_packet.
const PACKET_BYTES_MAX: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 30;

impl Config {
    /// Whether an arbiter can work with it; else the key, what was expected, what came.
    pub(super) fn validate(&self) -> Result<(), (String, String, String)> {
        let (replicas_max, of_replicas) = self.protocol.replicas_max(self.servers.len());
        let age_ms = OBSERVATION_AGE_MS;
        let (age_min, age_max) = (age_ms.minimum as u64, age_ms.maximum as u64);
        // Every server has to see memcached's writes in the same order.
        let (threads_max, of_threads) = match self.protocol {
            Protocol::Memcached => (1, " with memcached"),
            _ => (THREADS_MAX, ""),
        };
        let (connect_ms, request_ms) = (&self.connect_timeout_ms, &self.request_timeout_ms);
        for (key, value, least, most, of) in [
            (
                "servers",
                self.servers.len() as u64,
                1,
                SERVERS_MAX,
                " [[servers]] tables",
            ),
            (
                "replicas",
                self.replicas as u64,
                1,
                replicas_max as u64,
                of_replicas,
            ),
            ("tokens", self.tokens as u64, 1, TOKENS_MAX as u64, ""),
            ("threads", self.threads as u64, 1, threads_max, of_threads),
            ("connect_timeout_ms", connect_ms.get(), 1, MINUTE_MS, " ms"),
            (
                "request_timeout_ms",
                request_ms.get(),
                1,
                60 * MINUTE_MS,
                " ms",
            ),
            (
                "observation_age_ms",
                self.observation_age_ms,
                age_min,
                age_max,
                " ms",
            ),
            ("waiting_max", self.waiting_max as u64, 0, WAITING_MAX, ""),
            (
                "trace_lines_max",
                self.trace_lines_max,
                1,
                TRACE_LINES_MAX,
                "",
            ),
        ] {
            if !(least..=most).contains(&value) {
                let expected = format!("{least} to {most}{of}");
                return Err((key.to_owned(), expected, value.to_string()));
            }
        }
        if !(self.server_cores > 0.0 && self.server_cores <= CORES_MAX) {
            return Err((
                "server_cores".to_owned(),
                format!("above 0 to {CORES_MAX}"),
                self.server_cores.to_string(),
            ));
        }
        if let Some(path) = self
            .trace
            .as_ref()
            .filter(|path| path.file_name().is_none())
        {
            let expected = "the path of a file".to_owned();
            return Err(("trace".to_owned(), expected, format!("{path:?}")));
        }
        let (least, most) = (HEDGE_PERCENTILE.minimum, HEDGE_PERCENTILE.maximum);
        if !(least..=most).contains(&self.hedge_percentile) {
            let expected = format!("{least} to {most}");
            let came = self.hedge_percentile.to_string();
            return Err(("hedge_percentile".to_owned(), expected, came));
        }
        wire::guardrails::validate(&self.guardrails)?;
        self.validate_servers()?;
        self.validate_mysql()
    }

    fn validate_servers(&self) -> Result<(), (String, String, String)> {
        let mut names = HashSet::new();
        let mut addresses = HashSet::new();
        for (place, server) in self.servers.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if server.name.is_empty() || !server.name.chars().all(plain) {
                let expected = "a name of letters, digits, '-', '_' and '.'".to_owned();
                return Err((
                    format!("servers[{place}].name"),
                    expected,
                    quoted(&server.name),
                ));
            }
            if !names.insert(&server.name) {
                let expected = "a name that no other server has".to_owned();
                return Err((
                    format!("servers[{place}].name"),
                    expected,
                    quoted(&server.name),
                ));
            }
            if !addresses.insert(server.address) {
                let expected = "an address that no other server has".to_owned();
                let came = server.address.to_string();
                return Err((format!("servers[{place}].address"), expected, came));
            }
        }
        Ok(())
    }

    fn validate_mysql(&self) -> Result<(), (String, String, String)> {
        let section = match (self.protocol, &self.mysql) {
            (Protocol::Mysql, None) => ("a [mysql] table with user, password, database", "none"),
            (Protocol::Mysql, Some(mysql)) => {
                if mysql.user.is_empty() || mysql.user.contains('\0') {
                    (
                        "a user name in mysql.user",
                        "an empty one, or one with a zero byte",
                    )
                } else if !PACKET_BYTES_MAX.contains(&mysql.packet_bytes_max) {
                    (
                        "1 MiB to 1 GiB in mysql.packet_bytes_max",
                        "less or more than that",
                    )
                } else {
                    return Ok(());
                }
            }
            (_, None) => return Ok(()),
            (_, Some(_)) => ("no [mysql] table with another protocol", "one"),
        };
        Err((
            "mysql".to_owned(),
            section.0.to_owned(),
            section.1.to_owned(),
        ))
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
