//! The phi-accrual failure detector (Hayashibara, Défago, Yared and Katayama, SRDS 2004).
//!
//! A fixed time-out is too short on a busy machine or too long on a quiet one. Here the suspicion
//! grows with the time since the last heartbeat, in units of what heartbeats took so far: phi =
//! -log10 P(a heartbeat comes later than now), of a normal distribution. At phi = 8 one of 10^8
//! heartbeats would be suspected wrongly, if they were normal; the least deviation is for those
//! that are not.
//!
//! A gap in which a server was away says nothing of how its heartbeats vary: it counts as one that
//! is just not suspected, so that the next silence is noticed as soon, and heartbeats that have
//! become irregular are waited for longer all the same.

use std::collections::VecDeque;

/// Maximum gaps that are remembered.
const GAPS: usize = 200;
/// Gaps that are needed to suspect anybody.
const GAPS_MIN: usize = 5;
/// Gaps count up to the mean and so many deviations: phi is above 8 there.
const DEVIATIONS_MAX: f64 = 6.0;

/// One server's heartbeats.
#[derive(Debug, Clone)]
pub struct Phi {
    gaps_s: VecDeque<f64>,
    last_s: Option<f64>,
    deviation_s_min: f64,
}

impl Phi {
    /// Creates a detector without heartbeats; gaps vary by `deviation_s_min` at least.
    pub fn new(deviation_s_min: f64) -> Self {
        Self { gaps_s: VecDeque::new(), last_s: None, deviation_s_min }
    }

    /// A heartbeat came.
    pub fn beat(&mut self, now_s: f64) {
        if let Some(last_s) = self.last_s.replace(now_s) {
            let gap_s = (now_s - last_s).clamp(0.0, self.gap_s_max());
            self.gaps_s.push_back(gap_s);
            if self.gaps_s.len() > GAPS {
                self.gaps_s.pop_front();
            }
        }
    }

    /// Returns the suspicion that the silence raises; 0 while too little is known.
    pub fn phi(&self, now_s: f64) -> f64 {
        let (Some(last_s), true) = (self.last_s, self.gaps_s.len() >= GAPS_MIN) else {
            return 0.0;
        };
        let (mean_s, deviation_s) = self.mean_and_deviation_s();
        let y = (now_s - last_s - mean_s) / deviation_s;
        // The logistic approximation of the normal distribution: P = 1 / (1 + exp(exponent)).
        let exponent = y * (1.5976 + 0.070566 * y * y);
        exponent.exp().ln_1p().min(exponent.max(0.0) + 1.0) / std::f64::consts::LN_10
    }

    fn gap_s_max(&self) -> f64 {
        if self.gaps_s.len() < GAPS_MIN {
            return f64::INFINITY;
        }
        let (mean_s, deviation_s) = self.mean_and_deviation_s();
        mean_s + DEVIATIONS_MAX * deviation_s
    }

    fn mean_and_deviation_s(&self) -> (f64, f64) {
        let count = self.gaps_s.len() as f64;
        let mean_s = self.gaps_s.iter().sum::<f64>() / count;
        let squares = self.gaps_s.iter().map(|gap| (gap - mean_s).powi(2));
        let deviation_s = (squares.sum::<f64>() / count).sqrt();
        (mean_s, deviation_s.max(self.deviation_s_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beaten(gap_s: f64) -> Phi {
        let mut phi = Phi::new(0.005);
        for beat in 0..100 {
            phi.beat(f64::from(beat) * gap_s);
        }
        phi
    }

    #[test]
    fn nobody_is_suspected_before_enough_is_known() {
        let mut phi = Phi::new(0.005);
        phi.beat(0.0);
        assert_eq!(phi.phi(1e6), 0.0);
    }

    #[test]
    fn suspicion_grows_with_silence_and_ends_with_a_heartbeat() {
        let mut phi = beaten(0.02);
        let last_s = 99.0 * 0.02;
        let at: Vec<f64> = [0.01, 0.02, 0.03, 0.05, 0.1, 10.0]
            .iter()
            .map(|silent_s| phi.phi(last_s + silent_s))
            .collect();
        assert!(at.windows(2).all(|two| two[0] < two[1]), "{at:?}");
        assert!(at[1] < 1.0 && at[4] > 8.0, "{at:?}");
        phi.beat(last_s + 10.0);
        assert!(phi.phi(last_s + 10.01) < 1.0);
    }

    #[test]
    fn at_the_mean_gap_phi_is_that_of_one_half() {
        let phi = beaten(0.02);
        assert!((phi.phi(99.0 * 0.02 + 0.02) - 2f64.log10()).abs() < 1e-6);
    }

    #[test]
    fn irregular_heartbeats_are_waited_for_longer() {
        let regular = beaten(0.02);
        let mut irregular = Phi::new(0.005);
        let mut now_s = 0.0;
        for beat in 0..100 {
            now_s += if beat % 2 == 0 { 0.002 } else { 0.038 };
            irregular.beat(now_s);
        }
        assert!(irregular.phi(now_s + 0.06) < regular.phi(99.0 * 0.02 + 0.06));
    }

    #[test]
    fn a_server_that_was_away_is_suspected_as_soon_the_next_time() {
        let mut phi = beaten(0.02);
        let suspected_after_s = |phi: &Phi, last_s: f64| {
            let silences = (0..1000).map(|ms| f64::from(ms) / 1e3);
            let mut suspect = silences.filter(|silent_s| phi.phi(last_s + silent_s) > 8.0);
            suspect.next().unwrap()
        };
        let before_s = suspected_after_s(&phi, 99.0 * 0.02);
        phi.beat(1000.0);
        let after_s = suspected_after_s(&phi, 1000.0);
        assert!(after_s < 1.2 * before_s, "{before_s} {after_s}");
    }

    #[test]
    fn a_clock_that_steps_is_forgotten_with_the_next_heartbeat() {
        for step_s in [-3600.0, 3600.0] {
            let mut phi = beaten(0.02);
            phi.beat(99.0 * 0.02 + step_s);
            let last_s = 99.0 * 0.02 + step_s;
            assert!(phi.phi(last_s + 0.02) < 1.0, "{step_s}");
            assert!(phi.phi(last_s + 1.0) > 8.0, "{step_s}");
        }
    }
}
