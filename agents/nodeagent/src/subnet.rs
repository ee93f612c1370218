//! Ranges of IPv4 addresses, as the configuration names them: `198.18.0.0/20`.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Subnet {
    first: u32,
    prefix: u32,
}

impl TryFrom<String> for Subnet {
    type Error = String;

    fn try_from(text: String) -> Result<Subnet, String> {
        let expected = || format!("`{text}`: ADDRESS/PREFIX expected, such as 198.18.0.0/20");
        let (address, prefix) = text.split_once('/').ok_or_else(expected)?;
        let address: Ipv4Addr = address.parse().map_err(|_| expected())?;
        let prefix: u32 = prefix.parse().map_err(|_| expected())?;
        if prefix > 32 {
            return Err(expected());
        }
        let first = u32::from(address) & mask(prefix);
        Ok(Subnet { first, prefix })
    }
}

impl Subnet {
    /// Whether a machine may have this address: within the range, and neither its first (the
    /// network's own), its second (the gateway's) nor its last (broadcast). A range of one or two
    /// addresses has only machines.
    pub fn has_machine(self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else {
            return false;
        };
        let (address, last) = (u32::from(address), self.first | !mask(self.prefix));
        match self.prefix {
            31.. => (self.first..=last).contains(&address),
            _ => (self.first.saturating_add(2)..last).contains(&address),
        }
    }
}

fn mask(prefix: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(subnet: &str, address: &str) -> bool {
        let subnet = Subnet::try_from(subnet.to_owned()).unwrap();
        subnet.has_machine(address.parse().unwrap())
    }

    #[test]
    fn a_range_has_machines_between_its_gateway_and_its_end() {
        for (address, expected) in [
            ("198.18.15.255", false),
            ("198.18.16.0", false),
            ("198.18.16.1", false),
            ("198.18.16.2", true),
            ("198.18.31.254", true),
            ("198.18.31.255", false),
            ("198.18.32.2", false),
            ("::1", false),
        ] {
            assert_eq!(has("198.18.16.0/20", address), expected, "{address}");
        }
    }

    #[test]
    fn one_address_is_a_range_too() {
        assert!(has("10.1.0.2/32", "10.1.0.2"));
        assert!(!has("10.1.0.2/32", "10.1.0.3"));
        assert!(has("0.0.0.0/0", "192.0.2.1"));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "198.18.0.0",
            "198.18.0.0/33",
            "web/8",
            "::/64",
            "1.2.3.4/-1",
        ] {
            assert!(Subnet::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
