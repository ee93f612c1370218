//! `process.bad_parameters`: a share of the role's library calls is made with a bad parameter, or fails
//! (Mendosus's application faults: NULL, and off by one in a pointer or a size).

use serde::{Deserialize, Serialize};

use super::disk_io::SEED;
use super::libc_interposer::{CallFault, Interposed, ERROR, MALLOC, NULL, PERCENT};
use super::parameter::{Default, Parameter};
use super::Refusal;
use crate::machine::calls::Alteration;

pub struct ProcessBadParameters;
pub const PROCESS_BAD_PARAMETERS: Interposed<ProcessBadParameters> =
    Interposed(ProcessBadParameters);

/// System calls, by the library's numbers.
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

/// Harms, by the library's numbers.
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

impl CallFault for ProcessBadParameters {
    const KIND: &'static str = "process.bad_parameters";
    const SUMMARY: &'static str = "a share of the role's library calls has a bad parameter";
    const COMMANDS: &'static str =
        "the library in the role's processes: {bad} in {percent} % of calls of {call}, by {seed}; {errno}";
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
    type Parameters = Parameters;

    fn alteration(parameters: &Parameters) -> Result<Alteration, Refusal> {
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
        Ok(Alteration {
            calls: call as u32,
            harm: bad as u32,
            error: parameters.errno,
            share: parameters.percent / 100.0,
            seed: parameters.seed,
        })
    }
}
