//! The faults, one per file, behind one small trait. `agents/README.md` tells how to add one.

mod cpu_limp;
mod disk_limp;
mod interference_cpu;
mod interference_iperf;
mod interference_iperf_server;
mod neighbour;
mod net_limp;
mod net_link_down;
mod net_loss;
mod process_crash;
mod process_hang;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;

use crate::machine::Machine;

pub use neighbour::run as run_neighbour;

/// Why a request is not carried out.
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

/// One kind of fault.
pub trait Fault: Send + Sync + 'static {
    /// Its name in the API.
    const KIND: &'static str;
    /// Its parameters; unknown ones are refused, absent ones filled in.
    type Parameters: Serialize + DeserializeOwned;
    /// What `inject` does and `undo` needs, kept on disk from before the one until after the other.
    type Record: Serialize + DeserializeOwned;

    /// Really tries, without touching the data interface or the role, whether this machine can do
    /// it.
    fn capability(&self, machine: &Machine) -> Result<(), String>;
    /// What no two faults may hold at once; each kind holds its own unless it says otherwise.
    fn resource(&self, _wish: &Self::Parameters) -> String {
        Self::KIND.into()
    }
    /// Checks the parameters and that nothing foreign is in the way. Changes nothing.
    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        wish: &Self::Parameters,
    ) -> Result<Self::Record, Refusal>;
    /// Does it. If it fails half-way, `undo` is called.
    fn inject(&self, machine: &Machine, record: &Self::Record) -> Result<()>;
    /// Undoes it, also if it was never or only partly injected, or is undone already; touches only
    /// its own.
    fn undo(&self, machine: &Machine, record: &Self::Record) -> Result<()>;
}

/// A fault with its types erased, as the engine holds it.
pub trait Kind: Send + Sync {
    fn name(&self) -> &'static str;
    fn capability(&self, machine: &Machine) -> Result<(), String>;
    /// The parameters with their defaults filled in.
    fn complete(&self, parameters: &Value) -> Result<Value, Refusal>;
    fn resource(&self, parameters: &Value) -> Result<String, Refusal>;
    fn plan(&self, machine: &Machine, id: &str, parameters: &Value) -> Result<Value, Refusal>;
    fn inject(&self, machine: &Machine, record: &Value) -> Result<()>;
    fn undo(&self, machine: &Machine, record: &Value) -> Result<()>;
}

impl<F: Fault> Kind for F {
    fn name(&self) -> &'static str {
        F::KIND
    }

    fn capability(&self, machine: &Machine) -> Result<(), String> {
        Fault::capability(self, machine)
    }

    fn complete(&self, parameters: &Value) -> Result<Value, Refusal> {
        erase(&wish::<F>(parameters)?)
    }

    fn resource(&self, parameters: &Value) -> Result<String, Refusal> {
        Ok(Fault::resource(self, &wish::<F>(parameters)?))
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Value) -> Result<Value, Refusal> {
        erase(&Fault::plan(self, machine, id, &wish::<F>(parameters)?)?)
    }

    fn inject(&self, machine: &Machine, record: &Value) -> Result<()> {
        Fault::inject(self, machine, &typed::<F>(record)?)
    }

    fn undo(&self, machine: &Machine, record: &Value) -> Result<()> {
        Fault::undo(self, machine, &typed::<F>(record)?)
    }
}

fn wish<F: Fault>(parameters: &Value) -> Result<F::Parameters, Refusal> {
    serde_json::from_value(parameters.clone())
        .map_err(|error| Refusal::Invalid(format!("parameters of {}: {error}", F::KIND)))
}

fn erase(what: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(what).map_err(|error| Refusal::Failed(error.to_string()))
}

fn typed<F: Fault>(record: &Value) -> Result<F::Record> {
    serde_json::from_value(record.clone())
        .with_context(|| format!("the undo record of {}", F::KIND))
}

/// Every kind of fault and interference that there is.
pub fn all() -> Vec<Box<dyn Kind>> {
    vec![
        Box::new(process_crash::ProcessCrash),
        Box::new(process_hang::ProcessHang),
        Box::new(net_loss::NetLoss),
        Box::new(net_limp::NetLimp),
        Box::new(net_link_down::NetLinkDown),
        Box::new(cpu_limp::CpuLimp),
        Box::new(disk_limp::DiskLimp),
        Box::new(interference_cpu::InterferenceCpu),
        Box::new(interference_iperf_server::InterferenceIperfServer),
        Box::new(interference_iperf::InterferenceIperf),
    ]
}

/// Refuses a number outside `low..=high`, naming it.
fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), Refusal> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Refusal::Invalid(format!(
        "{name} must be from {low} to {high}, not {value}"
    )))
}

/// A slow-down factor: over 1, up to a million.
fn check_factor(factor: f64) -> Result<(), Refusal> {
    if factor > 1.0 && factor <= 1e6 {
        return Ok(());
    }
    Err(Refusal::Invalid(format!(
        "factor must be over 1 and at most 1000000, not {factor}"
    )))
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
        assert_eq!((names.len(), count), (10, 10));
    }

    #[test]
    fn a_factor_that_slows_nothing_is_refused() {
        for factor in [1.0, 0.0, -3.0, f64::NAN, f64::INFINITY, 2e6] {
            assert!(check_factor(factor).is_err(), "{factor}");
        }
        assert!(check_factor(10.0).is_ok() && check_factor(1.5).is_ok());
    }
}
