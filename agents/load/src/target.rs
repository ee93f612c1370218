//! An entry's URL: its protocol, its address, and that it is of the own fleet.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Deserialize;

use crate::account::Account;
use crate::protocol::Protocol;
use crate::refused::Refused;

/// Says on a load machine of a fleet on EC2 that it is one: there 10.0.0.0/8 is the own fleet's.
const ROLE_FILE: &str = "/etc/sparecraft/role.env";

/// A service that somebody else runs.
#[derive(Debug, Clone, Deserialize)]
pub struct Service {
    /// The one address that all load goes to.
    address: IpAddr,
    /// The Host header.
    authority: String,
}

/// Hosts that may get load.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// True on a load machine of a fleet on EC2.
    pub on_load_machine: bool,
    /// A service, and nothing else.
    pub service: Option<Service>,
}

/// A target of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Protocol.
    pub protocol: Protocol,
    /// Address and port.
    pub address: SocketAddr,
    /// The Host header of HTTP.
    pub host: String,
    /// True for TLS.
    pub secure: bool,
    /// Account for the login.
    pub account: Account,
}

impl Target {
    /// The parts of `PROTOCOL://[USER[:PASSWORD]@]ADDRESS[:PORT]/[DATABASE]`.
    pub fn parse(url: &str, allowed: &Allowed) -> Result<Self, Refused> {
        Self::parts(url, allowed).ok_or_else(|| {
            let expected = match &allowed.service {
                Some(service) => {
                    format!("an entry PROTOCOL://{}[:PORT]/", in_url(service.address))
                }
                None => "an entry PROTOCOL://ADDRESS[:PORT]/ of http, https, memcached, mysql or \
                     redis with an address in 127.0.0.0/8 or 198.18.0.0/15, the own fleet's \
                     (10.0.0.0/8 on its load machine on EC2)"
                    .to_owned(),
            };
            Refused::new("entries", expected, url)
        })
    }

    fn parts(url: &str, allowed: &Allowed) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let secure = scheme == "https";
        let protocol = Protocol::of_scheme(if secure { "http" } else { scheme })?;
        let default_port = if secure { 443 } else { protocol.default_port() };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = account.split_once(':').unwrap_or((account, ""));
        let (ip, port) = address_and_port(host)?;
        let port = port.unwrap_or(default_port);
        let may = match &allowed.service {
            Some(service) => service.address == ip,
            None => is_own(ip, allowed.on_load_machine),
        };
        if !may {
            return None;
        }
        let host = match &allowed.service {
            Some(service) => service.authority.clone(),
            None if port == default_port => in_url(ip),
            None => format!("{}:{port}", in_url(ip)),
        };
        Some(Self {
            protocol,
            address: SocketAddr::new(ip, port),
            host,
            secure,
            account: Account {
                user: decoded(user)?,
                password: decoded(password)?,
                database: decoded(path)?,
            },
        })
    }
}

/// `ADDRESS[:PORT]`, an IPv6 address in brackets.
fn address_and_port(host: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Some(rest) = host.strip_prefix('[') {
        let (ip, port) = rest.split_once(']')?;
        let ip: Ipv6Addr = ip.parse().ok()?;
        return match port {
            "" => Some((ip.into(), None)),
            _ => Some((ip.into(), Some(port.strip_prefix(':')?.parse().ok()?))),
        };
    }
    let (ip, port) = match host.split_once(':') {
        Some((ip, port)) => (ip, Some(port.parse().ok()?)),
        None => (host, None),
    };
    let ip: Ipv4Addr = ip.parse().ok()?;
    Some((ip.into(), port))
}

