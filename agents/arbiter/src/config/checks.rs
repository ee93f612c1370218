//! What values of the configuration can work.

use std::collections::HashSet;

use wire::arbiter::Protocol;

use super::{Config, TOKENS_MAX};

const THREADS_MAX: u64 = 64;
const MINUTE_MS: u64 = 60_000;
/// About 60 bytes each.
const TRACE_LINES_MAX: u64 = 1_000_000_000;
const CORES_MAX: f64 = 4_096.0;

/// What `mysql.packet_bytes_max` may be: the servers' own bounds for max_allowed_packet.
const PACKET_BYTES_MAX: std::ops::RangeInclusive<usize> = 1 << 20..=1 << 30;

impl Config {
    /// Whether an arbiter can work with it; else the key, what was expected, what came.
    pub(super) fn validate(&self) -> Result<(), (String, String, String)> {
        let within = |key: &str, value: u64, least: u64, most: u64, of: &str| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err((
                key.to_owned(),
                format!("{least} to {most}{of}"),
                value.to_string(),
            ))
        };
        let servers = self.servers.len() as u64;
        within("servers", servers, 1, 1_000, " [[servers]] tables")?;
        within(
            "replicas",
            self.replicas as u64,
            1,
            servers,
            " (the number of servers)",
        )?;
        within("tokens", self.tokens as u64, 1, TOKENS_MAX as u64, "")?;
        within("threads", self.threads as u64, 1, THREADS_MAX, "")?;
        within(
            "connect_timeout_ms",
            self.connect_timeout_ms.get(),
            1,
            MINUTE_MS,
            " ms",
        )?;
        within(
            "request_timeout_ms",
            self.request_timeout_ms.get(),
            1,
            60 * MINUTE_MS,
            " ms",
        )?;
        within(
            "observation_age_ms",
            self.observation_age_ms,
            1,
            60 * MINUTE_MS,
            " ms",
        )?;
        if !(self.server_cores > 0.0 && self.server_cores <= CORES_MAX) {
            return Err((
                "server_cores".to_owned(),
                format!("above 0 to {CORES_MAX}"),
                self.server_cores.to_string(),
            ));
        }
        if self.protocol == Protocol::Memcached {
            // Every server has to see the writes in the same order.
            within("threads", self.threads as u64, 1, 1, " with memcached")?;
        }
        within("waiting_max", self.waiting_max as u64, 0, 1_000_000, "")?;
        within(
            "trace_lines_max",
            self.trace_lines_max,
            1,
            TRACE_LINES_MAX,
            "",
        )?;
        if let Some(path) = self
            .trace
            .as_ref()
            .filter(|path| path.file_name().is_none())
        {
            let expected = "the path of a file".to_owned();
            return Err(("trace".to_owned(), expected, format!("{path:?}")));
        }
        if !(1.0..=99.9).contains(&self.hedge_percentile) {
            let expected = "1 to 99.9".to_owned();
            let came = self.hedge_percentile.to_string();
            return Err(("hedge_percentile".to_owned(), expected, came));
        }
        crate::guard::validate(&self.guardrails)?;
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
