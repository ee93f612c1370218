//! `memory.alloc_failure`: a share of the role's allocations gets no memory (ENOMEM; Mendosus).

use serde::{Deserialize, Serialize};

use super::disk_io::SEED;
use super::libc_interposer::{CallFault, Interposed, MALLOC, NULL, PERCENT};
use super::parameter::Parameter;
use super::Refusal;
use crate::machine::calls::Alteration;

pub struct MemoryAllocFailure;
pub const MEMORY_ALLOC_FAILURE: Interposed<MemoryAllocFailure> = Interposed(MemoryAllocFailure);

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    seed: u64,
}

impl CallFault for MemoryAllocFailure {
    const KIND: &'static str = "memory.alloc_failure";
    const SUMMARY: &'static str = "a share of the role's allocations fails";
    const COMMANDS: &'static str =
        "the library in the role's processes: NULL from malloc, calloc and realloc in {percent} % of calls, by {seed}";
    const PARAMETERS: &'static [Parameter] = &[PERCENT, SEED];
    type Parameters = Parameters;

    fn alteration(parameters: &Parameters) -> Result<Alteration, Refusal> {
        Ok(Alteration {
            calls: MALLOC,
            harm: NULL,
            error: 0,
            share: parameters.percent / 100.0,
            seed: parameters.seed,
        })
    }
}
