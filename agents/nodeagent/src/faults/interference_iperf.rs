//! `interference.iperf`: an iperf3 client that sends to a peer's server over the data network.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use wire::agent::LEASE_S_MAX;

use super::dose::{Probe, Scale};
use super::interference_iperf_server::{Streams, PORT};
use super::parameter::Parameter;
use super::{neighbour, Fault, Refusal};
use crate::machine::Machine;

pub struct InterferenceIperf;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    peer: IpAddr,
    port: u16,
    mbps: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    command: Vec<String>,
    peer: IpAddr,
    port: u16,
    mbps: Option<f64>,
}

impl Fault for InterferenceIperf {
    const KIND: &'static str = "interference.iperf";
    const SUMMARY: &'static str =
        "an iperf3 client that sends to a peer's server over the data network";
    const COMMANDS: &'static str =
        "iperf3 --client {peer} --port {port} --bind DATA_ADDRESS --bitrate {mbps} Mbit/s, in \
         the role's cgroup";
    const UNDO: &'static str = "kill -KILL the neighbour that carries the fault's id";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::string("peer", "data address of the machine that runs the server"),
        PORT,
        Parameter::number(
            "mbps",
            "sending rate; as fast as the NIC lets it where absent",
        )
        .in_unit("Mbit/s")
        .at_least(0.01)
        .at_most(100_000.0)
        .optional(),
    ];
    const DOSE: Scale = Scale {
        unit: "Mbit/s",
        how: "bytes that the peer's kernel acknowledged, by the TCP connections' own counters",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        neighbour::can_run("iperf3")
    }

    fn resource(&self, parameters: &Parameters) -> String {
        format!("{}:{}:{}", Self::KIND, parameters.peer, parameters.port)
    }

    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        let (peer, port) = (parameters.peer.to_string(), parameters.port.to_string());
        let (own, limit_s) = (
            machine.config.data_address.to_string(),
            LEASE_S_MAX.to_string(),
        );
        let mut command = vec!["iperf3", "--client", &peer, "--port", &port, "--bind", &own];
        command.extend(["--time", &limit_s, "--connect-timeout", "300"]);
        let rate;
        if let Some(mbps) = parameters.mbps {
            rate = format!("{:.0}", mbps * 1e6);
            command.extend(["--bitrate", &rate]);
        }
        let command = command.into_iter().map(str::to_owned).collect();
        Ok(Record {
            id: id.into(),
            command,
            peer: parameters.peer,
            port: parameters.port,
            mbps: parameters.mbps.or(machine.config.nic_mbps),
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(machine, &record.id, std::slice::from_ref(&record.command))
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }

    fn probe(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn Probe> {
        let filter = format!("dst {} and dport = :{}", record.peer, record.port);
        Box::new(Streams::new(filter, "bytes_acked:", record.mbps))
    }
}
