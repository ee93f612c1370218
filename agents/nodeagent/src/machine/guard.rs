//! The control address is no address of the data network.
//!
//! Linux answers for each of its addresses on every interface (the weak host model, RFC 1122
//! 3.3.4.2), and where it forwards it also leads from one network into the other. So an nft table of
//! our own drops what comes in by the data interface for the control address, or for others of its
//! network. It is the first in the data interface's ingress hook: faults lead packets elsewhere
//! after it, in tables of their own, and their undo does not know this one.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use super::command::{run, run_with_input};
use super::network::{addresses_of, DataInterface};

const TABLE: &str = "sparecraft_control";

/// Installs the table, in place of one that an earlier agent left.
pub fn shut(interface: &DataInterface, data: IpAddr, control: IpAddr) -> Result<()> {
    let links = run("ip", &["-j", "address", "show"])?;
    let rules = ruleset(
        &interface.name,
        control,
        &network_of(&links, control)?,
        &network_of(&links, data)?,
    );
    run_with_input("nft", &["-f", "-"], &rules).map(drop)
}

/// Removes the table.
pub fn remove() -> Result<()> {
    run_with_input("nft", &["-f", "-"], &without_table()).map(drop)
}

/// Deletes the table; it is created first, because a missing one cannot be deleted.
fn without_table() -> String {
    format!("add table netdev {TABLE}\ndelete table netdev {TABLE}\n")
}

/// Rules of the table; packets of the data network pass, as it may lie within the control network.
fn ruleset(interface: &str, control: IpAddr, control_net: &str, data_net: &str) -> String {
    let ip = if control.is_ipv4() { "ip" } else { "ip6" };
    let table = without_table();
    format!(
        "{table}table netdev {TABLE} {{\n\
         chain ingress {{ type filter hook ingress device \"{interface}\" priority -500; \
         policy accept\n\
         {ip} daddr {control} counter drop\n\
         {ip} daddr {control_net} {ip} daddr != {data_net} counter drop\n}}\n}}\n"
    )
}

/// `ADDRESS/PREFIX` of an address of this machine.
fn network_of(links: &str, address: IpAddr) -> Result<String> {
    let links: Vec<Value> = serde_json::from_str(links).context("`ip -j address`")?;
    let prefix = links
        .iter()
        .flat_map(addresses_of)
        .find(|entry| entry["local"] == address.to_string().as_str())
        .and_then(|entry| entry["prefixlen"].as_u64())
        .with_context(|| format!("no interface has the address {address}"))?;
    Ok(format!("{address}/{prefix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_that_of_the_address() {
        let links = r#"[{}, {"ifname":"eth0","addr_info":[{"local":"198.18.1.1","prefixlen":16},
            {"local":"198.18.1.11","prefixlen":20}]}]"#;
        let network = |address: &str| network_of(links, address.parse().unwrap());
        assert_eq!(network("198.18.1.11").unwrap(), "198.18.1.11/20");
        let error = network("198.18.1.12").unwrap_err().to_string();
        assert!(error.contains("198.18.1.12"), "{error}");
    }
}
