//! The minimum rate of a client that holds a resource which others need: a server's token, or
//! scarce memory.

use std::time::Duration;

use crate::config::Config;

/// Waiting time after which a client's rate is judged. A shorter one would judge the kernel's
/// buffers.
const TIME: Duration = Duration::from_secs(5);

/// Bytes in the current interval, and the least that must arrive.
pub struct MinRate {
    time: Duration,
    bytes_min: usize,
    came: usize,
    waited: Duration,
}

impl MinRate {
    /// Rate of a client that sends.
    pub fn of_sender(config: &Config) -> Self {
        Self::new(config.client_kib_per_s_min, TIME)
    }

    /// Rate of a client that receives; the kernel reports larger pieces, each of which may take a
    /// request's time.
    pub fn of_taker(config: &Config) -> Self {
        let time = TIME.max(config.request_timeout());
        Self::new(config.client_kib_per_s_min, time)
    }

    fn new(kib_per_s_min: u64, time: Duration) -> Self {
        let bytes_min = kib_per_s_min * 1024 * time.as_millis() as u64 / 1000;
        Self { time, bytes_min: bytes_min as usize, came: 0, waited: Duration::ZERO }
    }

    /// Starts a new interval.
    pub fn begin(&mut self) {
        (self.came, self.waited) = (0, Duration::ZERO);
    }

    /// Remaining waiting time until it is judged.
    pub fn left(&self) -> Duration {
        self.time - self.waited
    }

    /// Adds bytes that passed after a wait. False if the rate was judged, and too low.
    pub fn keeps(&mut self, bytes: usize, waited: Duration) -> bool {
        self.came += bytes;
        self.waited += waited;
        if self.waited < self.time {
            return true;
        }
        let keeps = self.came >= self.bytes_min;
        self.begin();
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_came_in_each_time_of_waiting_counts_and_no_credit_is_kept() {
        let mut pace = MinRate::new(1, 2 * SECOND);
        assert!(pace.keeps(100 * 1024, SECOND) && pace.left() == SECOND);
        assert!(pace.keeps(0, SECOND), "enough came");
        assert!(pace.keeps(2047, SECOND), "not judged yet");
        assert!(!pace.keeps(0, 3 * SECOND), "a byte too few");
        assert_eq!(pace.left(), 2 * SECOND);
        assert!(pace.keeps(2047, SECOND) && pace.keeps(1, SECOND));
    }
}
