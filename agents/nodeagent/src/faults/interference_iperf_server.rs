//! `interference.iperf_server`: an iperf3 server on the data address, the far end of a noisy pair.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{neighbour, within, Fault, Refusal};
use crate::machine::Machine;

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
        let (address, port) = (
            machine.config.data_address.to_string(),
            wish.port.to_string(),
        );
        let command =
            ["iperf3", "--server", "--bind", &address, "--port", &port].map(str::to_owned);
        Ok(Record {
            id: id.into(),
            command: command.to_vec(),
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, std::slice::from_ref(&record.command))
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }
}
