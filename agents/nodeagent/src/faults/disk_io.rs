//! `disk.full`, `disk.error`, `disk.slow` and `disk.hang`: the file system of the role's data has a
//! stated room left and then none (ENOSPC); a share of its reads, writes or fsyncs gets EIO
//! (Mendosus), takes a stated time longer, or does not return. The pass-through over the role's
//! data folder is told what to do, and counts what it did.

use std::fs;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dose::{share_of_role, DoseReader, Reading, Scale};
use super::parameter::{Default, Parameter};
use super::{Fault, Planned, Refusal};
use crate::machine::memory::is_mounted;
use crate::machine::store::Store;
use crate::machine::Machine;
use crate::store::control::Request;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

/// Share of a delay that counts as the whole: timers are not exact.
const DELAY_SHARE_MIN: f64 = 0.9;

const OF: Parameter = Parameter::string("of", "which I/Os it meets")
    .one_of(&["all", "read", "write", "fsync"])
    .or(Default::Text("all"));
pub const SEED: Parameter =
    Parameter::integer("seed", "decides which of them").at_most(1e15).or(Default::Number(1.0));
/// A requested harm to I/Os of a kind, drawn by a seed.
pub struct PlannedHarm {
    harm: Harm,
    of: Of,
    seed: u64,
}

/// A harm of the pass-through.
pub trait DiskIo: Send + Sync + 'static {
    const KIND: &'static str;
    const SUMMARY: &'static str;
    const COMMANDS: &'static str;
    const PARAMETERS: &'static [Parameter];
    const DOSE: Scale;
    type Parameters: Serialize + DeserializeOwned;
    fn plan_harm(parameters: &Self::Parameters) -> PlannedHarm;
    fn reading(harm: &Harm, counts: &Counts) -> Reading;
}

pub struct Full;
pub struct Error;
pub struct Slow;
pub struct Hang;
pub struct Harmed<D>(PhantomData<D>);
pub const DISK_FULL: Harmed<Full> = Harmed(PhantomData);
pub const DISK_ERROR: Harmed<Error> = Harmed(PhantomData);
pub const DISK_SLOW: Harmed<Slow> = Harmed(PhantomData);
pub const DISK_HANG: Harmed<Hang> = Harmed(PhantomData);

#[derive(Serialize, Deserialize)]
pub struct FullParameters {
    free_mb: f64,
}

impl DiskIo for Full {
    const KIND: &'static str = "disk.full";
    const SUMMARY: &'static str = "the file system of the role's data is full";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: ENOSPC to what grows by more than {free_mb} MB";
    const PARAMETERS: &'static [Parameter] = &[Parameter::number("free_mb", "room that is left")
        .in_unit("MB")
        .at_least(0.0)
        .at_most(1e6)
        .or(Default::Number(0.0))];
    const DOSE: Scale =
        Scale { unit: "writes", how: "writes that got ENOSPC, counted by the pass-through" };
    type Parameters = FullParameters;

    fn plan_harm(parameters: &FullParameters) -> PlannedHarm {
        PlannedHarm {
            harm: Harm::Full { bytes: (parameters.free_mb * 1e6) as u64 },
            of: Of::All,
            seed: 0,
        }
    }

    fn reading(_harm: &Harm, counts: &Counts) -> Reading {
        count_of(counts.hits)
    }
}

#[derive(Serialize, Deserialize)]
pub struct ErrorParameters {
    percent: f64,
    of: Of,
    seed: u64,
}

