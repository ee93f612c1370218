//! The dose of a fault, from repeated readings of the kernel's counters.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

/// Minimum time for a rate [s].
const SECONDS_MIN: f64 = 0.2;
/// Time after which a missing load counts as none; with a hundredth of a core it may start late.
const SILENT_S: f64 = 5.0;
/// Share of the request that counts as a bite. Neighbours share a card that may limp a
/// thousandfold, or cores that are wanted many times over, so a little is enough.
const SHARE_MIN: f64 = 1e-3;
/// Share of the requested time that a state must last.
const LASTED_MIN: f64 = 0.8;

/// Unit of a dose, and its method of measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scale {
    pub unit: &'static str,
    pub how: &'static str,
}

/// The dose as known so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    pub asked: Option<f64>,
    pub measured: Option<f64>,
    /// True if the fault had its effect; `None` for too little evidence.
    pub bit: Option<bool>,
    /// Number of samples, if it is not that of the looks.
    pub samples: Option<u64>,
    /// Measured time, if it is not from the injection to the last look.
    pub seconds: Option<f64>,
}

/// Measures one fault.
pub trait DoseReader: Send {
    /// Looks once, so long after the injection.
    fn look(&mut self, elapsed: Duration) -> Result<()>;
    /// The reading by now.
    fn reading(&self) -> Reading;
}

/// Minimum expected packets for a judgement: with ten, none at all comes by chance once in 20,000
/// times.
const EXPECTED_MIN: f64 = 10.0;

/// Judges a share (0 to 1) of packets met at random. It bit if it met some, and not fewer than five
/// standard deviations below the expectation.
pub fn share(asked: f64, total: f64, struck: f64) -> Reading {
    let expected = asked * total;
    Reading {
        asked: Some(100.0 * asked),
        measured: (total > 0.0).then(|| 100.0 * struck / total),
        bit: (expected >= EXPECTED_MIN).then_some(is_enough(expected, struck)),
        ..Reading::default()
    }
}

/// As `share`, for calls of the role only: a few that were met are a bite.
pub fn share_of_role(asked: f64, total: f64, struck: f64) -> Reading {
    let reading = share(asked, total, struck);
    let bit = is_enough(asked * total, struck).then_some(true);
    Reading { bit: reading.bit.or(bit), ..reading }
}

fn is_enough(expected: f64, struck: f64) -> bool {
    struck > 0.0 && struck >= expected - 5.0 * expected.sqrt()
}

/// Time that a state lasted, by looks at it; between two looks that differ it counts half the time.
#[derive(Debug, Default)]
struct Lasted {
    first: Option<Duration>,
    last: Option<(Duration, bool)>,
    whole_s: f64,
    mixed_s: f64,
}

impl Lasted {
    /// A look that found the state, or did not.
    fn look(&mut self, elapsed: Duration, is_in_force: bool) {
        if let Some((before, was_in_force)) = self.last {
            let passed_s = elapsed.saturating_sub(before).as_secs_f64();
            match (was_in_force, is_in_force) {
                (true, true) => self.whole_s += passed_s,
                (false, false) => {}
                _ => self.mixed_s += passed_s,
            }
        }
        self.first.get_or_insert(elapsed);
        self.last = Some((elapsed, is_in_force));
    }

    /// Judges a state that was to last all the time, or `until_s` at most. It bit if it lasted for
    /// 80 % of that, counting unknown time for it.
    fn reading(&self, until_s: Option<f64>) -> Reading {
        let (Some(first), Some((last, _))) = (self.first, self.last) else {
            return Reading::default();
        };
        let seconds = (last - first).as_secs_f64();
        let goal_s = until_s.map_or(seconds, |most| seconds.min(most));
        let longest_s = self.whole_s + self.mixed_s;
        let bit = longest_s > 0.0 && longest_s >= LASTED_MIN * goal_s;
        Reading {
            asked: Some(goal_s),
            measured: Some(self.whole_s + self.mixed_s / 2.0),
            bit: (goal_s >= SECONDS_MIN || bit).then_some(bit),
            seconds: Some(seconds),
            ..Reading::default()
        }
    }
}

struct States<F> {
    lasted: Lasted,
    until_s: Option<f64>,
    is_in_force: F,
}

/// Reads how long a state lasts, all the time or for `until_s` at most, by whether it is in force.
pub fn duration_reader(
    until_s: Option<f64>,
    is_in_force: impl FnMut() -> Result<bool> + Send + 'static,
) -> Box<dyn DoseReader> {
    Box::new(States { lasted: Lasted::default(), until_s, is_in_force })
}

impl<F: FnMut() -> Result<bool> + Send> DoseReader for States<F> {
    fn look(&mut self, elapsed: Duration) -> Result<()> {
        self.lasted.look(elapsed, (self.is_in_force)()?);
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.lasted.reading(self.until_s)
    }
}

/// A load's rate, by looks at a counter; a counter that falls has lost a process or connection, and
/// the rest counts on.
#[derive(Debug, Default)]
struct Load {
    first: Option<Duration>,
    last: Option<(Duration, f64)>,
    gained: f64,
}

impl Load {
    /// The counter's value.
    fn look(&mut self, elapsed: Duration, count: f64) {
        let before = self.last.map_or(count, |(_, before)| before);
        self.gained += (count - before).max(0.0);
        self.first.get_or_insert(elapsed);
        self.last = Some((elapsed, count));
    }

