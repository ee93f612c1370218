//! `interference.iperf_server`: an iperf3 server on the data address, the far end of a noisy pair.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

use super::dose::{rate_reader, DoseReader, Scale};
use super::parameter::{Default, Parameter};
use super::{neighbour, Fault, Planned};
use crate::machine::command::run;
use crate::machine::Machine;

/// A tenth of a core needs about a second to start iperf3.
const LISTENING_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

pub struct InterferenceIperfServer;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    port: u16,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    command: Vec<String>,
    port: u16,
}

/// The port that the server listens at; by default iperf3's own.
pub const PORT: Parameter = Parameter::integer("port", "the server's port")
    .at_least(1024.0)
    .at_most(65535.0)
    .or(Default::Number(5201.0));

impl Fault for InterferenceIperfServer {
    const KIND: &'static str = "interference.iperf_server";
    const SUMMARY: &'static str =
        "an iperf3 server on the data address, the far end of a noisy pair";
    const COMMANDS: &'static str =
        "iperf3 --server --bind DATA_ADDRESS --port {port}, in the role's cgroup";
    const UNDO: &'static str = "kill -KILL the neighbour that carries the fault's id";
    const PARAMETERS: &'static [Parameter] = &[PORT];
    const DOSE: Scale = Scale {
        unit: "Mbit/s",
        how: "bytes received, by the TCP connections' own counters; how much is asked is the \
              client's to say",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        neighbour::can_run("iperf3")
    }

    fn resource(&self, parameters: &Parameters) -> String {
        format!("{}:{}", Self::KIND, parameters.port)
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let address = machine.config.data_address.to_string();
        let port = parameters.port.to_string();
        let command =
            ["iperf3", "--server", "--bind", &address, "--port", &port].map(str::to_owned);
        Ok(Record { id: id.into(), command: command.to_vec(), port: parameters.port })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, std::slice::from_ref(&record.command))?;
        await_listener(record.port)
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let filter = format!("sport = :{}", record.port);
        streams(filter, "bytes_received:", None)
    }
}

/// Reads the rate of the TCP connections of an `ss` filter [Mbit/s], by one of their counters of bytes.
pub fn streams(
    filter: String,
    counter: &'static str,
    asked_mbps: Option<f64>,
) -> Box<dyn DoseReader> {
    rate_reader(asked_mbps, move || {
        let words = ["--tcp", "--info", "--numeric", "--no-header", &filter];
        Ok(total(&run("ss", &words)?, counter) * 8.0 / 1e6)
    })
}

fn total(listing: &str, counter: &str) -> f64 {
    listing
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(counter)?.parse::<f64>().ok())
        .sum()
}

/// Returns when something listens on `port`: a client that comes before is refused.
fn await_listener(port: u16) -> Result<()> {
    let until = Instant::now() + LISTENING_WITHIN;
    let filter = format!("sport = :{port}");
    let words = ["--listening", "--tcp", "--numeric", "--no-header", &filter];
    while run("ss", &words)?.is_empty() {
        if Instant::now() > until {
            bail!("iperf3 does not listen on port {port} after {LISTENING_WITHIN:?}");
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_all_connections_are_added() {
        let listing = "ESTAB 0 0 a:1 b:5201\n\t cubic bytes_sent:184 bytes_acked:185\n\
                       ESTAB 0 0 a:2 b:5201\n\t cubic bytes_sent:655397 bytes_acked:655398 x\n";
        assert_eq!(total(listing, "bytes_acked:"), 655_583.0);
        assert_eq!(total("", "bytes_acked:"), 0.0);
    }
}
