//! Processing time of requests from their arrivals and departures alone: the Baseline estimator of
//! sPARE section 5.1.1, request by request and in constant memory.
//!
//! While n requests are present at a server of V cores, each gets min(1, V / n) of a core. So one
//! number per server is enough: what a request that was there from the beginning would have had.
//! A request's processing time is how much that number grew during its stay. On an egalitarian
//! processor-sharing server this is its demand exactly; time in which a request waits for a tier
//! below counts as processing, so that the estimate of a front tier errs to the safe side.

/// Processing time per request that one server has offered so far [us], on any clock.
#[derive(Debug, Clone)]
pub struct Shares {
    cores: f64,
    present: u32,
    served_us: f64,
    until_us: u64,
}

impl Shares {
    /// An idle server with `cores` above 0.
    pub fn new(cores: f64) -> Self {
        Self { cores, present: 0, served_us: 0.0, until_us: 0 }
    }

    /// Notes an arrival. Pass the result to [`Shares::leave`].
    pub fn enter(&mut self, now_us: u64) -> f64 {
        self.serve_until(now_us);
        self.present += 1;
        self.served_us
    }

    /// Notes a departure. Returns the request's processing time [core us].
    pub fn leave(&mut self, now_us: u64, entered: f64) -> f64 {
        self.serve_until(now_us);
        self.present = self.present.saturating_sub(1);
        (self.served_us - entered).max(0.0)
    }

    /// Advances to `now_us`; a time that is past already, read by a thread before it got the lock,
    /// adds nothing.
    fn serve_until(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.until_us);
        self.until_us = self.until_us.max(now_us);
        if self.present > 0 {
            let share = (self.cores / f64::from(self.present)).min(1.0);
            self.served_us += share * passed_us as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processing times of requests (arrival, departure), in the order given.
    fn processing_us(cores: f64, stays: &[(u64, u64)]) -> Vec<f64> {
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (number, &(from, until)) in stays.iter().enumerate() {
            changes.push((from, false, number));
            changes.push((until, true, number));
        }
        changes.sort_unstable();
        let mut shares = Shares::new(cores);
        let mut entered = vec![0.0; stays.len()];
        let mut processing_us = vec![0.0; stays.len()];
        for (at_us, leaves, number) in changes {
            if leaves {
                processing_us[number] = shares.leave(at_us, entered[number]);
            } else {
                entered[number] = shares.enter(at_us);
            }
        }
        processing_us
    }

    #[test]
    fn alone_a_request_has_a_core_and_of_half_a_core_the_half() {
        assert_eq!(processing_us(2.0, &[(10, 110)]), [100.0]);
        assert_eq!(processing_us(0.5, &[(10, 110)]), [50.0]);
    }

    #[test]
    fn more_requests_than_cores_share_them_evenly() {
        // One core: 0-50 alone, 50-100 two of them, 100-150 alone again.
        assert_eq!(processing_us(1.0, &[(0, 100), (50, 150)]), [75.0, 75.0]);
        // Two cores: two requests do not disturb each other, three do.
        assert_eq!(processing_us(2.0, &[(0, 90), (0, 90)]), [90.0, 90.0]);
        let three = processing_us(2.0, &[(0, 90), (0, 90), (0, 90)]);
        assert!(three.iter().all(|us| (us - 60.0).abs() < 1e-9), "{three:?}");
    }

    #[test]
    fn the_work_of_all_never_exceeds_the_cores_nor_the_time() {
        let stays: Vec<(u64, u64)> = (0..200).map(|k| (k * 7, k * 7 + 31 + k % 13)).collect();
        let total: f64 = processing_us(1.5, &stays).iter().sum();
        let last_us = stays.iter().map(|stay| stay.1).max().unwrap_or(0) as f64;
        assert!(total > 0.9 * 1.5 * last_us && total <= 1.5 * last_us, "{total} of {last_us}");
    }

    #[test]
    fn a_clock_that_was_read_too_early_takes_nothing_back() {
        let mut shares = Shares::new(1.0);
        let first = shares.enter(100);
        let second = shares.enter(90);
        assert_eq!(shares.leave(80, second), 0.0);
        assert_eq!(shares.leave(110, first), 10.0);
    }
}
