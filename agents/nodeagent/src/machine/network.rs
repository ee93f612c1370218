//! The data interface: found by its address, shaped to the machine's NIC rate, never the control
//! one.
//!
//! The agent owns one root qdisc, the token bucket with handle `5ca0:`. A root qdisc that is
//! neither that one nor the kernel's default (handle `0:`) is foreign: it is left alone and
//! refused.

use std::fs;
use std::net::IpAddr;

use anyhow::{anyhow, bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::command::run;

/// Handle of the agent's own root qdisc.
pub const HANDLE: &str = "5ca0:";
/// Ethernet's MTU where nothing else is set.
pub const ETHERNET_MTU_BYTES: u64 = 1_500;
/// Headers below IP, generously.
const FRAME_OVERHEAD_BYTES: u64 = 100;

/// The interface that carries the experiment's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataInterface {
    pub name: String,
}

/// The root queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootQdisc {
    /// The kernel's default.
    Default,
    /// The agent's.
    Own,
    /// Another program's, with a description.
    Foreign(String),
}

/// A token bucket filter (`tc-tbf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBucket {
    pub rate_bit_per_s: u64,
    pub burst_bytes: u64,
    pub limit_bytes: u64,
}

impl TokenBucket {
    /// A bucket of 2 ms (at least two full frames: a larger one than the bucket would never pass)
    /// with a queue of 100 ms (at least 20 frames, so that a slow NIC queues as a slow NIC does and
    /// not just drops).
    pub fn for_rate(rate_bit_per_s: u64, mtu_bytes: u64) -> TokenBucket {
        let bytes_per_s = rate_bit_per_s / 8;
        let frame_bytes = mtu_bytes + FRAME_OVERHEAD_BYTES;
        TokenBucket {
            rate_bit_per_s,
            burst_bytes: (bytes_per_s / 500).max(2 * frame_bytes),
            limit_bytes: (bytes_per_s / 10).max(20 * frame_bytes),
        }
    }

    /// Installs it at an interface's root; `verb` is `add`, `change` or `replace`.
    pub fn apply(&self, verb: &str, interface: &str, handle: &str) -> Result<()> {
        let rate = format!("{}bit", self.rate_bit_per_s);
        let (burst, limit) = (self.burst_bytes.to_string(), self.limit_bytes.to_string());
        let place = ["qdisc", verb, "dev", interface, "root", "handle", handle];
        let bucket = ["tbf", "rate", &rate, "burst", &burst, "limit", &limit];
        run("tc", &[place, bucket].concat()).map(drop)
    }
}

impl DataInterface {
    /// Finds the interface that has `data_address`; refuses the one that has `control_address`.
    pub fn find(data_address: IpAddr, control_address: IpAddr) -> Result<DataInterface> {
        let addresses = run("ip", &["-j", "address", "show"])?;
        let name = interface_of(&addresses, data_address)?.ok_or_else(|| {
            anyhow!(
                "no interface has the data address {data_address}; is the data network attached?"
            )
        })?;
        let control = interface_of(&addresses, control_address)?;
        if control.as_deref() == Some(&name) {
            bail!(
                "{name} has both the data address {data_address} and the control address \
                 {control_address}; faults need a data interface of its own"
            );
        }
        Ok(DataInterface { name })
    }

    /// Reads the root qdisc.
    pub fn root_qdisc(&self) -> Result<RootQdisc> {
        classify_root(&run("tc", &["-j", "qdisc", "show", "dev", &self.name])?)
    }

    /// The bucket of a rate on this interface, whose frames may be jumbo.
    pub fn bucket(&self, rate_bit_per_s: u64) -> Result<TokenBucket> {
        let file = format!("/sys/class/net/{}/mtu", self.name);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let mtu_bytes = text.trim().parse();
        let mtu_bytes = mtu_bytes.with_context(|| format!("a number expected in {file}"))?;
        Ok(TokenBucket::for_rate(rate_bit_per_s, mtu_bytes))
    }

    /// Shapes the interface to the NIC's rate with the agent's own qdisc.
    pub fn shape(&self, bucket: &TokenBucket) -> Result<()> {
        match self.root_qdisc()? {
            RootQdisc::Default => bucket.apply("replace", &self.name, HANDLE),
            RootQdisc::Own => bucket.apply("change", &self.name, HANDLE),
            RootQdisc::Foreign(what) => bail!(
                "{} has a root qdisc that is not the agent's ({what}); remove it so that the agent \
                 can shape the interface",
                self.name
            ),
        }
    }

    /// Removes the agent's own qdisc, if it is there.
    pub fn unshape(&self) -> Result<()> {
        if self.root_qdisc()? == RootQdisc::Own {
            run("tc", &["qdisc", "del", "dev", &self.name, "root", "handle", HANDLE])?;
        }
        Ok(())
    }
}

