//! `net.partition`: this machine is cut off from the data addresses of stated peers, both ways or
//! one way; whoever else there is reaches it as ever.
//!
//! Its own nft table drops IPv4 packets in the data interface's netdev hooks, as `net.loss` does.
//! That nothing goes to a peer is tried: a datagram to its discard port has to be counted.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Reading, Scale};
use super::net_loss::{Direction, DIRECTION};
use super::parameter::Parameter;
use super::{nft, Fault, Planned, Refusal};
use crate::machine::Machine;

pub struct NetPartition;

const PREFIX: &str = "sparecraft_partition_";
const TRIAL: &str = "sparecraft_probe_partition";
const DISCARD_PORT: u16 = 9;
const PEERS_MAX: usize = 256;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    peers: String,
    direction: Direction,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    table: String,
    interface: String,
    peers: BTreeSet<Ipv4Addr>,
    direction: Direction,
}

impl Fault for NetPartition {
    const KIND: &'static str = "net.partition";
    const SUMMARY: &'static str = "no packet passes between this machine and the stated peers";
    const COMMANDS: &'static str =
        "nft -f -: table netdev sparecraft_partition_ID, hooks {direction} of the data interface, \
         packets from and to {peers} dropped";
    const UNDO: &'static str = "nft delete table netdev sparecraft_partition_ID";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::string(
            "peers",
            "whom it does not reach, with commas; in a design machines or tiers, else addresses",
        ),
        DIRECTION,
    ];
    const DOSE: Scale = Scale {
        unit: "packets",
        how: "packets from and to the peers that the nft table dropped, by its counters, each \
              second one of the agent's own to a peer among them (not with ingress)",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        let peers = BTreeSet::from([Ipv4Addr::new(198, 18, 0, 1)]);
        nft::check(&ruleset(TRIAL, "lo", &peers, Direction::Both))
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let data = machine.data()?;
        let peers = peers_of(&parameters.peers).map_err(Refusal::Invalid)?;
        let own = machine.config.data_address;
        if peers.iter().any(|peer| *peer == own) {
            let text =
                format!("peers: expected other machines (got this one's own address, {own})");
            return Err(Refusal::Invalid(text));
        }
        nft::refuse_foreign(PREFIX)?;
        Ok(Record {
            table: format!("{PREFIX}{id}"),
            interface: data.name.clone(),
            peers,
            direction: parameters.direction,
        })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        let (table, interface) = (&record.table, &record.interface);
        nft::load(&ruleset(table, interface, &record.peers, record.direction))
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        nft::delete(&record.table)
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let sends = record.direction != Direction::Ingress;
        Box::new(Cut {
            table: record.table.clone(),
            peer: record.peers.first().copied().filter(|_| sends),
            dropped: None,
            sent: 0,
        })
    }
}

/// The addresses in a text with commas.
fn peers_of(text: &str) -> Result<BTreeSet<Ipv4Addr>, String> {
    let address = |word: &str| {
        word.trim()
            .parse::<Ipv4Addr>()
            .map_err(|_| format!("peers: expected IPv4 addresses with commas (got {word:?})"))
    };
    let peers: BTreeSet<Ipv4Addr> = text.split(',').map(address).collect::<Result<_, _>>()?;
    if peers.len() > PEERS_MAX {
        let count = peers.len();
        return Err(format!("peers: expected at most {PEERS_MAX} (got {count})"));
    }
    Ok(peers)
}

fn ruleset(
    table: &str,
    interface: &str,
    peers: &BTreeSet<Ipv4Addr>,
    direction: Direction,
) -> String {
    let words: Vec<String> = peers.iter().map(Ipv4Addr::to_string).collect();
    let set = words.join(", ");
    nft::table(table, interface, &direction.hooks(), |hook| {
        let end = if hook == "ingress" { "saddr" } else { "daddr" };
        format!("ip {end} {{ {set} }} counter drop\n")
    })
}

struct Cut {
    table: String,
    /// Peer to which the agent itself sends.
    peer: Option<Ipv4Addr>,
    dropped: Option<f64>,
    sent: u64,
}

impl DoseReader for Cut {
    fn look(&mut self, _held: Duration) -> Result<()> {
        if let Some(peer) = self.peer {
            // Dropped on its way out, it may be told of by an error: that is no news.
            let _ = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?
                .send_to(b"", SocketAddrV4::new(peer, DISCARD_PORT));
            self.sent += 1;
        }
        let rules = nft::rules(&self.table)?;
        self.dropped = Some(rules.iter().map(|rule| rule.packets).sum());
        Ok(())
    }

    /// Judges the dose: it bit if it dropped packets; a peer may be silent, so none is no evidence.
    fn reading(&self) -> Reading {
        let bit = match (self.dropped > Some(0.0), self.sent > 0) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        Reading { asked: None, measured: self.dropped, bit, ..Reading::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_from_peers_are_dropped_where_they_come_and_to_peers_where_they_go() {
        let peers = peers_of("198.18.0.3, 198.18.0.2,198.18.0.3").unwrap();
        let text = ruleset("t", "eth1", &peers, Direction::Both);
        assert!(text.contains("ip saddr { 198.18.0.2, 198.18.0.3 } counter drop"), "{text}");
        assert!(text.contains("ip daddr { 198.18.0.2, 198.18.0.3 } counter drop"), "{text}");
        let one_way = ruleset("t", "eth1", &peers, Direction::Ingress);
        assert!(!one_way.contains("daddr") && one_way.contains("saddr"), "{one_way}");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "web-1", "198.18.0.1;drop", "198.18.0.1,", "::1", "198.18.0.0/24"] {
            assert!(peers_of(text).is_err(), "{text:?}");
        }
        let addresses: Vec<String> =
            (0..300).map(|n| format!("198.18.{}.{}", n / 200, n % 200)).collect();
        assert!(peers_of(&addresses.join(",")).is_err());
    }

    #[test]
    fn a_cut_bit_if_it_dropped_something_and_did_not_if_it_let_the_agents_own_pass() {
        let bite = |dropped: f64, sent: u64| {
            let cut = Cut { table: String::new(), peer: None, dropped: Some(dropped), sent };
            cut.reading().bit
        };
        assert_eq!(bite(3.0, 1), Some(true));
        assert_eq!(bite(0.0, 1), Some(false));
        assert_eq!(bite(0.0, 0), None);
    }
}
