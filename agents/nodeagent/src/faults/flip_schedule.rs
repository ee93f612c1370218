//! The schedule of a flaky link, down and up, drawn from a seed; equal on all machines with the
//! same seed.

use rand::rngs::SmallRng;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::{Deserialize, Serialize};

/// Minimum length of a flip: shorter ones cannot be made by running programs.
pub const LENGTH_S_MIN: f64 = 0.05;
pub const LENGTH_S_MAX: f64 = 3_600.0;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    Fixed,
    Poisson,
    Gaussian,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameters {
    pub law: Law,
    pub outage_s: f64,
    pub gap_s: f64,
    pub spread_s: f64,
    pub seed: Option<u64>,
    pub epoch_ms: Option<u64>,
}

/// The times of the flips, in seconds since the schedule's beginning: down at 0, up, down, ...
#[derive(Debug, Clone)]
pub struct Schedule {
    parameters: Parameters,
    rng: SmallRng,
    at_s: f64,
    is_down_next: bool,
}

impl Schedule {
    /// Starts with an outage.
    pub fn new(parameters: &Parameters) -> Schedule {
        Schedule {
            parameters: parameters.clone(),
            rng: SmallRng::seed_from_u64(parameters.seed.unwrap_or_default()),
            at_s: 0.0,
            is_down_next: true,
        }
    }

    fn length_s(&mut self, mean_s: f64) -> f64 {
        let drawn_s = match self.parameters.law {
            Law::Fixed => mean_s,
            Law::Poisson => {
                let factor: f64 = Exp1.sample(&mut self.rng);
                mean_s * factor
            }
            Law::Gaussian => {
                let factor: f64 = StandardNormal.sample(&mut self.rng);
                mean_s + self.parameters.spread_s * factor
            }
        };
        drawn_s.clamp(LENGTH_S_MIN, LENGTH_S_MAX)
    }

    /// Time down and flips in [from_s, to_s); an outage at the beginning counts as a flip.
    pub fn within(self, from_s: f64, to_s: f64) -> (f64, u64) {
        let (mut down_s, mut flips, mut since_s) = (0.0, 0, None);
        for (at_s, is_down) in self.take_while(|(at_s, _)| *at_s < to_s) {
            if at_s >= from_s {
                flips += 1;
            }
            match is_down {
                true => since_s = Some(at_s),
                false => down_s += (at_s - since_s.take().unwrap_or(at_s).max(from_s)).max(0.0),
            }
        }
        let rest_s = since_s.map_or(0.0, |since_s: f64| to_s - since_s.max(from_s));
        (down_s + rest_s, flips)
    }
}

impl Iterator for Schedule {
    /// A time, and true if the link goes down then.
    type Item = (f64, bool);

    fn next(&mut self) -> Option<(f64, bool)> {
        let now = (self.at_s, self.is_down_next);
        let mean_s = match self.is_down_next {
            true => self.parameters.outage_s,
            false => self.parameters.gap_s,
        };
        self.at_s += self.length_s(mean_s);
        self.is_down_next = !self.is_down_next;
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(law: Law, seed: u64) -> Parameters {
        Parameters {
            law,
            outage_s: 1.0,
            gap_s: 3.0,
            spread_s: 0.2,
            seed: Some(seed),
            epoch_ms: None,
        }
    }

    #[test]
    fn a_fixed_schedule_begins_with_an_outage_and_goes_on_so() {
        let schedule = Schedule::new(&parameters(Law::Fixed, 1));
        let flips: Vec<(f64, bool)> = schedule.clone().take(4).collect();
        assert_eq!(flips, [(0.0, true), (1.0, false), (4.0, true), (5.0, false)]);
        assert_eq!(schedule.clone().within(0.0, 4.5), (1.5, 3));
        assert_eq!(schedule.clone().within(0.5, 4.5), (1.0, 2));
        assert_eq!(schedule.within(1.5, 3.5), (0.0, 0));
    }

    #[test]
    fn equal_seeds_flip_at_equal_times_and_others_do_not() {
        for law in [Law::Poisson, Law::Gaussian] {
            let flips = |seed| -> Vec<(f64, bool)> {
                Schedule::new(&parameters(law, seed)).take(100).collect()
            };
            assert_eq!(flips(7), flips(7));
            assert_ne!(flips(7), flips(8));
            let lengths =
                flips(7).windows(2).all(|pair| pair[1].0 - pair[0].0 >= LENGTH_S_MIN - 1e-9);
            assert!(lengths, "{law:?}");
        }
    }

    #[test]
    fn each_law_is_down_for_the_asked_share_in_the_long_run() {
        for law in [Law::Fixed, Law::Poisson, Law::Gaussian] {
            let (down_s, flips) = Schedule::new(&parameters(law, 3)).within(0.0, 40_000.0);
            let share = down_s / 40_000.0;
            assert!((share - 0.25).abs() < 0.01, "{law:?}: {share}");
            assert!((19_000..21_000).contains(&flips), "{law:?}: {flips}");
        }
    }
}
