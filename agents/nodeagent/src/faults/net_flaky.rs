//! `net.flaky`: the link of the machine goes down and comes up again, by a schedule that is drawn
//! from a seed.
//!
//! The way beyond the card goes down: packets are dropped in both directions of the data
//! interface by an nft table of our own, so that routes and connections stay as they are when a
//! cable or a switch fails. (`net.link_down` takes the card down.) Machines that get one seed and
//! one `epoch_ms` flip at the same moments: that is a flaky switch, and one that is down where its
//! first outage lasts for longer than the fault.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

use super::dose::{DoseReader, Reading, Scale};
use super::flip_schedule::{Parameters, Schedule, LENGTH_S_MAX, LENGTH_S_MIN};
use super::net_loss::Direction;
use super::parameter::{Default, Parameter};
use super::{nft, Fault, Planned};
use crate::clock::Clock;
use crate::machine::workers::Stop;
use crate::machine::Machine;

pub struct NetFlaky;

const PREFIX: &str = "sparecraft_flaky_";
const TRIAL: &str = "sparecraft_probe_flaky";
/// Largest range of integers that are exact in JSON.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// Maximum age of a schedule that is still followed from its beginning.
const AGE_S_MAX: f64 = 86_400.0;

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    table: String,
    interface: String,
    parameters: Parameters,
}

