//! A percentile of recent latencies in constant memory and time.
//!
//! A histogram whose buckets grow with the value (16 per power of two, so an answer is at most 1/16
//! too high). All counts are halved when there are 2048, so older observations count less: one 2048
//! observations ago counts half. The answer is computed again every 64 observations.

const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Up to 2^36 microseconds, 19 hours; longer counts as that.
const BUCKETS: usize = ((36 - SUB_BITS + 1) * SUB as u32) as usize;
const COUNT_MAX: u32 = 2048;
const REFRESH_EVERY: u32 = 64;
/// Minimum observations for an answer.
const COUNT_MIN: u32 = 20;

/// A histogram that fades, and the percentile that is asked of it.
#[derive(Debug, Clone)]
pub(crate) struct Percentile {
    /// Between 0 and 1.
    share: f64,
    counts: Vec<u32>,
    total: u32,
    since_refresh: u32,
    value_us: Option<u64>,
}

impl Percentile {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, counts: vec![0; BUCKETS], total: 0, since_refresh: 0, value_us: None }
    }

    pub(crate) fn add(&mut self, latency_us: u64) {
        self.counts[bucket(latency_us)] += 1;
        self.total += 1;
        self.since_refresh += 1;
        if self.total >= COUNT_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        let first_answer = self.value_us.is_none() && self.total >= COUNT_MIN;
        if first_answer || self.since_refresh >= REFRESH_EVERY {
            self.since_refresh = 0;
            self.value_us = self.look_up();
        }
    }

    /// The percentile; none before 20 observations.
    pub(crate) fn value_us(&self) -> Option<u64> {
        self.value_us
    }

    fn look_up(&self) -> Option<u64> {
        if self.total < COUNT_MIN {
            return None;
        }
        let rank = (self.share * f64::from(self.total)).ceil() as u32;
        let mut below = 0;
        let position = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        position.map(upper_end)
    }
}

fn bucket(us: u64) -> usize {
    let power = us.max(1).ilog2();
    if power < SUB_BITS {
        return us as usize;
    }
    let shift = power - SUB_BITS;
    let bucket = u64::from(shift + 1) * SUB + (us >> shift) - SUB;
    (bucket as usize).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> u64 {
    let (power, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if power == 0 {
        return sub;
    }
    ((SUB + sub + 1) << (power - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_within_a_sixteenth(us in 0..1u64 << 36) {
            let end = upper_end(bucket(us));
            prop_assert!(end >= us && end - us <= us / 16, "{} for {}", end, us);
        }
    }

    #[test]
    fn says_nothing_before_twenty_observations() {
        let mut p95 = Percentile::new(0.95);
        (0..19).for_each(|_| p95.add(100));
        assert_eq!(p95.value_us(), None);
        p95.add(100);
        assert_eq!(p95.value_us(), Some(103));
    }

    #[test]
    fn is_the_percentile_of_a_known_sample_and_forgets_the_past() {
        let mut p95 = Percentile::new(0.95);
        for _ in 0..10 {
            (1..=1_000).for_each(|us| p95.add(us * 100));
        }
        let value = p95.value_us().unwrap();
        assert!((93_000..=102_000).contains(&value), "{value}");
        (0..20_000).for_each(|_| p95.add(50));
        assert!(p95.value_us().unwrap() < 55);
        p95.add(u64::MAX);
    }
}