    /// Judges the rate by the requested one. It bit if it reached a thousandth of that (without a
    /// request, anything), and did not if it has not for 5 s; a request of nothing is never judged.
    fn reading(&self, asked: Option<f64>) -> Reading {
        let (Some(start), Some((end, _))) = (self.first, self.last) else {
            return Reading { asked, ..Reading::default() };
        };
        let seconds = (end - start).as_secs_f64();
        let measured = (seconds >= SECONDS_MIN).then(|| self.gained / seconds);
        let bit = measured.map(|rate| rate > 0.0 && rate >= asked.unwrap_or(0.0) * SHARE_MIN);
        Reading {
            asked,
            measured,
            bit: bit.filter(|bit| *bit || (asked.is_some() && seconds >= SILENT_S)),
            seconds: Some(seconds),
            ..Reading::default()
        }
    }
}

struct Loads<F> {
    load: Load,
    asked: Option<f64>,
    count: F,
}

/// Reads a load's rate from a counter, beside the requested one.
pub fn rate_reader(
    asked: Option<f64>,
    count: impl FnMut() -> Result<f64> + Send + 'static,
) -> Box<dyn DoseReader> {
    Box::new(Loads { load: Load::default(), asked, count })
}

impl<F: FnMut() -> Result<f64> + Send> DoseReader for Loads<F> {
    fn look(&mut self, elapsed: Duration) -> Result<()> {
        self.load.look(elapsed, (self.count)()?);
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.load.reading(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn few_that_were_struck_are_a_bite_where_nobody_but_the_role_is_met() {
        let bits = |total, struck| {
            let bits = [share, share_of_role].map(|judge| judge(0.1, total, struck).bit);
            (bits[0], bits[1])
        };
        assert_eq!(bits(0.0, 0.0), (None, None));
        assert_eq!(bits(50.0, 5.0), (None, Some(true)));
        assert_eq!(bits(1_000.0, 100.0), (Some(true), Some(true)));
        assert_eq!(bits(1_000.0, 20.0), (Some(false), Some(false)));
    }

    fn lasted(looks: &[(f64, bool)]) -> Lasted {
        let mut lasted = Lasted::default();
        for (held_s, is_in_force) in looks {
            lasted.look(at(*held_s), *is_in_force);
        }
        lasted
    }

    #[test]
    fn a_state_that_lasted_bit_and_one_that_ended_early_did_not() {
        let state = lasted(&[(0.0, true), (0.25, true), (1.25, true), (2.25, true)]);
        let reading = state.reading(None);
        assert_eq!((reading.asked, reading.measured), (Some(2.25), Some(2.25)));
        assert_eq!(reading.bit, Some(true));
        let early = lasted(&[(0.0, true), (0.25, false), (1.25, false), (2.25, false)]);
        assert_eq!(early.reading(None).bit, Some(false));
        assert_eq!(early.reading(None).measured, Some(0.125));
    }

    #[test]
    fn a_state_that_was_to_end_by_itself_is_held_against_its_own_length() {
        let looks = lasted(&[(0.0, true), (0.25, true), (1.25, false), (2.25, false)]);
        let reading = looks.reading(Some(1.0));
        assert_eq!((reading.asked, reading.bit), (Some(1.0), Some(true)));
        assert_eq!(looks.reading(None).bit, Some(false));
    }

    #[test]
    fn one_look_is_too_little_to_say_anything() {
        assert_eq!(lasted(&[]).reading(None), Reading::default());
        assert_eq!(lasted(&[(0.0, false)]).reading(None).bit, None);
        assert_eq!(lasted(&[(0.0, true)]).reading(None).bit, None);
    }

    fn load(counts: &[(f64, f64)]) -> Load {
        let mut load = Load::default();
        for (held_s, count) in counts {
            load.look(at(*held_s), *count);
        }
        load
    }

    #[test]
    fn a_load_is_its_counters_rate_and_a_thousandth_of_what_was_asked_is_a_bite() {
        let reading = load(&[(0.0, 10.0), (1.0, 60.0), (2.0, 110.0)]).reading(Some(100.0));
        assert_eq!((reading.measured, reading.bit), (Some(50.0), Some(true)));
        let little = load(&[(0.0, 0.0), (5.0, 0.6)]);
        assert_eq!(little.reading(Some(100.0)).bit, Some(true));
        assert_eq!(little.reading(Some(1000.0)).bit, Some(false));
        assert_eq!(little.reading(None).bit, Some(true));
    }

    #[test]
    fn what_is_counted_no_more_was_counted() {
        let reading = load(&[(0.0, 0.0), (1.0, 8.0), (2.0, 0.0)]).reading(Some(4.0));
        assert_eq!((reading.measured, reading.bit), (Some(4.0), Some(true)));
    }

    #[test]
    fn silence_counts_against_a_load_only_once_it_had_the_time_to_come() {
        let silent = |until_s: f64| load(&[(0.0, 7.0), (until_s, 7.0)]).reading(Some(1.0)).bit;
        assert_eq!((silent(0.1), silent(4.9)), (None, None));
        assert_eq!(silent(5.1), Some(false));
        assert_eq!(load(&[(0.0, 7.0), (9.0, 7.0)]).reading(None).bit, None);
        assert_eq!(load(&[]).reading(Some(1.0)).asked, Some(1.0));
    }
}
