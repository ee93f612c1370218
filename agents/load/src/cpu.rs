//! Shares of one core that a thread takes.

use crate::clock::{thread_cpu_ns, SECOND};

/// The calling thread's, from its making on; a mark a second.
#[derive(Debug)]
pub struct CpuUse {
    start: (i64, i64),
    last: (i64, i64),
    share_max: f64,
}

impl CpuUse {
    /// Starts measuring.
    pub fn begin(now_ns: i64) -> Self {
        let mark = (now_ns, thread_cpu_ns());
        Self { start: mark, last: mark, share_max: 0.0 }
    }

    /// Time of the next mark.
    pub fn next_ns(&self) -> i64 {
        self.last.0 + SECOND
    }

    /// Makes a mark if a second is over.
    pub fn mark(&mut self, now_ns: i64) {
        if now_ns >= self.next_ns() {
            let mark = (now_ns, thread_cpu_ns());
            self.share_max = self.share_max.max(share(self.last, mark));
            self.last = mark;
        }
    }

    /// The mean until now, and the most of any second.
    pub fn shares(&self, now_ns: i64) -> (f64, f64) {
        let mean = share(self.start, (now_ns, thread_cpu_ns()));
        (mean, self.share_max.max(mean))
    }
}

fn share((from_ns, cpu_from_ns): (i64, i64), (to_ns, cpu_to_ns): (i64, i64)) -> f64 {
    (cpu_to_ns - cpu_from_ns) as f64 / (to_ns - from_ns).max(1) as f64
}
