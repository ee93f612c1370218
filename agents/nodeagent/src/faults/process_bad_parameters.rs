//! `process.bad_parameters`: a share of the role's library calls is made with a bad parameter, or fails
//! (Mendosus's application faults: NULL, and off by one in a pointer or a size).

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::disk_io::SEED;
use super::dose::{Probe, Scale};
use super::libc_interposer::{self, ERROR, MALLOC, NULL, PERCENT, RESOURCE};
use super::parameter::{Default, Parameter};
use super::{Fault, Refusal};
use crate::machine::calls::Altered;
use crate::machine::Machine;

pub struct ProcessBadParameters;

/// As the library numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Call {
    Read = 1,
    Write = 2,
    Open = 4,
    Send = 8,
    Recv = 16,
    Malloc = MALLOC as isize,
}

/// As the library numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bad {
    Null = NULL as isize,
    Pointer = 2,
    Longer = 3,
    Shorter = 4,
    Errno = ERROR as isize,
}

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    call: Call,
    bad: Bad,
    percent: f64,
    errno: u32,
    seed: u64,
}

impl Fault for ProcessBadParameters {
    const KIND: &'static str = "process.bad_parameters";
    const SUMMARY: &'static str = "a share of the role's library calls has a bad parameter";
    const COMMANDS: &'static str =
        "the library in the role's processes: {bad} in {percent} % of calls of {call}, by {seed}; {errno}";
    const UNDO: &'static str = libc_interposer::UNDO;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::string("call", "which calls; read and write with pread and pwrite")
            .one_of(&["read", "write", "open", "send", "recv", "malloc"]),
        Parameter::string("bad", "what becomes of them; errno: not made, but failed")
            .one_of(&["null", "pointer", "longer", "shorter", "errno"]),
        PERCENT,
        Parameter::integer("errno", "the error of a call that is failed (5: EIO)")
            .at_least(1.0)
            .at_most(133.0)
            .or(Default::Number(5.0)),
        SEED,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "calls that were altered, of those that may be, counted by the library",
    };
    type Parameters = Parameters;
    type Record = Altered;

    fn capability(&self, machine: &Machine) -> Result<()> {
        libc_interposer::can(machine)
    }

    fn resource(&self, _parameters: &Parameters) -> String {
        RESOURCE.into()
    }

    fn plan(
        &self,
        machine: &Machine,
        _id: &str,
        parameters: &Parameters,
    ) -> Result<Altered, Refusal> {
        let (call, bad) = (parameters.call, parameters.bad);
        let has_size = call != Call::Open;
        let has_pointer = call != Call::Malloc;
        if (!has_size && matches!(bad, Bad::Longer | Bad::Shorter))
            || (!has_pointer && bad == Bad::Pointer)
        {
            return Err(Refusal::Invalid(format!(
                "parameters of {}: {call:?} has no parameter that can be {bad:?}",
                Self::KIND
            )));
        }
        let altered = Altered {
            calls: call as u32,
            harm: bad as u32,
            error: parameters.errno,
            share: parameters.percent / 100.0,
            seed: parameters.seed,
        };
        libc_interposer::plan(machine, altered)
    }

    fn inject(&self, machine: &Machine, record: &Altered) -> Result<()> {
        libc_interposer::inject(machine, record)
    }

    fn undo(&self, machine: &Machine, _record: &Altered) -> Result<()> {
        libc_interposer::undo(machine)
    }

    fn probe(&self, machine: &Arc<Machine>, record: &Altered) -> Box<dyn Probe> {
        libc_interposer::probe(machine, record)
    }
}
