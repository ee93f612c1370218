//! The budget of extra load: replicas beyond the first of each request, as a fraction of requests
//! over a sliding window.
//!
//! Within any window there are at most `extra_load_max` x requests + 10 extras (the 10 let a tier
//! with little traffic replicate at all). A request that would exceed the limit gets r = 1, and so
//! do all later ones until the extras are below 80 % of it; this hysteresis avoids fast changes. As
//! in the retry budgets of Finagle and linkerd.

use crate::TimeUs;

/// Extras that are free of charge in a window.
const RESERVE: f64 = 10.0;
/// Replication comes back below this share of the budget.
const RETURN_AT: f64 = 0.8;
/// The window moves by this part of it.
const SLOTS: usize = 8;

/// The window's requests and extras.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    extra_load_max: Option<f64>,
    slot_us: u64,
    slots: [Slot; SLOTS],
    /// Number of the slot that time is in, since 0.
    current: u64,
    sum: Slot,
    fallen_back: bool,
    /// Times that it was used up.
    pub(crate) fall_backs: u64,
    /// Requests that got fewer replicas than they asked for.
    pub(crate) requests_cut: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    requests: u64,
    extras: u64,
}

impl Budget {
    pub(crate) fn new(extra_load_max: Option<f64>, window_us: u64) -> Self {
        Self {
            extra_load_max,
            slot_us: (window_us / SLOTS as u64).max(1),
            slots: [Slot::default(); SLOTS],
            current: 0,
            sum: Slot::default(),
            fallen_back: false,
            fall_backs: 0,
            requests_cut: 0,
        }
    }

    /// Changes the limit; what was counted stays.
    pub(crate) fn set(&mut self, extra_load_max: Option<f64>, window_us: u64) {
        *self = Self {
            fall_backs: self.fall_backs,
            requests_cut: self.requests_cut,
            ..Self::new(extra_load_max, window_us)
        };
    }

    /// A request comes that would like `extras`: how many it may have, all or none.
    pub(crate) fn request(&mut self, now: TimeUs, extras: usize) -> usize {
        self.advance(now);
        self.slot().requests += 1;
        self.sum.requests += 1;
        if extras == 0 || self.take(extras) {
            return extras;
        }
        self.requests_cut += 1;
        0
    }

    /// A request that was counted already would like one more.
    pub(crate) fn one_more(&mut self, now: TimeUs) -> bool {
        self.advance(now);
        self.take(1)
    }

    /// Gives back extras that were not used.
    pub(crate) fn refund(&mut self, extras: usize) {
        let count = self.slot().extras.min(extras as u64);
        self.slot().extras -= count;
        self.sum.extras -= count;
    }

    /// True if requests get r = 1 now.
    pub(crate) fn is_fallen_back(&self) -> bool {
        self.fallen_back
    }

    fn take(&mut self, extras: usize) -> bool {
        let Some(extra_load_max) = self.extra_load_max else {
            return true;
        };
        let allowed = extra_load_max * self.sum.requests as f64 + RESERVE;
        let sum = self.sum.extras as f64;
        if self.fallen_back && sum > RETURN_AT * allowed {
            return false;
        }
        let fits = sum + extras as f64 <= allowed;
        self.fall_backs += u64::from(!fits && !self.fallen_back);
        self.fallen_back = !fits;
        if fits {
            self.slot().extras += extras as u64;
            self.sum.extras += extras as u64;
        }
        fits
    }

    fn slot(&mut self) -> &mut Slot {
        &mut self.slots[(self.current % SLOTS as u64) as usize]
    }

    fn advance(&mut self, now: TimeUs) {
        let slot = now / self.slot_us;
        if slot <= self.current {
            return;
        }
        for _ in 0..(slot - self.current).min(SLOTS as u64) {
            self.current += 1;
            let old = std::mem::take(self.slot());
            self.sum.requests -= old.requests;
            self.sum.extras -= old.extras;
        }
        self.current = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW_US: u64 = 8_000;

    #[test]
    fn without_a_limit_every_request_gets_what_it_asks_for() {
        let mut budget = Budget::new(None, WINDOW_US);
        assert!((0..1_000).all(|now| budget.request(now, 3) == 3));
        assert_eq!((budget.fall_backs, budget.requests_cut), (0, 0));
    }

    #[test]
    fn falls_back_and_comes_back_by_itself_well_below_the_limit() {
        let mut budget = Budget::new(Some(0.1), WINDOW_US);
        let granted: Vec<_> = (0..90).map(|_| budget.request(0, 1)).collect();
        let extras: usize = granted.iter().sum();
        assert!(granted[..11].iter().all(|&extras| extras == 1));
        assert!(granted[11..37].iter().all(|&extras| extras == 0));
        assert_eq!(extras, 17, "at most 10 and a tenth of the requests");
        assert!(budget.is_fallen_back());
        assert_eq!(budget.fall_backs, 3, "some at a time, not one by one");
        // The first slot, with all the extras, has left the window.
        assert_eq!(budget.request(WINDOW_US, 1), 1);
        assert!(!budget.is_fallen_back());
    }

    #[test]
    fn a_refund_makes_room() {
        let mut budget = Budget::new(Some(0.0), WINDOW_US);
        assert_eq!(budget.request(0, 10), 10);
        assert!(!budget.one_more(0));
        budget.refund(5);
        assert!(budget.one_more(0));
    }

    proptest! {
        #[test]
        fn nobody_is_granted_extras_beyond_the_limit_of_the_window(
            gaps in prop::collection::vec((0..400u64, 0..4usize), 1..400),
            extra_load_max in 0.0..2.0f64,
        ) {
            let mut budget = Budget::new(Some(extra_load_max), WINDOW_US);
            let (mut now, mut history) = (0, Vec::new());
            for (gap, extras) in gaps {
                now += gap;
                let granted = budget.request(now, extras);
                history.push((now, granted));
                // The current slot and the seven before it.
                let from = (now / 1_000).saturating_sub(7) * 1_000;
                let window = history.iter().filter(|(at, _)| *at >= from);
                let (requests, extras) =
                    window.fold((0, 0), |sum, (_, extras)| (sum.0 + 1, sum.1 + extras));
                prop_assert!(granted == 0 || extras as f64 <= extra_load_max * f64::from(requests) + 10.0 + 1e-9);
            }
        }
    }
}
