//! Shared parts of the loaded library's faults: it is told which calls to alter, and counts them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::dose::{share_of_role, DoseReader, Reading, Scale};
use super::parameter::Parameter;
use super::{Fault, Planned, Refusal};
use crate::machine::calls::{Alteration, Calls, Counts};
use crate::machine::Machine;

pub const PERCENT: Parameter = Parameter::number("percent", "share of calls that are altered")
    .in_unit("%")
    .above(0.0)
    .at_most(100.0);
/// Bit of `malloc` in the library's `enum call`.
pub const MALLOC: u32 = 32;
/// Number of a null result in its `enum harm`.
pub const NULL: u32 = 1;
pub const ERROR: u32 = 5;

/// A fault of the role's calls of the C library; the rest of a [`Fault`] is the same.
pub trait CallFault: Send + Sync + 'static {
    const KIND: &'static str;
    const SUMMARY: &'static str;
    const COMMANDS: &'static str;
    const PARAMETERS: &'static [Parameter];
    type Parameters: Serialize + DeserializeOwned;

    /// The calls to alter, and how.
    fn alteration(parameters: &Self::Parameters) -> Result<Alteration, Refusal>;
}

pub struct Interposed<F>(pub F);

impl<F: CallFault> Fault for Interposed<F> {
    const KIND: &'static str = F::KIND;
    const SUMMARY: &'static str = F::SUMMARY;
    const COMMANDS: &'static str = F::COMMANDS;
    const UNDO: &'static str =
        "the library's control file: no call is altered; the role is started if it has ended of it";
    const PARAMETERS: &'static [Parameter] = F::PARAMETERS;
    const DOSE: Scale = Scale {
        unit: "%",
        how: "calls that were altered, of those that may be, counted by the library",
    };
    type Parameters = F::Parameters;
    type Record = Alteration;

    fn capability(&self, machine: &Machine) -> Result<()> {
        Calls::can(&machine.config.state_dir.join("try-calls"))
    }

    /// One resource: there is one library, with one fault at a time.
    fn resource(&self, _parameters: &Self::Parameters) -> String {
        "calls".into()
    }

    /// Refuses a role of which no process has loaded the library.
    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        parameters: &Self::Parameters,
    ) -> Planned<Alteration> {
        let alteration = F::alteration(parameters)?;
        let calls = machine.role.calls();
        let mut processes = machine.role.processes().into_iter();
        if !processes.any(|process| calls.is_in(process.pid)) {
            return Err(Refusal::Conflict(
                "no process of the role has the library in it: the role's setting CALL_FAULTS must \
                 be on, and its program be linked with the C library at run time"
                    .into(),
            ));
        }
        Ok(alteration)
    }

    fn inject(&self, machine: &Machine, record: &Alteration) -> Result<()> {
        machine.role.calls().alter(record)
    }

    fn undo(&self, machine: &Machine, _record: &Alteration) -> Result<()> {
        machine.role.calls().leave()?;
        machine.role.revive()
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Alteration) -> Box<dyn DoseReader> {
        Box::new(Hits { machine: machine.clone(), share: record.share, counts: Counts::default() })
    }
}

struct Hits {
    machine: Arc<Machine>,
    share: f64,
    counts: Counts,
}

impl DoseReader for Hits {
    fn look(&mut self, _held: Duration) -> Result<()> {
        self.counts = self.machine.role.calls().counts()?;
        Ok(())
    }

    fn reading(&self) -> Reading {
        let Counts { calls, alterations } = self.counts;
        share_of_role(self.share, calls as f64, alterations as f64)
    }
}
