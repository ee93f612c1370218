//! `net.link_down`: the data interface administratively down. The undo sets it up and restores the
//! routes that the kernel forgot with it.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dose::{duration_reader, DoseReader, Scale};
use super::process_hang::Nothing;
use super::{Fault, Planned, Refusal};
use crate::machine::command::run;
use crate::machine::network::traffic;
use crate::machine::Machine;

pub struct NetLinkDown;

const UP_LIMIT: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
pub struct Record {
    interface: String,
    /// Each as the words that `ip route` prints and takes.
    routes: Vec<String>,
}

impl Fault for NetLinkDown {
    const KIND: &'static str = "net.link_down";
    const SUMMARY: &'static str = "the data interface down";
    const COMMANDS: &'static str = "ip link set DATA down";
    const UNDO: &'static str = "ip link set DATA up; ip route replace each of its routes";
    const STOPS_SERVICE: bool = true;
    const DOSE: Scale = Scale {
        unit: "s",
        how: "time in which the data interface was down and its counters stood still",
    };
    type Parameters = Nothing;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        let data = machine.data()?;
        if !is_up(&data.name)? {
            bail!("{} is down already", data.name);
        }
        // Asking for the state that it has already needs the same right and changes nothing.
        run("ip", &["link", "set", &data.name, "up"]).map(drop)
    }

    fn plan(&self, machine: &Machine, _id: &str, _parameters: &Nothing) -> Planned<Record> {
        let data = machine.data()?;
        if !is_up(&data.name)? {
            return Err(Refusal::Conflict(format!(
                "{} is down already, and not by the agent",
                data.name
            )));
        }
        let routes = routes_of(&data.name)?;
        Ok(Record { interface: data.name.clone(), routes })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        run("ip", &["link", "set", &record.interface, "down"]).map(drop)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        // After a restart of the whole machine the interface may have another name, and is up.
        if !machine.data().is_ok_and(|data| data.name == record.interface) {
            return Ok(());
        }
        run("ip", &["link", "set", &record.interface, "up"])?;
        let until = Instant::now() + UP_LIMIT;
        while !is_up(&record.interface)? {
            if Instant::now() > until {
                bail!("{} did not come up within {} s", record.interface, UP_LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let now = routes_of(&record.interface)?;
        for route in record.routes.iter().filter(|route| !now.contains(route)) {
            let words: Vec<&str> = route.split_whitespace().collect();
            run("ip", &[&["route", "replace"], &words[..], &["dev", &record.interface]].concat())?;
        }
        Ok(())
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        const IFF_UP: u32 = 1;
        let interface = record.interface.clone();
        let mut carried = traffic(&interface);
        duration_reader(None, move || {
            let file = format!("/sys/class/net/{interface}/flags");
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
            let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16)?;
            let now = traffic(&interface);
            let is_still = now == carried;
            carried = now;
            Ok(flags & IFF_UP == 0 && is_still)
        })
    }
}

fn routes_of(interface: &str) -> Result<Vec<String>> {
    let text = run("ip", &["route", "show", "dev", interface])?;
    let clean = |line: &str| line.replace("linkdown", "").trim().to_owned();
    Ok(text.lines().map(clean).collect())
}

fn is_up(interface: &str) -> Result<bool> {
    let links: Value =
        serde_json::from_str(&run("ip", &["-j", "link", "show", "dev", interface])?)?;
    let flags = links[0]["flags"].as_array().cloned().unwrap_or_default();
    Ok(flags.iter().any(|flag| flag == "UP") && flags.iter().any(|flag| flag == "LOWER_UP"))
}
