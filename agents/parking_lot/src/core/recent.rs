//! The age at which a call is late: a percentile of recent latencies (Dean and Barroso, *The Tail
//! at Scale*, 2013: a second request after the 95th percentile costs about 5 % more requests).

use std::collections::VecDeque;

/// Maximum calls that are remembered.
const CALLS: usize = 200;
/// Calls that are needed for a percentile; before, no call is late.
const CALLS_MIN: usize = 20;
const PERCENTILE: f64 = 0.95;

/// The times of recent calls.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    latencies_s: VecDeque<f64>,
}

impl Recent {
    /// A call was answered after so long.
    pub fn add(&mut self, latency_s: f64) {
        self.latencies_s.push_back(latency_s);
        if self.latencies_s.len() > CALLS {
            self.latencies_s.pop_front();
        }
    }

    /// A call that takes longer is late [s]; none while too little is known.
    pub fn late_after_s(&self) -> Option<f64> {
        if self.latencies_s.len() < CALLS_MIN {
            return None;
        }
        let mut ordered: Vec<f64> = self.latencies_s.iter().copied().collect();
        let place = (PERCENTILE * ordered.len() as f64).ceil() as usize - 1;
        let (_, late_s, _) = ordered.select_nth_unstable_by(place, f64::total_cmp);
        Some(*late_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_late_before_enough_is_known() {
        let mut recent = Recent::default();
        for _ in 1..CALLS_MIN {
            recent.add(0.01);
        }
        assert_eq!(recent.late_after_s(), None);
        recent.add(0.01);
        assert_eq!(recent.late_after_s(), Some(0.01));
    }

    #[test]
    fn one_call_in_twenty_is_late() {
        let mut recent = Recent::default();
        for call in 1..=200 {
            recent.add(f64::from(call));
        }
        let late_s = recent.late_after_s().unwrap();
        let later = (1..=200).filter(|call| f64::from(*call) > late_s).count();
        assert_eq!(later, 10);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut recent = Recent::default();
        for _ in 0..CALLS {
            recent.add(5.0);
        }
        for _ in 0..CALLS {
            recent.add(0.002);
        }
        assert_eq!(recent.late_after_s(), Some(0.002));
    }
}