/// The traffic of an interface, as the kernel counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
}

/// Reads the counters of an interface; none where it is not there.
pub fn traffic(interface: &str) -> Option<Traffic> {
    parse_traffic(&fs::read_to_string("/proc/net/dev").ok()?, interface)
}

fn parse_traffic(text: &str, interface: &str) -> Option<Traffic> {
    let line =
        text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(Traffic {
        rx_bytes: *fields.first()?,
        rx_packets: *fields.get(1)?,
        tx_bytes: *fields.get(8)?,
        tx_packets: *fields.get(9)?,
    })
}

/// The addresses of a link, as `ip -j address` tells them.
pub fn addresses_of(link: &Value) -> impl Iterator<Item = &Value> {
    link["addr_info"].as_array().into_iter().flatten()
}

fn interface_of(addresses: &str, target: IpAddr) -> Result<Option<String>> {
    let links: Vec<Value> = serde_json::from_str(addresses).context("`ip -j address`")?;
    let target = target.to_string();
    let has = |link: &Value| addresses_of(link).any(|address| address["local"] == target.as_str());
    Ok(links
        .iter()
        .find(|link| has(link))
        .and_then(|link| link["ifname"].as_str().map(str::to_owned)))
}

fn classify_root(qdiscs: &str) -> Result<RootQdisc> {
    let qdiscs: Vec<Value> = serde_json::from_str(qdiscs).context("`tc -j qdisc`")?;
    let Some(root) = qdiscs.iter().find(|qdisc| qdisc["root"] == true) else {
        return Ok(RootQdisc::Default);
    };
    let (kind, handle) =
        (root["kind"].as_str().unwrap_or("?"), root["handle"].as_str().unwrap_or("?"));
    Ok(match (kind, handle) {
        (_, "0:") => RootQdisc::Default,
        ("tbf", HANDLE) => RootQdisc::Own,
        _ => RootQdisc::Foreign(format!("{kind} {handle}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = r#"[{"ifname":"lo","addr_info":[{"local":"127.0.0.1"}]},
        {"ifname":"eth1","addr_info":[{"local":"198.18.1.11"}]}, {}]"#;

    #[test]
    fn an_interface_is_found_by_its_address() {
        let interface = interface_of(ADDRESSES, "198.18.1.11".parse().unwrap()).unwrap();
        assert_eq!(interface.as_deref(), Some("eth1"));
        assert_eq!(interface_of(ADDRESSES, "198.18.1.1".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn an_interface_with_both_addresses_is_refused() {
        let own = "127.0.0.1".parse().unwrap();
        let error = DataInterface::find(own, own).unwrap_err().to_string();
        assert!(error.contains("of its own"), "{error}");
    }

    #[test]
    fn only_the_default_and_our_own_root_are_ours_to_change() {
        let root = |kind: &str, handle: &str| {
            classify_root(&format!(r#"[{{"kind":"{kind}","handle":"{handle}","root":true}}]"#))
                .unwrap()
        };
        assert_eq!(root("noqueue", "0:"), RootQdisc::Default);
        assert_eq!(root("tbf", "5ca0:"), RootQdisc::Own);
        assert_eq!(root("tbf", "8001:"), RootQdisc::Foreign("tbf 8001:".into()));
        assert_eq!(root("htb", "5ca0:"), RootQdisc::Foreign("htb 5ca0:".into()));
    }

    #[test]
    fn an_interface_is_not_taken_for_one_whose_name_begins_alike() {
        let text = "eth10: 7 1 0 0 0 0 0 0 8 2\n  eth1: 5 3 0 0 0 0 0 0 6 4 0\n";
        let expected = Traffic { rx_bytes: 5, rx_packets: 3, tx_bytes: 6, tx_packets: 4 };
        assert_eq!(parse_traffic(text, "eth1"), Some(expected));
        assert_eq!(parse_traffic(text, "eth2"), None);
    }

    #[test]
    fn a_bucket_holds_two_frames_and_the_queue_twenty_however_slow_the_rate() {
        let slow = TokenBucket::for_rate(200_000, ETHERNET_MTU_BYTES);
        assert_eq!(
            (slow.rate_bit_per_s, slow.burst_bytes, slow.limit_bytes),
            (200_000, 3_200, 32_000)
        );
        let fast = TokenBucket::for_rate(200_000_000, ETHERNET_MTU_BYTES);
        assert_eq!((fast.burst_bytes, fast.limit_bytes), (50_000, 2_500_000));
        let jumbo = TokenBucket::for_rate(200_000, 9_000);
        assert_eq!((jumbo.burst_bytes, jumbo.limit_bytes), (18_200, 182_000));
    }
}
