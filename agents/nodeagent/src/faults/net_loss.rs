//! `net.loss`: drops a share of the data interface's packets, at random, in its own nft table.
//!
//! The kernel hands segmented TCP data through the hooks in units of up to 64 kB; a unit is one
//! packet here. Needs no netem: an nft `numgen` in the netdev ingress and egress hooks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::dose::{share, DoseReader, Reading, Scale};
use super::parameter::{Default, Parameter};
use super::{nft, Fault, Planned};
use crate::machine::Machine;

pub struct NetLoss;

/// Direction of packets at the data interface.
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
        let trial = ruleset("sparecraft_probe", "lo", 1, &Direction::Both.hooks());
        // A chain without a hook sees no packet: the trial loads the expressions and harms nobody.
        let unhooked = "table netdev sparecraft_probe { chain probe { \
             numgen random mod 10000 < 1 drop\n}\n}\n";
        // An agent that was killed in its trial may have left it behind.
        nft::delete("sparecraft_probe")?;
        nft::check(&trial)?;
        nft::load(unhooked)?;
        nft::delete("sparecraft_probe")
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let data = machine.data()?;
        nft::refuse_foreign("sparecraft_loss_")?;
        Ok(Record {
            table: format!("sparecraft_loss_{id}"),
            interface: data.name.clone(),
            lost_in_10000: (parameters.percent * 100.0).round() as u32,
            hooks: parameters.direction.hooks(),
        })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        let (table, lost) = (&record.table, record.lost_in_10000);
        nft::load(&ruleset(table, &record.interface, lost, &record.hooks))
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        nft::delete(&record.table)
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        Box::new(DropDose {
            table: record.table.clone(),
            asked: f64::from(record.lost_in_10000) / 1e4,
            packets: Packets::default(),
        })
    }
}

struct DropDose {
    table: String,
    asked: f64,
    packets: Packets,
}

/// The counts of the table's chains, together.
#[derive(std::default::Default)]
struct Packets {
    total: f64,
    dropped: f64,
}

impl DoseReader for DropDose {
    fn look(&mut self, _held: Duration) -> Result<()> {
        self.packets = Packets::default();
        // In each chain one rule counts the packets that come, and one those that it drops.
        for rule in nft::rules(&self.table)? {
            match rule.drops {
                true => self.packets.dropped += rule.packets,
                false => self.packets.total += rule.packets,
            }
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        let Packets { total, dropped } = self.packets;
        share(self.asked, total, dropped)
    }
}

fn ruleset(table: &str, interface: &str, lost_in_10000: u32, hooks: &[String]) -> String {
    nft::table(table, interface, hooks, |_| {
        format!("counter\nnumgen random mod 10000 < {lost_in_10000} counter drop\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_set_drops_the_asked_share_in_each_hook() {
        let text = ruleset("t", "eth1", 250, &Direction::Both.hooks());
        assert_eq!(text.matches("numgen random mod 10000 < 250 counter drop").count(), 2);
        assert!(text.contains("hook egress device \"eth1\""), "{text}");
    }

    fn dose_of(total: f64, dropped: f64) -> Reading {
        let reader =
            DropDose { table: String::new(), asked: 0.1, packets: Packets { total, dropped } };
        reader.reading()
    }

    #[test]
    fn a_loss_bit_where_about_the_asked_share_is_gone() {
        let reading = dose_of(4_000.0, 390.0);
        assert_eq!((reading.asked, reading.measured), (Some(10.0), Some(9.75)));
        assert_eq!(reading.bit, Some(true));
        assert_eq!(dose_of(4_000.0, 200.0).bit, Some(false));
        assert_eq!(dose_of(4_000.0, 0.0).bit, Some(false));
    }

    #[test]
    fn too_few_packets_decide_nothing() {
        assert_eq!((dose_of(0.0, 0.0).measured, dose_of(0.0, 0.0).bit), (None, None));
        assert_eq!(dose_of(90.0, 0.0).bit, None);
        assert_eq!(dose_of(110.0, 0.0).bit, Some(false));
        assert_eq!(dose_of(110.0, 3.0).bit, Some(true));
    }
}
