//! `net.loss`: drops a share of the data interface's packets, at random, in its own nft table.
//!
//! The kernel hands segmented TCP data through the hooks in units of up to 64 kB; a unit is one
//! packet here. Needs no netem: an nft `numgen` in the netdev ingress and egress hooks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dose::{share, Probe, Reading, Scale};
use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::command::{run, run_with_input};
use crate::machine::Machine;

pub struct NetLoss;

/// Which packets of the data interface.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Ingress,
    Egress,
    Both,
}

pub const DIRECTION: Parameter = Parameter::string("direction", "which packets")
    .one_of(&["both", "ingress", "egress"])
    .or(Default::Text("both"));

impl Direction {
    /// The hooks that they pass.
    pub fn hooks(self) -> Vec<String> {
        match self {
            Direction::Ingress => vec!["ingress".into()],
            Direction::Egress => vec!["egress".into()],
            Direction::Both => vec!["ingress".into(), "egress".into()],
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    direction: Direction,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    table: String,
    interface: String,
    lost_in_10000: u32,
    hooks: Vec<String>,
}

impl Fault for NetLoss {
    const KIND: &'static str = "net.loss";
    const SUMMARY: &'static str = "a share of the data interface's packets dropped at random";
    const COMMANDS: &'static str =
        "nft -f -: table netdev sparecraft_loss_ID, hooks {direction} of the data interface, \
         {percent} % of packets dropped (numgen)";
    const UNDO: &'static str = "nft delete table netdev sparecraft_loss_ID";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("percent", "share of packets lost in each direction")
            .in_unit("%")
            .at_least(0.01)
            .at_most(100.0),
        DIRECTION,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "packets dropped of packets seen, by the counters of the nft table",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        let probe = ruleset(
            "sparecraft_probe",
            "lo",
            1,
            &["ingress".into(), "egress".into()],
        );
        // A chain without a hook sees no packet: the probe loads the expressions and harms nobody.
        let unhooked = "table netdev sparecraft_probe { chain probe { \
             numgen random mod 10000 < 1 drop\n}\n}\n";
        // An agent that was killed in its probe may have left it behind.
        delete_table("sparecraft_probe")
            .and_then(|()| run_with_input("nft", &["-c", "-f", "-"], &probe))
            .and_then(|_| run_with_input("nft", &["-f", "-"], unhooked))
            .and_then(|_| delete_table("sparecraft_probe"))
    }

    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let data = machine.data()?;
        refuse_foreign_tables("sparecraft_loss_")?;
        Ok(Record {
            table: format!("sparecraft_loss_{id}"),
            interface: data.name.clone(),
            lost_in_10000: (parameters.percent * 100.0).round() as u32,
            hooks: parameters.direction.hooks(),
        })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        let rules = ruleset(
            &record.table,
            &record.interface,
            record.lost_in_10000,
            &record.hooks,
        );
        run_with_input("nft", &["-f", "-"], &rules).map(drop)
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        delete_table(&record.table)
    }

    fn probe(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn Probe> {
        Box::new(Counted {
            table: record.table.clone(),
            asked: f64::from(record.lost_in_10000) / 1e4,
            packets: Packets::default(),
            samples: 0,
            held: Duration::ZERO,
        })
    }
}

struct Counted {
    table: String,
    asked: f64,
    packets: Packets,
    samples: u64,
    held: Duration,
}

/// The counts of the table's chains, together.
#[derive(Debug, std::default::Default, PartialEq)]
struct Packets {
    seen: f64,
    dropped: f64,
}

impl Probe for Counted {
    fn look(&mut self, held: Duration) -> Result<()> {
        let listing = run("nft", &["-j", "list", "table", "netdev", &self.table])?;
        self.packets = Packets::parse(&listing)?;
        self.samples += 1;
        self.held = held;
        Ok(())
    }

