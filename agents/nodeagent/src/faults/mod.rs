//! The faults, one per file or family, behind one small trait. `README.md` of the crate tells how to
//! add one.

pub mod dose;
mod flip_schedule;
mod libc_interposer;
mod neighbour;
mod net_flow;
mod nft;
mod packet_interceptor;
mod packet_queue;
pub mod parameter;

use std::sync::Arc;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
use wire::agent::LEASE_S_MAX;

use crate::machine::{Machine, Missing};
use dose::{DoseReader, Scale};
use parameter::Parameter;

pub use memory_limp::stream;
pub use neighbour::run as run_neighbour;

/// The files of the faults, each with its own, and `all()` of them.
macro_rules! faults {
    ($($file:ident: $($name:ident),+;)+) => {
        $(mod $file;)+

        /// Every kind of fault and interference that there is.
        pub fn all() -> Vec<Box<dyn Kind>> {
            vec![$($(Box::new($file::$name)),+),+]
        }
    };
}

faults! {
    process_crash: ProcessCrash;
    process_hang: ProcessHang;
    net_loss: NetLoss;
    net_limp: NetLimp;
    net_link_down: NetLinkDown;
    net_flaky: NetFlaky;
    net_partition: NetPartition;
    net_delay: NET_DELAY;
    net_reorder: NET_REORDER;
    net_corrupt: NET_CORRUPT;
    cpu_limp: CpuLimp;
    disk_limp: DiskLimp;
    disk_io: DISK_FULL, DISK_ERROR, DISK_SLOW, DISK_HANG;
    memory_ballast: MEMORY_EXHAUST, MEMORY_PIN;
    memory_limp: MemoryLimp;
    memory_alloc_failure: MEMORY_ALLOC_FAILURE;
    process_bad_parameters: PROCESS_BAD_PARAMETERS;
    interference_cpu: InterferenceCpu;
    interference_iperf_server: InterferenceIperfServer;
    interference_iperf: InterferenceIperf;
}

/// The record of a fault that may be injected, or why it may not.
pub type Planned<R> = Result<R, Refusal>;

/// Reasons for refusing a request.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Something else holds the resource, or its state is not the agent's.
    #[error("{0}")]
    Conflict(String),
    /// This machine cannot do it.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such fault.
    #[error("{0}")]
    Unknown(String),
    /// It was tried and went wrong.
    #[error("{0}")]
    Failed(String),
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Refusal {
        Refusal::Failed(format!("{error:#}"))
    }
}

impl From<Missing> for Refusal {
    fn from(Missing(why): Missing) -> Refusal {
        Refusal::Unavailable(why)
    }
}

/// One kind of fault.
pub trait Fault: Send + Sync + 'static {
    /// Its name in the API.
    const KIND: &'static str;
    /// Its effect, in one line.
    const SUMMARY: &'static str;
    /// The commands of `inject`, for the person who allows it: `{name}` is that parameter, words in
    /// capitals are the machine's own.
    const COMMANDS: &'static str;
    /// The commands of `undo`.
    const UNDO: &'static str;
    /// True if the machine serves nothing while it lasts; others make it slow or lossy.
    const STOPS_SERVICE: bool = false;
    /// Its parameters, with bounds and defaults: requests are checked and completed by them.
    const PARAMETERS: &'static [Parameter] = &[];
    /// The measure of its dose while it is held.
    const DOSE: Scale;
    /// The complete parameters.
    type Parameters: Serialize + DeserializeOwned;
    /// The facts that `inject` and `undo` need, on disk from before the one until after the other.
    type Record: Serialize + DeserializeOwned;

    /// Really tries, without touching the data interface or the role, whether this machine can do
    /// it.
    fn capability(&self, machine: &Machine) -> Result<()>;
    /// The resource that no two faults may hold at once; by default the kind's own.
    fn resource(&self, _parameters: &Self::Parameters) -> String {
        Self::KIND.into()
    }
    /// Checks the parameters and that nothing foreign is in the way. Changes nothing.
    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Self::Parameters,
    ) -> Planned<Self::Record>;
    /// Does it. If it fails half-way, `undo` is called.
    fn inject(&self, machine: &Machine, record: &Self::Record) -> Result<()>;
    /// Undoes it, also if it was never or only partly injected, or is undone already; touches only
    /// its own.
    fn undo(&self, machine: &Machine, record: &Self::Record) -> Result<()>;
    /// Reads the kernel's counters from a thread of its own; made once the fault is
    /// in. It may take no lock that `undo` takes for longer than one read of `/proc`.
    fn dose_reader(&self, machine: &Arc<Machine>, record: &Self::Record) -> Box<dyn DoseReader>;
}

