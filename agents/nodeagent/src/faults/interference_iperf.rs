//! `interference.iperf`: an iperf3 client that sends to a peer's server over the data network.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Result;
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use wire::agent::LEASE_S_MAX;

use super::dose::{DoseReader, Scale};
use super::interference_iperf_server::{streams, PORT};
use super::parameter::Parameter;
use super::{neighbour, Fault, Planned, Refusal};
use crate::config::Config;
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
        Parameter::number("mbps", "sending rate; as fast as the NIC lets it where absent")
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

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        refuse_stranger(&machine.config, parameters.peer).map_err(Refusal::Invalid)?;
        let (peer, port) = (parameters.peer.to_string(), parameters.port.to_string());
        let (own, limit_s) = (machine.config.data_address.to_string(), LEASE_S_MAX.to_string());
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

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let filter = format!("dst {} and dport = :{}", record.peer, record.port);
        streams(filter, "bytes_acked:", record.mbps)
    }
}

/// Refuses a peer that is not another machine of the fleet.
fn refuse_stranger(config: &Config, peer: IpAddr) -> Result<(), String> {
    let is_machine = |network: &Ipv4Net| has_machine(network, peer);
    if peer != config.data_address && config.data_networks.iter().any(is_machine) {
        return Ok(());
    }
    Err(format!("peer: expected the data address of another machine of the fleet (got {peer})"))
}

/// True if a machine may have this address: neither the network's own, nor its first, which is the
/// gateway's, nor its last (broadcast). A network of one or two addresses has only machines.
fn has_machine(network: &Ipv4Net, peer: IpAddr) -> bool {
    let IpAddr::V4(peer) = peer else {
        return false;
    };
    let between = || Some(peer) > network.hosts().next() && peer < network.broadcast();
    network.contains(&peer) && (network.prefix_len() >= 31 || between())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::example_in;

    #[test]
    fn a_peer_outside_the_fleet_is_refused() {
        let config = example_in(std::path::Path::new("/nowhere"));
        let refused = |peer: &str| refuse_stranger(&config, peer.parse().unwrap()).is_err();
        assert!(!refused("198.18.1.12"));
        for peer in ["198.18.1.11", "198.18.0.1", "198.18.16.2", "127.0.0.1", "8.8.8.8", "::1"] {
            assert!(refused(peer), "{peer}");
        }
    }

    #[test]
    fn a_network_has_machines_between_its_gateway_and_its_end() {
        for (network, address, expected) in [
            ("198.18.16.0/20", "198.18.15.255", false),
            ("198.18.16.0/20", "198.18.16.0", false),
            ("198.18.16.0/20", "198.18.16.1", false),
            ("198.18.16.0/20", "198.18.16.2", true),
            ("198.18.16.7/20", "198.18.31.254", true),
            ("198.18.16.0/20", "198.18.31.255", false),
            ("198.18.16.0/20", "198.18.32.2", false),
            ("198.18.16.0/20", "::1", false),
            ("10.1.0.2/32", "10.1.0.2", true),
            ("10.1.0.2/32", "10.1.0.3", false),
        ] {
            let result = has_machine(&network.parse().unwrap(), address.parse().unwrap());
            assert_eq!(result, expected, "{network} {address}");
        }
    }
}