    fn reading(&self) -> Reading {
        let Packets { seen, dropped } = self.packets;
        share(self.asked, seen, dropped, self.samples, self.held)
    }
}

impl Packets {
    /// Reads `nft -j list table`: in each chain one rule counts what comes and one what it drops.
    fn parse(listing: &str) -> Result<Packets> {
        let listing: Value = serde_json::from_str(listing).context("`nft -j list table`")?;
        let mut packets = Packets::default();
        for object in listing["nftables"].as_array().into_iter().flatten() {
            let expressions = object["rule"]["expr"].as_array();
            let of = |name: &str| expressions?.iter().find(|one| one.get(name).is_some());
            let count = of("counter").and_then(|one| one["counter"]["packets"].as_f64());
            match of("drop") {
                Some(_) => packets.dropped += count.unwrap_or(0.0),
                None => packets.seen += count.unwrap_or(0.0),
            }
        }
        Ok(packets)
    }
}

fn ruleset(table: &str, interface: &str, lost_in_10000: u32, hooks: &[String]) -> String {
    let mut text = format!("table netdev {table} {{\n");
    for hook in hooks {
        text += &format!(
            "chain {hook} {{ type filter hook {hook} device \"{interface}\" \
             priority -10; policy accept\n\
             counter\n\
             numgen random mod 10000 < {lost_in_10000} counter drop\n}}\n"
        );
    }
    text + "}\n"
}

/// Refuses if there is a netdev table of our prefix that no active fault accounts for.
pub fn refuse_foreign_tables(prefix: &str) -> Result<(), Refusal> {
    match netdev_tables()?
        .into_iter()
        .find(|name| name.starts_with(prefix))
    {
        None => Ok(()),
        Some(name) => Err(Refusal::Conflict(format!(
            "there is an nft table `netdev {name}` that no active fault of this agent made; \
             delete it first (nft delete table netdev {name})"
        ))),
    }
}

/// Deletes one of our tables, if it is there.
pub fn delete_table(table: &str) -> Result<()> {
    if netdev_tables()?.iter().any(|name| name == table) {
        run("nft", &["delete", "table", "netdev", table])?;
    }
    Ok(())
}

fn netdev_tables() -> Result<Vec<String>> {
    let text = run("nft", &["list", "tables", "netdev"])?;
    Ok(text
        .lines()
        .filter_map(|line| line.strip_prefix("table netdev "))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_set_drops_the_asked_share_in_each_hook() {
        let text = ruleset("t", "eth1", 250, &["ingress".into(), "egress".into()]);
        assert_eq!(
            text.matches("numgen random mod 10000 < 250 counter drop")
                .count(),
            2
        );
        assert!(text.contains("hook egress device \"eth1\""), "{text}");
    }

    fn counted(seen: f64, dropped: f64) -> Reading {
        let counted = Counted {
            table: String::new(),
            asked: 0.1,
            packets: Packets { seen, dropped },
            samples: 1,
            held: Duration::from_secs(1),
        };
        counted.reading()
    }

    #[test]
    fn a_loss_bit_where_about_the_asked_share_is_gone() {
        let seen = counted(4_000.0, 390.0);
        assert_eq!((seen.asked, seen.measured), (Some(10.0), Some(9.75)));
        assert_eq!(seen.bit, Some(true));
        assert_eq!(counted(4_000.0, 200.0).bit, Some(false));
        assert_eq!(counted(4_000.0, 0.0).bit, Some(false));
    }

    #[test]
    fn too_few_packets_decide_nothing() {
        assert_eq!(
            (counted(0.0, 0.0).measured, counted(0.0, 0.0).bit),
            (None, None)
        );
        assert_eq!(counted(90.0, 0.0).bit, None);
        assert_eq!(counted(110.0, 0.0).bit, Some(false));
        assert_eq!(counted(110.0, 3.0).bit, Some(true));
    }

    #[test]
    fn both_chains_of_a_listing_are_counted() {
        let chain = r#"{"rule":{"expr":[{"counter":{"packets":70,"bytes":1}}]}},
            {"rule":{"expr":[{"match":{}},{"counter":{"packets":7,"bytes":1}},{"drop":null}]}}"#;
        let listing = format!(r#"{{"nftables":[{{"metainfo":{{}}}},{chain},{chain}]}}"#);
        let expected = Packets {
            seen: 140.0,
            dropped: 14.0,
        };
        assert_eq!(Packets::parse(&listing).unwrap(), expected);
    }
}
