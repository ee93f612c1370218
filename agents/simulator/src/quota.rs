//! A cap on cores as control groups enforce it: an amount of CPU time in each period, used as fast
//! as the cores allow, then nothing until the period ends.
//!
//! A page of 60 ms of CPU so takes 120 ms on a cap of 0.4 cores, and a query of 0.5 ms takes 0.5 ms
//! on one of 0.25, where processor sharing says 150 ms and 2 ms. A period begins with the first job
//! after the last one's end, as the kernel's timer, which stops when the group is idle. Closed forms:
//! a period costs no event.

/// Less CPU time than this is none: rounding of moments.
const SPENT_NS: f64 = 0.01;

/// CPU time per period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cap {
    pub(crate) period_ns: u64,
    /// CPU time in each period.
    pub(crate) each_ns: f64,
    /// Cores at a time, while some is left.
    pub(crate) cores: f64,
}

/// The rest of a server's quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    cap: Cap,
    began_ns: u64,
    left_ns: f64,
}

impl Quota {
    pub(crate) fn new(cap: Cap) -> Self {
        Self { cap, began_ns: 0, left_ns: cap.each_ns }
    }

    /// Starts a period: there is work again after none.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if now_ns >= self.began_ns + self.cap.period_ns {
            self.began_ns = now_ns;
            self.left_ns = self.cap.each_ns;
        }
    }

    /// Cores that `jobs` use at a time, while CPU time is left.
    pub(crate) fn cores(&self, jobs: u32) -> f64 {
        f64::from(jobs).min(self.cap.cores)
    }

    /// True if the period's CPU time is used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.left_ns < SPENT_NS
    }

    /// Time at which the quota is exhausted, or the period ends, with `cores` in use.
    pub(crate) fn turns_ns(&self, from_ns: u64, cores: f64) -> f64 {
        let over_ns = (self.began_ns + self.cap.period_ns) as f64;
        if self.is_spent() {
            return over_ns;
        }
        over_ns.min(from_ns as f64 + self.left_ns / cores)
    }

    /// The CPU time that is used between two moments, in all, by who uses `cores` at a time.
    pub(crate) fn used_ns(&mut self, from_ns: u64, to_ns: u64, cores: f64) -> f64 {
        let cap = self.cap;
        let over_ns = self.began_ns + cap.period_ns;
        if to_ns < over_ns {
            let used_ns = (cores * (to_ns - from_ns) as f64).min(self.left_ns);
            self.left_ns -= used_ns;
            return used_ns;
        }
        let first = (cores * over_ns.saturating_sub(from_ns) as f64).min(self.left_ns);
        let whole = (to_ns - over_ns) / cap.period_ns;
        self.began_ns = over_ns + whole * cap.period_ns;
        let last = (cores * (to_ns - self.began_ns) as f64).min(cap.each_ns);
        self.left_ns = cap.each_ns - last;
        first + whole as f64 * self.most_ns(cores) + last
    }

    /// Time at which this much CPU time will have been used in all.
    pub(crate) fn reached_ns(&self, from_ns: u64, work_ns: f64, cores: f64) -> f64 {
        let over_ns = self.began_ns + self.cap.period_ns;
        let first = (cores * over_ns.saturating_sub(from_ns) as f64).min(self.left_ns);
        if work_ns <= first {
            return from_ns as f64 + work_ns / cores;
        }
        let rest = work_ns - first;
        let most = self.most_ns(cores);
        let whole = ((rest / most).ceil() - 1.0).max(0.0);
        let last = (rest - whole * most) / cores;
        over_ns as f64 + whole * self.cap.period_ns as f64 + last
    }

    fn most_ns(&self, cores: f64) -> f64 {
        (cores * self.cap.period_ns as f64).min(self.cap.each_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.4 cores in periods of 100, two at a time.
    fn quota() -> Quota {
        Quota::new(Cap { period_ns: 100, each_ns: 40.0, cores: 2.0 })
    }

    #[test]
    fn a_burst_is_fast_and_what_is_longer_waits_for_the_next_period() {
        assert_eq!(quota().reached_ns(10, 30.0, 1.0), 40.0);
        assert_eq!(quota().reached_ns(10, 60.0, 1.0), 120.0);
        assert_eq!(quota().reached_ns(0, 200.0, 1.0), 440.0);
        // Two jobs have two cores, three no more.
        assert_eq!(quota().reached_ns(0, 40.0, quota().cores(2)), 20.0);
        assert_eq!(quota().reached_ns(0, 60.0, quota().cores(3)), 110.0);
    }

    #[test]
    fn what_is_used_and_when_it_is_reached_agree() {
        for cores in [0.25, 1.0, 2.0] {
            for work_ns in [5.0, 39.0, 40.0, 41.0, 100.0, 399.0] {
                let state = quota();
                let end_ns = state.reached_ns(7, work_ns, cores);
                // In steps of any length, also across several periods.
                for step in [1, 13, 250] {
                    let (mut at, mut sum, mut quota) = (7, 0.0, quota());
                    while (at as f64) < end_ns {
                        let next = (at + step).min(end_ns.ceil() as u64);
                        sum += quota.used_ns(at, next, cores);
                        at = next;
                    }
                    let beyond = 2.0 * (end_ns.ceil() - end_ns) + 1e-9;
                    assert!((work_ns..=work_ns + beyond).contains(&sum), "{sum} of {work_ns}");
                }
            }
        }
    }

    #[test]
    fn after_idleness_a_period_begins_anew() {
        let mut quota = quota();
        assert_eq!(quota.used_ns(0, 40, 1.0), 40.0);
        quota.wake(60);
        assert_eq!(quota.reached_ns(60, 10.0, 1.0), 110.0);
        quota.wake(130);
        assert_eq!(quota.reached_ns(130, 10.0, 1.0), 140.0);
    }
}