impl Fault for NetFlaky {
    const KIND: &'static str = "net.flaky";
    const SUMMARY: &'static str = "the data interface's link down and up again, by a schedule";
    const COMMANDS: &'static str =
        "nft -f -: table netdev sparecraft_flaky_ID; into its chains at the data interface a rule \
         that drops all, for {outage_s} s, and out of them for {gap_s} s, and so on ({law}, spread \
         {spread_s} s, seed {seed})";
    const UNDO: &'static str = "nft delete table netdev sparecraft_flaky_ID";
    const STOPS_SERVICE: bool = true;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::string(
            "law",
            "how long it is down and up: always so, exponential, or Gaussian about the mean",
        )
        .one_of(&["fixed", "poisson", "gaussian"])
        .or(Default::Text("poisson")),
        Parameter::number("outage_s", "mean time down; the first one begins with the fault")
            .in_unit("s")
            .at_least(LENGTH_S_MIN)
            .at_most(LENGTH_S_MAX),
        Parameter::number("gap_s", "mean time up")
            .in_unit("s")
            .at_least(LENGTH_S_MIN)
            .at_most(LENGTH_S_MAX),
        Parameter::number("spread_s", "standard deviation of both, where law is gaussian")
            .in_unit("s")
            .at_least(0.0)
            .at_most(LENGTH_S_MAX)
            .or(Default::Number(0.0)),
        Parameter::integer(
            "seed",
            "what it is drawn from; in a design the block's, if none is given",
        )
        .at_most(INTEGER_MAX)
        .optional(),
        Parameter::integer(
            "epoch_ms",
            "Unix time of its beginning; in a design when the fault was to begin, on all machines",
        )
        .in_unit("ms")
        .at_most(INTEGER_MAX)
        .optional(),
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "share of the time in which the kernel had the rule that drops all, from when it was \
              put in until it was taken out; samples are the flips; asked is the schedule's share \
              of the same time",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        machine.data()?;
        nft::check(&(table(TRIAL, "lo") + &flip(TRIAL, true)))
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let data = machine.data()?;
        nft::refuse_foreign(PREFIX)?;
        Ok(Record {
            id: id.into(),
            table: format!("{PREFIX}{id}"),
            interface: data.name.clone(),
            parameters: parameters.clone(),
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        let now_ms = Clock::start().now().wall_ms;
        let epoch_ms = record.parameters.epoch_ms.unwrap_or(now_ms);
        let began_s = (now_ms as f64 - epoch_ms as f64) / 1e3;
        if began_s.abs() > AGE_S_MAX {
            bail!("epoch_ms is {began_s:.0} s ago; is this machine's clock right?");
        }
        nft::load(&table(&record.table, &record.interface))?;
        let flips = Flips::from(began_s);
        let (name, schedule) = (record.table.clone(), Schedule::new(&record.parameters));
        machine.workers.start(&record.id, Arc::new(flips), move |flips: &Flips, stop| {
            if let Err(error) = flips.go_through(schedule, &name, stop) {
                flips.lock().end = Some(format!("the link flips no more: {error:#}"));
            }
        })
    }

    /// Undoes it; the thread ends first, because it would write into a missing table.
    fn undo(&self, machine: &Machine, record: &Record) -> Result<()> {
        machine.workers.stop(&record.id);
        nft::delete(&record.table)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let flips = machine.workers.shared(&record.id);
        Box::new(Flaky {
            flips: flips.unwrap_or_else(|| Arc::new(Flips::from(0.0))),
            parameters: record.parameters.clone(),
            table: record.table.clone(),
            reading: Reading::default(),
            disagreed: false,
        })
    }
}

fn table(name: &str, interface: &str) -> String {
    nft::table(name, interface, &Direction::Both.hooks(), |_| String::new())
}

/// Rules for down or up, in one transaction.
fn flip(table: &str, down: bool) -> String {
    let chain = |hook: &str| match down {
        true => format!("add rule netdev {table} {hook} counter drop\n"),
        false => format!("flush chain netdev {table} {hook}\n"),
    };
    chain("ingress") + &chain("egress")
}

/// The thread's work so far.
#[derive(Debug)]
struct Flips {
    start: Instant,
    /// Time of the schedule at which the thread began.
    start_s: f64,
    progress: Mutex<Progress>,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// Start of the present outage [s of the schedule].
    down_since_s: Option<f64>,
    down_s: f64,
    flips: u64,
    /// True while `nft` runs for a flip: the kernel may be in either state.
    is_flipping: bool,
    end: Option<String>,
}

impl Flips {
    fn from(start_s: f64) -> Flips {
        Flips { start: Instant::now(), start_s, progress: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds of the schedule that have passed.
    fn now_s(&self) -> f64 {
        self.start_s + self.start.elapsed().as_secs_f64()
    }

    fn go_through(&self, schedule: Schedule, table: &str, stop: &Stop) -> Result<()> {
        let mut schedule = schedule.peekable();
        while let Some((at_s, is_down)) = schedule.next() {
            // One that is over already is left out.
            if schedule.peek().is_some_and(|(next_s, _)| *next_s <= self.now_s()) {
                continue;
            }
            let wait_s = (at_s - self.now_s()).max(0.0);
            if stop.wait(Duration::from_secs_f64(wait_s)) {
                return Ok(());
            }
            if is_down == self.lock().down_since_s.is_some() {
                continue;
            }
            self.lock().is_flipping = true;
            nft::load(&flip(table, is_down))?;
            self.lock().flipped(is_down, self.now_s());
        }
        Ok(())
    }
}

impl Progress {
    fn flipped(&mut self, is_down: bool, now_s: f64) {
        self.is_flipping = false;
        self.flips += 1;
        match is_down {
            true => self.down_since_s = Some(now_s),
            false => self.down_s += self.down_since_s.take().map_or(0.0, |since_s| now_s - since_s),
        }
    }

    /// True if no flip was under way at this moment, a later one, or in between.
    fn is_still_until(&self, later: &Progress) -> bool {
        !self.is_flipping && !later.is_flipping && self.flips == later.flips
    }

    fn down_until_s(&self, now_s: f64) -> f64 {
        self.down_s + self.down_since_s.map_or(0.0, |since_s| now_s - since_s)
    }
}

struct Flaky {
    flips: Arc<Flips>,
    parameters: Parameters,
    table: String,
    reading: Reading,
    /// True if a look found another state than that of the last flip.
    disagreed: bool,
}

/// Maximum delay of a flip: a few milliseconds, on a throttled machine more.
const LATE_S: f64 = 0.5;
const SHARE_MIN: f64 = 0.8;

impl DoseReader for Flaky {
    fn look(&mut self, _held: Duration) -> Result<()> {
        let before = self.flips.lock().clone();
        let drops = nft::rules(&self.table)?.iter().any(|rule| rule.drops);
        let (after, now_s) = (self.flips.lock().clone(), self.flips.now_s());
        if let Some(reason) = &after.end {
            bail!("{reason}");
        }
        // A flip under way counts only when it is done.
        let settled = before.is_still_until(&after);
        self.disagreed |= settled && drops != after.down_since_s.is_some();
        self.reading = self.compare(&after, now_s);
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.reading
    }
}

impl Flaky {
    /// Judges the dose: it bit if the link was down for 80 to 200 % of the schedule's time, with as
    /// many flips, some of which may be late.
    fn compare(&self, progress: &Progress, now_s: f64) -> Reading {
        let (from_s, schedule) = (self.flips.start_s, Schedule::new(&self.parameters));
        let seconds = now_s - from_s;
        let (asked_s, flips) = schedule.within(from_s, now_s);
        let down_s = progress.down_until_s(now_s);
        let long_enough = down_s >= SHARE_MIN * asked_s - LATE_S;
        let short_enough = down_s <= 2.0 * asked_s + LATE_S;
        let often_enough = progress.flips as f64 >= SHARE_MIN * flips as f64 - 2.0;
        let bit = !self.disagreed && long_enough && short_enough && often_enough && down_s > 0.0;
        let is_certain = asked_s >= LATE_S || bit || self.disagreed;
        Reading {
            asked: Some(100.0 * asked_s / seconds.max(1e-9)),
            measured: Some(100.0 * down_s / seconds.max(1e-9)),
            bit: is_certain.then_some(bit),
            samples: Some(progress.flips),
            seconds: Some(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flip_schedule::Law;
    use super::*;

    fn compare(progress: Progress, disagreed: bool) -> Reading {
        let flaky = Flaky {
            flips: Arc::new(Flips::from(0.0)),
            parameters: Parameters {
                law: Law::Fixed,
                outage_s: 1.0,
                gap_s: 3.0,
                spread_s: 0.0,
                seed: None,
                epoch_ms: None,
            },
            table: String::new(),
            reading: Reading::default(),
            disagreed,
        };
        flaky.compare(&progress, 9.0)
    }

    #[test]
    fn a_link_that_went_down_as_its_schedule_says_bit() {
        // Down at 0, 4 and 8, for 1 s each: 3 of 9 s.
        let progress =
            Progress { down_since_s: Some(8.1), down_s: 2.0, flips: 5, ..Progress::default() };
        let reading = compare(progress.clone(), false);
        assert!((reading.asked.unwrap() - 100.0 / 3.0).abs() < 1e-9);
        assert!((reading.measured.unwrap() - 100.0 * 2.9 / 9.0).abs() < 1e-9);
        assert_eq!((reading.bit, reading.samples), (Some(true), Some(5)));
        assert_eq!(compare(progress, true).bit, Some(false));
    }

    #[test]
    fn a_state_is_known_where_no_flip_was_under_way() {
        let up = Progress::default();
        let flipping = Progress { is_flipping: true, ..up.clone() };
        let mut down = flipping.clone();
        down.flipped(true, 60.0);
        assert!(up.is_still_until(&up) && down.is_still_until(&down));
        for (before, after) in [(&up, &flipping), (&flipping, &down), (&up, &down)] {
            assert!(!before.is_still_until(after), "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_link_that_stays_up_or_down_did_not_flip() {
        assert_eq!(compare(Progress::default(), false).bit, Some(false));
        let down = Progress { down_since_s: Some(0.0), flips: 1, ..Progress::default() };
        assert_eq!(compare(down, false).bit, Some(false));
    }
}
