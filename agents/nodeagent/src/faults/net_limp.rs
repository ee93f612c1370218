//! `net.limp`: the NIC's nominal rate divided by a factor, in both directions (limpbench's slow
//! NIC).
//!
//! Outgoing: the agent's own token bucket at the data interface gets the lower rate. Incoming:
//! packets are forwarded to an `ifb` device with a token bucket of the same rate, by an nft table
//! of our own.

use std::sync::Arc;

use anyhow::{ensure, Result};
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Scale};
use super::net_flow::Flows;
use super::packet_interceptor::WAY;
use super::parameter::{Parameter, FACTOR};
use super::{nft, Fault, Planned, Refusal};
use crate::machine::command::run;
use crate::machine::network::{RootQdisc, TokenBucket, ETHERNET_MTU_BYTES, HANDLE};
use crate::machine::Machine;

pub struct NetLimp;

/// Minimum rate: a NIC slower than one frame in ten seconds is dead, not limping.
const RATE_BIT_PER_S_MIN: f64 = 1_000.0;
const INGRESS_HANDLE: &str = "5ca1:";

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    factor: f64,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    interface: String,
    nominal: TokenBucket,
    limping: TokenBucket,
    /// The `ifb` device for incoming packets.
    ingress: String,
    table: String,
}

impl Fault for NetLimp {
    const KIND: &'static str = "net.limp";
    const SUMMARY: &'static str = "the NIC's nominal rate divided by a factor, in both directions";
    const COMMANDS: &'static str =
        "tc qdisc change dev DATA root handle 5ca0: tbf rate NIC/{factor}; the same for what \
         comes in, through ip link add sc-ID type ifb and nft table netdev sparecraft_limp_ID";
    const UNDO: &'static str =
        "tc qdisc change dev DATA root handle 5ca0: tbf rate NIC; nft delete table netdev \
         sparecraft_limp_ID; ip link del sc-ID";
    const DOSE: Scale = Scale {
        unit: "Mbit/s",
        how: "bytes that pass the card's token buckets while packets wait in them, of which a few \
              kB at the beginning are the agent's own; the faster direction",
    };
    const PARAMETERS: &'static [Parameter] = &[FACTOR];
    type Parameters = Parameters;
    type Record = Record;

    fn resource(&self, _parameters: &Parameters) -> String {
        WAY.into()
    }

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        ensure!(
            machine.config.nic_mbps.is_some(),
            "the configuration gives no nic_mbps, so there is no nominal rate to divide"
        );
        let (trial, bucket) = ("sc-probe", TokenBucket::for_rate(1_000_000, ETHERNET_MTU_BYTES));
        // An agent that was killed in its trial may have left it behind.
        let result = remove_ingress(trial, "sparecraft_probe_limp")
            .and_then(|()| make_ingress(trial, &bucket, "sparecraft_probe_limp", trial));
        let cleanup = remove_ingress(trial, "sparecraft_probe_limp");
        result.and(cleanup)
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let data = machine.data()?;
        let nominal = machine
            .nominal_bucket()?
            .ok_or_else(|| Refusal::Unavailable("the configuration gives no nic_mbps".into()))?;
        let rate = nominal.rate_bit_per_s as f64 / parameters.factor;
        if rate < RATE_BIT_PER_S_MIN {
            return Err(Refusal::Invalid(format!(
                "factor {} leaves {rate:.0} bit/s; at least {RATE_BIT_PER_S_MIN:.0} is needed",
                parameters.factor
            )));
        }
        match data.root_qdisc()? {
            RootQdisc::Own => {}
            RootQdisc::Default => {
                return Err(Refusal::Conflict(format!(
                    "the agent's own qdisc {HANDLE} is gone from {}; restart the agent",
                    data.name
                )))
            }
            RootQdisc::Foreign(what) => {
                return Err(Refusal::Conflict(format!(
                    "{} has a root qdisc that is not the agent's ({what}); remove it first",
                    data.name
                )))
            }
        }
        nft::refuse_foreign("sparecraft_limp_")?;
        Ok(Record {
            interface: data.name.clone(),
            nominal,
            limping: data.bucket(rate.round() as u64)?,
            ingress: format!("sc-{id}"),
            table: format!("sparecraft_limp_{id}"),
        })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        make_ingress(&record.ingress, &record.limping, &record.table, &record.interface)?;
        record.limping.apply("change", &record.interface, HANDLE)
    }

    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        let outgoing = match machine.data() {
            Ok(data) if data.name == record.interface && data.root_qdisc()? == RootQdisc::Own => {
                record.nominal.apply("change", &record.interface, HANDLE)
            }
            _ => Ok(()),
        };
        remove_ingress(&record.ingress, &record.table).and(outgoing)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        Box::new(Flows::new(
            machine.config.data_address,
            record.limping,
            &record.interface,
            &record.ingress,
        ))
    }
}

fn make_ingress(device: &str, bucket: &TokenBucket, table: &str, interface: &str) -> Result<()> {
    run("ip", &["link", "add", device, "type", "ifb"])?;
    run("ip", &["link", "set", device, "up"])?;
    bucket.apply("add", device, INGRESS_HANDLE)?;
    let rules = format!(
        "table netdev {table} {{\nchain ingress {{ type filter hook ingress device \"{interface}\" \
         priority 0; policy accept\nfwd to \"{device}\"\n}}\n}}\n"
    );
    nft::load(&rules)
}

fn remove_ingress(device: &str, table: &str) -> Result<()> {
    let table = nft::delete(table);
    let devices = run("ip", &["-br", "link", "show", "type", "ifb"])?;
    if devices.split_whitespace().any(|word| word == device) {
        run("ip", &["link", "del", device])?;
    }
    table
}
