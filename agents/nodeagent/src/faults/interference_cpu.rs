//! `interference.cpu`: processes that spin at normal priority next to the role (sPARE section 6.1).

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{neighbour, within, Fault, Refusal};
use crate::machine::Machine;

pub struct InterferenceCpu;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    workers: u32,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    workers: u32,
}

impl Fault for InterferenceCpu {
    const KIND: &'static str = "interference.cpu";
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, _machine: &Machine) -> Result<(), String> {
        Ok(())
    }

    fn plan(&self, _machine: &Machine, id: &str, wish: &Parameters) -> Result<Record, Refusal> {
        within("workers", f64::from(wish.workers), 1.0, 64.0)?;
        Ok(Record {
            id: id.into(),
            workers: wish.workers,
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        neighbour::start_all(
            machine,
            &record.id,
            &vec![Vec::new(); record.workers as usize],
        )
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)
    }
}
