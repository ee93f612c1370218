//! `net.loss`: drops a share of the data interface's packets, at random, in its own nft table.
//!
//! The kernel hands segmented TCP data through the hooks in units of up to 64 kB; a unit is one
//! packet here. Needs no netem: an nft `numgen` in the netdev ingress and egress hooks.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::command::{run, run_with_input};
use crate::machine::Machine;

pub struct NetLoss;

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Ingress,
    Egress,
    Both,
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
        Parameter::string("direction", "which packets")
            .one_of(&["both", "ingress", "egress"])
            .or(Default::Text("both")),
    ];
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
        let hooks = match parameters.direction {
            Direction::Ingress => vec!["ingress".into()],
            Direction::Egress => vec!["egress".into()],
            Direction::Both => vec!["ingress".into(), "egress".into()],
        };
        Ok(Record {
            table: format!("sparecraft_loss_{id}"),
            interface: data.name.clone(),
            lost_in_10000: (parameters.percent * 100.0).round() as u32,
            hooks,
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
}

fn ruleset(table: &str, interface: &str, lost_in_10000: u32, hooks: &[String]) -> String {
    let mut text = format!("table netdev {table} {{\n");
    for hook in hooks {
        text += &format!(
            "chain {hook} {{ type filter hook {hook} device \"{interface}\" \
             priority -10; policy accept\n\
             numgen random mod 10000 < {lost_in_10000} drop\n}}\n"
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
            text.matches("numgen random mod 10000 < 250 drop").count(),
            2
        );
        assert!(text.contains("hook egress device \"eth1\""), "{text}");
    }
}