impl DiskIo for Error {
    const KIND: &'static str = "disk.error";
    const SUMMARY: &'static str = "a share of the disk's I/Os fails with EIO";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: EIO to {percent} % of {of} I/Os, by {seed}";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("percent", "share of I/Os that fail")
            .in_unit("%")
            .above(0.0)
            .at_most(100.0),
        OF,
        SEED,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "I/Os that got EIO, of those that it may meet, counted by the pass-through",
    };
    type Parameters = ErrorParameters;

    fn plan_harm(parameters: &ErrorParameters) -> PlannedHarm {
        let share = parameters.percent / 100.0;
        PlannedHarm { harm: Harm::Fail { share }, of: parameters.of, seed: parameters.seed }
    }

    fn reading(harm: &Harm, counts: &Counts) -> Reading {
        match *harm {
            Harm::Fail { share } => share_of_role(share, counts.total as f64, counts.hits as f64),
            _ => Reading::default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct SlowParameters {
    delay_ms: f64,
    one_of: u64,
    of: Of,
    seed: u64,
}

impl DiskIo for Slow {
    const KIND: &'static str = "disk.slow";
    const SUMMARY: &'static str = "each of the disk's I/Os, or one of so many, takes longer";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: {delay_ms} ms before one of {one_of} {of} I/Os, by {seed}";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("delay_ms", "how much longer it takes")
            .in_unit("ms")
            .at_least(0.1)
            .at_most(600_000.0),
        Parameter::integer("one_of", "of so many I/Os one is slow, at random")
            .at_least(1.0)
            .at_most(1e9)
            .or(Default::Number(1.0)),
        OF,
        SEED,
    ];
    const DOSE: Scale = Scale {
        unit: "ms",
        how: "mean wait of the I/Os that it held up and that went on, by the pass-through's clock",
    };
    type Parameters = SlowParameters;

    fn plan_harm(parameters: &SlowParameters) -> PlannedHarm {
        PlannedHarm {
            harm: Harm::Slow {
                share: 1.0 / parameters.one_of as f64,
                delay_s: parameters.delay_ms / 1e3,
            },
            of: parameters.of,
            seed: parameters.seed,
        }
    }

    fn reading(harm: &Harm, counts: &Counts) -> Reading {
        match *harm {
            Harm::Slow { delay_s, .. } => delay(delay_s, counts),
            _ => Reading::default(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct HangParameters {
    of: Of,
}

impl DiskIo for Hang {
    const KIND: &'static str = "disk.hang";
    const SUMMARY: &'static str = "the disk's I/Os do not return";
    const COMMANDS: &'static str =
        "the pass-through over the role's data folder: no answer to {of} I/Os";
    const PARAMETERS: &'static [Parameter] = &[OF];
    const DOSE: Scale =
        Scale { unit: "I/Os", how: "I/Os that have not returned, counted by the pass-through" };
    type Parameters = HangParameters;

    fn plan_harm(parameters: &HangParameters) -> PlannedHarm {
        PlannedHarm { harm: Harm::Hang, of: parameters.of, seed: 0 }
    }

    fn reading(_harm: &Harm, counts: &Counts) -> Reading {
        count_of(counts.waiting)
    }
}

impl<D: DiskIo> Fault for Harmed<D> {
    const KIND: &'static str = D::KIND;
    const SUMMARY: &'static str = D::SUMMARY;
    const COMMANDS: &'static str = D::COMMANDS;
    const UNDO: &'static str =
        "the pass-through over the role's data folder: as without a fault; the \
                                role is started if it has ended of it";
    const PARAMETERS: &'static [Parameter] = D::PARAMETERS;
    const DOSE: Scale = D::DOSE;
    type Parameters = D::Parameters;
    type Record = IoFault;

    /// Mounts a pass-through and reads through it: tried once for all its faults.
    fn capability(&self, machine: &Machine) -> Result<()> {
        static TRIAL: OnceLock<Result<(), String>> = OnceLock::new();
        let trial = TRIAL.get_or_init(|| mount_one(machine).map_err(|error| format!("{error:#}")));
        trial.clone().map_err(|error| anyhow!(error))
    }

    /// One resource: there is one pass-through, with one fault at a time.
    fn resource(&self, _parameters: &D::Parameters) -> String {
        "store".into()
    }

    /// Refuses a role whose data does not lie under a pass-through.
    fn plan(&self, machine: &Machine, id: &str, parameters: &D::Parameters) -> Planned<IoFault> {
        let folder = machine.role.store().folder();
        if !folder.is_some_and(|folder| is_mounted(&folder)) {
            return Err(Refusal::Conflict(
                "the role's data does not lie under a pass-through; the role's setting \
                 STORE_FAULTS must be on"
                    .into(),
            ));
        }
        let PlannedHarm { harm, of, seed } = D::plan_harm(parameters);
        Ok(IoFault { id: id.into(), of, harm, seed })
    }

    fn inject(&self, machine: &Machine, record: &IoFault) -> Result<()> {
        let request = Request::Set(record.clone());
        machine.role.store().ask(&request).map(drop)
    }

    /// Undoes it; a pass-through that is gone has no fault.
    fn undo(&self, machine: &Machine, record: &IoFault) -> Result<()> {
        let store = machine.role.store();
        match store.ask(&Request::Clear(record.id.clone())) {
            Err(error) if store.folder().is_some_and(|folder| is_mounted(&folder)) => Err(error),
            _ => machine.role.revive(),
        }
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &IoFault) -> Box<dyn DoseReader> {
        Box::new(Counted {
            machine: machine.clone(),
            trouble: record.clone(),
            judge: D::reading,
            counts: Counts::default(),
        })
    }
}

fn mount_one(machine: &Machine) -> Result<()> {
    let mut config = machine.config.clone();
    config.state_dir = machine.config.state_dir.join("try-store");
    let folder = config.state_dir.join("data");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let store = Store::new(&config, machine.cgroups.clone());
    let result = store.start(&folder).and_then(|()| {
        let file = folder.join("file");
        fs::write(&file, "as it was").context("cannot write through a pass-through")?;
        let text = fs::read_to_string(&file).context("cannot read through a pass-through")?;
        ensure!(text == "as it was", "a pass-through gave {text:?} back");
        Ok(())
    });
    let end = store.end();
    result.and(end)?;
    fs::remove_dir_all(&config.state_dir).context("the tried pass-through")
}

struct Counted {
    machine: Arc<Machine>,
    trouble: IoFault,
    judge: fn(&Harm, &Counts) -> Reading,
    counts: Counts,
}

impl DoseReader for Counted {
    fn look(&mut self, _held: Duration) -> Result<()> {
        let counts = self.machine.role.store().look(&self.trouble.id)?;
        self.counts = counts.context("the pass-through does not have the fault any more")?;
        Ok(())
    }

    fn reading(&self) -> Reading {
        (self.judge)(&self.trouble.harm, &self.counts)
    }
}

/// Judges a count of I/Os without a known target: any is a bite.
fn count_of(met: u64) -> Reading {
    Reading { measured: Some(met as f64), bit: (met > 0).then_some(true), ..Reading::default() }
}

/// Judges a delay: it bit if the delayed I/Os that completed waited about that long.
fn delay(delay_s: f64, counts: &Counts) -> Reading {
    let mean_s = (counts.went_on > 0).then(|| counts.waited_s / counts.went_on as f64);
    Reading {
        asked: Some(1e3 * delay_s),
        measured: mean_s.map(|mean_s| 1e3 * mean_s),
        bit: mean_s.map(|mean_s| mean_s >= DELAY_SHARE_MIN * delay_s),
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_judged_by_those_that_went_on() {
        let bit = |went_on, waited_s| {
            let counts = Counts { went_on, waited_s, ..Counts::default() };
            delay(0.1, &counts).bit
        };
        assert_eq!(bit(0, 0.0), None);
        assert_eq!(bit(10, 1.02), Some(true));
        assert_eq!(bit(10, 0.2), Some(false));
    }
}
