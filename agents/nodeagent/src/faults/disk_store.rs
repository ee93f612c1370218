//! Shared parts of the pass-through's faults: it is told what to do, and counts what it did.

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};

use super::dose::{Probe, Reading};
use super::parameter::{Default, Parameter};
use super::Refusal;
use crate::machine::memory::is_mounted;
use crate::machine::store::Store;
use crate::machine::Machine;
use crate::store::control::Request;
use crate::store::io_faults::{Counts, Harm, IoFault, Of};

/// There is one pass-through, and one fault in it at a time.
pub const RESOURCE: &str = "store";
/// Less than so many that were to be expected say nothing.
const EXPECTED_MIN: f64 = 10.0;
/// Of a delay: clocks and timers are not to the microsecond.
const DELAY_SHARE_MIN: f64 = 0.9;

pub const OF: Parameter = Parameter::string("of", "which I/Os it meets")
    .one_of(&["all", "read", "write", "fsync"])
    .or(Default::Text("all"));
pub const SEED: Parameter = Parameter::integer("seed", "decides which of them")
    .at_most(1e15)
    .or(Default::Number(1.0));
pub const UNDO: &str = "the pass-through over the role's data folder: as without a fault; the \
                        role is started if it has ended of it";

/// The whole fault, as the pass-through takes it.
pub type Record = IoFault;

/// Whether a pass-through can be mounted here, and passes through: tried once for all its faults.
pub fn can(machine: &Machine) -> Result<()> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| mount_one(machine).map_err(|error| format!("{error:#}")));
    tried.clone().map_err(|why| anyhow!(why))
}

fn mount_one(machine: &Machine) -> Result<()> {
    let mut config = machine.config.clone();
    config.state_dir = machine.config.state_dir.join("try-store");
    let folder = config.state_dir.join("data");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let store = Store::new(&config, machine.cgroups.clone());
    let tried = store.start(&folder).and_then(|()| {
        let file = folder.join("file");
        fs::write(&file, "as it was").context("cannot write through a pass-through")?;
        let read = fs::read_to_string(&file).context("cannot read through a pass-through")?;
        ensure!(read == "as it was", "a pass-through gave {read:?} back");
        Ok(())
    });
    let ended = store.end();
    tried.and(ended)?;
    fs::remove_dir_all(&config.state_dir).context("the tried pass-through")
}

/// Refuses where the role's data does not lie under a pass-through.
pub fn plan(
    machine: &Machine,
    id: &str,
    of: Of,
    harm: Harm,
    seed: u64,
) -> Result<IoFault, Refusal> {
    let folder = machine.role.store().folder();
    if !folder.is_some_and(|folder| is_mounted(&folder)) {
        return Err(Refusal::Conflict(
            "the role's data does not lie under a pass-through; the role's setting STORE_FAULTS \
             must be on"
                .into(),
        ));
    }
    Ok(IoFault {
        id: id.into(),
        of,
        harm,
        seed,
    })
}

pub fn inject(machine: &Machine, record: &IoFault) -> Result<()> {
    let request = Request::Set(record.clone());
    machine.role.store().ask(&request).map(drop)
}

/// A pass-through that is gone has no fault.
pub fn undo(machine: &Machine, record: &IoFault) -> Result<()> {
    let store = machine.role.store();
    match store.ask(&Request::Clear(record.id.clone())) {
        Err(error) if store.folder().is_some_and(|folder| is_mounted(&folder)) => Err(error),
        _ => machine.role.revive(),
    }
}

/// What one look says of a fault: asked, measured, and whether it bit.
pub type Told = fn(&IoFault, &Counts) -> (Option<f64>, Option<f64>, Option<bool>);

pub fn probe(machine: &Arc<Machine>, record: &IoFault, told: Told) -> Box<dyn Probe> {
    Box::new(Counted {
        machine: machine.clone(),
        trouble: record.clone(),
        told,
        counts: Counts::default(),
        samples: 0,
        held: Duration::ZERO,
    })
}

struct Counted {
    machine: Arc<Machine>,
    trouble: IoFault,
    told: Told,
    counts: Counts,
    samples: u64,
    held: Duration,
}

impl Probe for Counted {
    fn look(&mut self, held: Duration) -> Result<()> {
        let counts = self.machine.role.store().look(&self.trouble.id)?;
        self.counts = counts.context("the pass-through does not have the fault any more")?;
        self.samples += 1;
        self.held = held;
        Ok(())
    }

    fn reading(&self) -> Reading {
        let (asked, measured, bit) = (self.told)(&self.trouble, &self.counts);
        Reading {
            asked,
            measured,
            bit,
            samples: self.samples,
            seconds: self.held.as_secs_f64(),
        }
    }
}

/// Of a share: it bit if no fewer were hit than five standard deviations below what is expected.
pub fn share_bit(share: f64, counts: &Counts) -> Option<bool> {
    let (expected, hit) = (share * counts.seen as f64, counts.hit as f64);
    let bit = hit > 0.0 && hit >= expected - 5.0 * expected.sqrt();
    (expected >= EXPECTED_MIN || bit).then_some(bit)
}

/// Of a delay: it bit if those that it held up waited about so long.
pub fn delay_bit(delay_s: f64, counts: &Counts) -> Option<bool> {
    let mean_s = mean_wait_s(counts)?;
    Some(mean_s >= DELAY_SHARE_MIN * delay_s)
}

/// How long those waited that it held up and that went on.
pub fn mean_wait_s(counts: &Counts) -> Option<f64> {
    (counts.went_on > 0).then(|| counts.waited_s / counts.went_on as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_nothing_met_says_nothing_and_one_that_hit_far_too_few_did_not_bite() {
        let counts = |seen, hit| Counts {
            seen,
            hit,
            ..Counts::default()
        };
        assert_eq!(share_bit(0.1, &counts(0, 0)), None);
        assert_eq!(share_bit(0.1, &counts(1_000, 100)), Some(true));
        assert_eq!(share_bit(0.1, &counts(1_000, 20)), Some(false));
    }

    #[test]
    fn a_delay_is_judged_by_those_that_went_on() {
        let counts = |went_on, waited_s| Counts {
            went_on,
            waited_s,
            ..Counts::default()
        };
        assert_eq!(delay_bit(0.1, &counts(0, 0.0)), None);
        assert_eq!(delay_bit(0.1, &counts(10, 1.02)), Some(true));
        assert_eq!(delay_bit(0.1, &counts(10, 0.2)), Some(false));
    }
}