/// The description of a kind for a design's author.
#[derive(Serialize)]
pub struct Description {
    kind: &'static str,
    summary: &'static str,
    commands: &'static str,
    undo: &'static str,
    group: &'static str,
    stops_service: bool,
    dose: Scale,
    parameters: &'static [Parameter],
}

/// A fault with its types erased, as the engine holds it.
pub trait Kind: Send + Sync {
    fn name(&self) -> &'static str;
    fn description(&self) -> Description;
    fn capability(&self, machine: &Machine) -> Result<(), String>;
    /// The parameters with their defaults filled in.
    fn complete(&self, parameters: &Value) -> Result<Value, Refusal>;
    fn resource(&self, parameters: &Value) -> Result<String, Refusal>;
    fn plan(&self, machine: &Machine, id: &str, parameters: &Value) -> Planned<Value>;
    fn inject(&self, machine: &Machine, record: &Value) -> Result<()>;
    fn undo(&self, machine: &Machine, record: &Value) -> Result<()>;
    /// Refuses what is no undo record of this kind.
    fn check_record(&self, record: &Value) -> Result<()>;
    /// Its scale, and what measures by it.
    fn dose_reader(
        &self,
        machine: &Arc<Machine>,
        record: &Value,
    ) -> Result<(Scale, Box<dyn DoseReader>)>;
}

impl<F: Fault> Kind for F {
    fn name(&self) -> &'static str {
        F::KIND
    }

    fn description(&self) -> Description {
        let is_interference = F::KIND.starts_with("interference.");
        Description {
            kind: F::KIND,
            summary: F::SUMMARY,
            commands: F::COMMANDS,
            undo: F::UNDO,
            group: if is_interference { "interference" } else { "fault" },
            stops_service: F::STOPS_SERVICE,
            dose: F::DOSE,
            parameters: F::PARAMETERS,
        }
    }

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        Fault::capability(self, machine).map_err(|error| format!("{error:#}"))
    }

    fn complete(&self, parameters: &Value) -> Result<Value, Refusal> {
        erase(&parsed::<F>(parameters)?)
    }

    fn resource(&self, parameters: &Value) -> Result<String, Refusal> {
        Ok(Fault::resource(self, &parsed::<F>(parameters)?))
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Value) -> Planned<Value> {
        erase(&Fault::plan(self, machine, id, &parsed::<F>(parameters)?)?)
    }

    fn inject(&self, machine: &Machine, record: &Value) -> Result<()> {
        Fault::inject(self, machine, &typed::<F>(record)?)
    }

    fn undo(&self, machine: &Machine, record: &Value) -> Result<()> {
        Fault::undo(self, machine, &typed::<F>(record)?)
    }

    fn check_record(&self, record: &Value) -> Result<()> {
        typed::<F>(record).map(drop)
    }

    fn dose_reader(
        &self,
        machine: &Arc<Machine>,
        record: &Value,
    ) -> Result<(Scale, Box<dyn DoseReader>)> {
        Ok((F::DOSE, Fault::dose_reader(self, machine, &typed::<F>(record)?)))
    }
}

fn parsed<F: Fault>(parameters: &Value) -> Result<F::Parameters, Refusal> {
    let refuse = |error| Refusal::Invalid(format!("parameters of {}: {error}", F::KIND));
    let complete = parameter::complete(F::PARAMETERS, parameters).map_err(refuse)?;
    serde_json::from_value(complete).map_err(|error| refuse(error.to_string()))
}

fn erase(value: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::Failed(error.to_string()))
}

fn typed<F: Fault>(record: &Value) -> Result<F::Record> {
    serde_json::from_value(record.clone())
        .with_context(|| format!("the undo record of {}", F::KIND))
}

/// Every kind with its parameters, as `nodeagent --kinds` prints them.
pub fn kinds_json() -> Result<String> {
    let faults: Vec<Description> = all().iter().map(|kind| kind.description()).collect();
    let kinds = serde_json::json!({"schema": 1, "lease_s_max": LEASE_S_MAX, "faults": faults});
    Ok(serde_json::to_string_pretty(&kinds)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut names: Vec<_> = all().iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_commands_name_in_braces_is_a_parameter() {
        for kind in all() {
            let description = serde_json::to_value(kind.description()).unwrap();
            let text = format!("{} {}", description["commands"], description["undo"]);
            for part in text.split('{').skip(1) {
                let name = part.split('}').next().unwrap();
                let of_kind = description["parameters"].as_array().unwrap();
                let is_parameter = of_kind.iter().any(|parameter| parameter["name"] == name);
                assert!(is_parameter, "{}: {name}", kind.name());
            }
        }
    }
}
