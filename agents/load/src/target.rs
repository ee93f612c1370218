//! An entry's URL: its protocol, its address, and that it is of the own fleet.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::account::Account;
use crate::protocol::Protocol;
use crate::refused::Refused;

/// Says on a load machine of a fleet on EC2 that it is one: there 10.0.0.0/8 is the own fleet's.
const ROLE_FILE: &str = "/etc/sparecraft/role.env";

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What it speaks.
    pub protocol: Protocol,
    /// Address and port.
    pub address: SocketAddr,
    /// Who logs in there.
    pub account: Account,
}

impl Target {
    /// The parts of `PROTOCOL://[USER[:PASSWORD]@]ADDRESS[:PORT]/[DATABASE]`.
    ///
    /// # Errors
    /// What was expected and what came.
    pub fn parse(url: &str, on_load_machine: bool) -> Result<Self, Refused> {
        Self::parts(url, on_load_machine).ok_or_else(|| {
            Refused::new(
                "an entry PROTOCOL://ADDRESS[:PORT]/ of http, memcached, mysql or redis with an \
                 address in 127.0.0.0/8 or 198.18.0.0/15, the own fleet's (10.0.0.0/8 on its load \
                 machine on EC2)",
                url,
            )
        })
    }

    fn parts(url: &str, on_load_machine: bool) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let protocol = Protocol::named(scheme)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = account.split_once(':').unwrap_or((account, ""));
        let (ip, port) = match host.split_once(':') {
            Some((ip, port)) => (ip, port.parse().ok()?),
            None => (host, protocol.default_port()),
        };
        let ip: Ipv4Addr = ip.parse().ok()?;
        if !is_own(ip, on_load_machine) {
            return None;
        }
        Some(Self {
            protocol,
            address: SocketAddr::new(IpAddr::V4(ip), port),
            account: Account {
                user: decoded(user)?,
                password: decoded(password)?,
                database: decoded(path)?,
            },
        })
    }
}

/// Text without its percent signs.
fn decoded(text: &str) -> Option<String> {
    let (first, rest) = match text.split_once('%') {
        Some(parts) => parts,
        None => return Some(text.to_owned()),
    };
    let mut bytes = first.as_bytes().to_vec();
    for part in rest.split('%') {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// True if this is a load machine of a fleet on EC2.
#[must_use]
pub fn on_load_machine() -> bool {
    fs::read_to_string(ROLE_FILE).is_ok_and(|text| text.lines().any(|line| line == "ROLE=load"))
}

/// Load goes to loopback, to the benchmarking range, and on a load machine to its own network.
fn is_own(ip: Ipv4Addr, on_load_machine: bool) -> bool {
    match ip.octets() {
        [127, ..] | [198, 18 | 19, ..] => true,
        [10, ..] => on_load_machine,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_fleet_is_loopback_and_the_benchmarking_range() {
        for url in [
            "http://127.0.0.1/",
            "redis://198.18.0.11:6380/",
            "memcached://198.19.1.2",
        ] {
            assert!(Target::parse(url, false).is_ok(), "{url}");
        }
        for url in [
            "http://198.20.0.1/",
            "http://93.184.215.14/",
            "http://localhost/",
            "http://[::1]/",
        ] {
            assert!(Target::parse(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn a_private_address_is_allowed_on_a_load_machine_only() {
        assert!(Target::parse("http://10.80.0.11/", false).is_err());
        assert!(Target::parse("http://10.80.0.11/", true).is_ok());
    }

    #[test]
    fn a_url_has_an_account_a_port_and_a_database() {
        let target = Target::parse("mysql://wiki:wiki-read@127.0.0.1:3307/wiki", false).unwrap();
        assert_eq!(target.address.port(), 3307);
        let account = &target.account;
        let told = [&account.user, &account.password, &account.database];
        assert_eq!(told, ["wiki", "wiki-read", "wiki"]);
        assert_eq!(
            Target::parse("mysql://127.0.0.1/", false)
                .unwrap()
                .address
                .port(),
            3306
        );
        let target = Target::parse("mysql://a%40b:%2f%c3%a9@127.0.0.1/", false).unwrap();
        assert_eq!(
            [target.account.user, target.account.password],
            ["a@b", "/é"]
        );
        assert!(Target::parse("ftp://127.0.0.1/", false).is_err());
        assert!(Target::parse("http://127.0.0.1:http/", false).is_err());
    }
}