/// An address as URLs have it.
fn in_url(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
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
pub fn on_load_machine() -> bool {
    fs::read_to_string(ROLE_FILE).is_ok_and(|text| text.lines().any(|line| line == "ROLE=load"))
}

/// Load goes to loopback, to the benchmarking range, and on a load machine to its own network.
fn is_own(ip: IpAddr, on_load_machine: bool) -> bool {
    let IpAddr::V4(ip) = ip else {
        return false;
    };
    match ip.octets() {
        [127, ..] | [198, 18 | 19, ..] => true,
        [10, ..] => on_load_machine,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str, on_load_machine: bool) -> Result<Target, Refused> {
        let allowed = Allowed { on_load_machine, service: None };
        Target::parse(url, &allowed)
    }

    #[test]
    fn the_own_fleet_is_loopback_and_the_benchmarking_range() {
        for url in ["http://127.0.0.1/", "redis://198.18.0.11:6380/", "memcached://198.19.1.2"] {
            assert!(parsed(url, false).is_ok(), "{url}");
        }
        for url in
            ["http://198.20.0.1/", "http://93.184.215.14/", "http://localhost/", "http://[::1]/"]
        {
            assert!(parsed(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn a_private_address_is_allowed_on_a_load_machine_only() {
        assert!(parsed("http://10.80.0.11/", false).is_err());
        assert!(parsed("http://10.80.0.11/", true).is_ok());
    }

    #[test]
    fn a_plan_for_a_service_asks_its_address_by_its_name_and_nothing_else() {
        let service = r#"{"address": "10.80.0.11", "authority": "shop.test:8443"}"#;
        let allowed = Allowed {
            on_load_machine: true,
            service: Some(serde_json::from_str(service).unwrap()),
        };
        let target = Target::parse("https://10.80.0.11:8443/", &allowed).unwrap();
        assert_eq!(target.address.port(), 8443);
        assert_eq!((target.host.as_str(), target.secure), ("shop.test:8443", true));
        for url in ["http://10.80.0.12/", "http://127.0.0.1/", "http://198.18.0.1/"] {
            assert!(Target::parse(url, &allowed).is_err(), "{url}");
        }
    }

    #[test]
    fn a_service_may_have_an_ipv6_address() {
        let service = r#"{"address": "::1", "authority": "[::1]:8080"}"#;
        let allowed = Allowed {
            on_load_machine: false,
            service: Some(serde_json::from_str(service).unwrap()),
        };
        let target = Target::parse("http://[::1]:8080/", &allowed).unwrap();
        assert_eq!(target.address, "[::1]:8080".parse().unwrap());
        assert_eq!(target.host, "[::1]:8080");
        let target = Target::parse("https://[0:0::1]/", &allowed).unwrap();
        assert_eq!(target.address.port(), 443);
        for url in [
            "http://[::2]:8080/",
            "http://::1/",
            "http://[::1/",
            "http://[::1]8080/",
            "http://[127.0.0.1]/",
        ] {
            assert!(Target::parse(url, &allowed).is_err(), "{url}");
        }
    }

    #[test]
    fn a_host_header_has_a_port_that_is_not_the_scheme_s_own() {
        for (url, host) in [
            ("http://127.0.0.1/", "127.0.0.1"),
            ("http://127.0.0.1:443/", "127.0.0.1:443"),
            ("https://127.0.0.1/", "127.0.0.1"),
            ("https://127.0.0.1:80/", "127.0.0.1:80"),
        ] {
            assert_eq!(parsed(url, false).unwrap().host, host, "{url}");
        }
    }

    #[test]
    fn a_url_has_an_account_a_port_and_a_database() {
        let target = parsed("mysql://wiki:wiki-read@127.0.0.1:3307/wiki", false).unwrap();
        assert_eq!(target.address.port(), 3307);
        let account = &target.account;
        let fields = [&account.user, &account.password, &account.database];
        assert_eq!(fields, ["wiki", "wiki-read", "wiki"]);
        assert_eq!(parsed("mysql://127.0.0.1/", false).unwrap().address.port(), 3306);
        let target = parsed("mysql://a%40b:%2f%c3%a9@127.0.0.1/", false).unwrap();
        assert_eq!([target.account.user, target.account.password], ["a@b", "/é"]);
        assert!(parsed("ftp://127.0.0.1/", false).is_err());
        assert!(parsed("http://127.0.0.1:http/", false).is_err());
    }
}
