//! `interference.iperf_server`: an iperf3 server on the data address, the far end of a noisy pair.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

use super::{neighbour, within, Fault, Refusal};
use crate::machine::command::run;
use crate::machine::Machine;

/// A tenth of a core needs about a second to start iperf3.
const LISTENING_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

pub struct InterferenceIperfServer;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    #[serde(default = "default_port")]
    port: u16,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    command: Vec<String>,
    #[serde(default = "default_port")]
    port: u16,
}

/// iperf3's own.
pub fn default_port() -> u16 {
    5201
}

impl Fault for InterferenceIperfServer {
    const KIND: &'static str = "interference.iperf_server";
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        machine.data()?;
        neighbour::can_run("iperf3")
    }

    fn resource(&self, wish: &Parameters) -> String {
        format!("{}:{}", Self::KIND, wish.port)
    }

    fn plan(&self, machine: &Machine, id: &str, wish: &Parameters) -> Result<Record, Refusal> {
        within("port", f64::from(wish.port), 1024.0, 65535.0)?;
        let address = machine.config.data_address.to_string();
        let port = wish.port.to_string();
        let command =
            ["iperf3", "--server", "--bind", &address, "--port", &port].map(str::to_owned);
        Ok(Record {
            id: id.into(),
            command: command.to_vec(),
            port: wish.port,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, std::slice::from_ref(&record.command))?;
        await_listener(record.port)
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }
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
