//! `interference.iperf`: an iperf3 client that sends to a peer's server over the data network.

use std::net::IpAddr;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::LEASE_S_MAX;

use super::interference_iperf_server::default_port;
use super::{neighbour, within, Fault, Refusal};
use crate::machine::Machine;

pub struct InterferenceIperf;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Data address of the machine that runs the server.
    peer: IpAddr,
    #[serde(default = "default_port")]
    port: u16,
    /// Null: as fast as the NIC lets it.
    #[serde(default)]
    mbps: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    command: Vec<String>,
}

impl Fault for InterferenceIperf {
    const KIND: &'static str = "interference.iperf";
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        machine.data()?;
        neighbour::can_run("iperf3")
    }

    fn resource(&self, wish: &Parameters) -> String {
        format!("{}:{}:{}", Self::KIND, wish.peer, wish.port)
    }

    fn plan(&self, machine: &Machine, id: &str, wish: &Parameters) -> Result<Record, Refusal> {
        within("port", f64::from(wish.port), 1024.0, 65535.0)?;
        let (peer, port) = (wish.peer.to_string(), wish.port.to_string());
        let (own, limit_s) = (
            machine.config.data_address.to_string(),
            LEASE_S_MAX.to_string(),
        );
        let mut command = vec!["iperf3", "--client", &peer, "--port", &port, "--bind", &own];
        command.extend(["--time", &limit_s, "--connect-timeout", "300"]);
        let rate;
        if let Some(mbps) = wish.mbps {
            within("mbps", mbps, 0.01, 100_000.0)?;
            rate = format!("{:.0}", mbps * 1e6);
            command.extend(["--bitrate", &rate]);
        }
        let command = command.into_iter().map(str::to_owned).collect();
        Ok(Record {
            id: id.into(),
            command,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, std::slice::from_ref(&record.command))
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }
}
