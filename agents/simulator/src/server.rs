//! One server: jobs that share its cores, in virtual time.
//!
//! Under processor sharing all jobs get the same rate, min(1, V / n) of a core times the server's
//! speed. So the work of each since the server was last idle is one number, the virtual time; a job
//! ends when that reaches its value at the start plus its work. Arrivals, departures and changes of
//! speed do not change the order in which jobs end, and an event costs O(log n).
//!
//! With a quota (`quota.rs`) they share the rest of the period's CPU time. A slowed server has no
//! bursts, because the neighbour uses them.
//!
//! First come, first served: at most V jobs share (each has a core), the others wait in line.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::quota::{Cap, Quota};

/// Sharing of a server's cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sharing {
    /// V.
    pub(crate) cores: f64,
    /// Jobs that share at a time.
    pub(crate) running_max: usize,
    /// Share of a core that one who wants a core gets: below 1 where the host has too few (`host.rs`).
    pub(crate) pace: f64,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    end: f64,
    copy: u32,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    /// The greatest is the first to end.
    fn cmp(&self, other: &Self) -> Ordering {
        other.end.total_cmp(&self.end).then(other.copy.cmp(&self.copy))
    }
}

/// A server and its jobs.
#[derive(Debug)]
pub(crate) struct Server {
    virtual_ns: f64,
    updated_ns: u64,
    /// 1 undisturbed; may not be 0.
    speed: f64,
    /// Jobs of others that share its cores.
    strangers: f64,
    first: Job,
    others: BinaryHeap<Job>,
    /// Time of its next end of work in the calendar; u64::MAX for none.
    scheduled_ns: u64,
    /// Counts the changes, so that an event of before one can be told.
    pub(crate) version: u32,
    running: u32,
    /// Boxed, since most servers have none and there are many.
    quota: Option<Box<Quota>>,
}

/// Jobs in line, of first come, first served.
pub(crate) type Line = VecDeque<(u32, f64)>;

impl Server {
    pub(crate) fn new(cap: Option<Cap>) -> Self {
        Self {
            quota: cap.map(|cap| Box::new(Quota::new(cap))),
            virtual_ns: 0.0,
            updated_ns: 0,
            speed: 1.0,
            strangers: 0.0,
            first: Job { end: 0.0, copy: 0 },
            others: BinaryHeap::new(),
            scheduled_ns: u64::MAX,
            version: 0,
            running: 0,
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running as usize
    }

    /// A job starts to run.
    pub(crate) fn start(&mut self, now_ns: u64, copy: u32, work_ns: f64, sharing: Sharing) {
        self.advance(now_ns, sharing);
        if self.running == 0 {
            self.wake(now_ns);
        }
        let job = Job { end: self.virtual_ns + work_ns, copy };
        self.running += 1;
        if self.running == 1 {
            self.first = job;
        } else if job > self.first {
            self.others.push(std::mem::replace(&mut self.first, job));
        } else {
            self.others.push(job);
        }
    }

    /// The first job ends now, as `next_end_ns` said.
    pub(crate) fn end_first(&mut self, now_ns: u64, sharing: Sharing) -> u32 {
        let bursts = self.bursts();
        if let Some(quota) = self.quota.as_mut().filter(|_| bursts) {
            let cores = quota.cores(self.running) * sharing.pace;
            quota.used_ns(self.updated_ns, now_ns, cores);
        }
        let Job { end, copy } = self.first;
        self.virtual_ns = end;
        self.updated_ns = now_ns;
        self.running -= 1;
        match self.others.pop() {
            Some(job) => self.first = job,
            None => self.virtual_ns = 0.0,
        }
        copy
    }

    /// Time at which the first job ends if nothing changes, if one runs.
    pub(crate) fn next_end_ns(&self, sharing: Sharing) -> Option<u64> {
        if self.running == 0 {
            return None;
        }
        let left_ns = (self.first.end - self.virtual_ns).max(0.0);
        if let Some(quota) = self.quota.as_ref().filter(|_| self.bursts()) {
            let wanted_ns = left_ns * f64::from(self.running);
            let cores = quota.cores(self.running) * sharing.pace;
            let reached_ns = quota.reached_ns(self.updated_ns, wanted_ns, cores);
            return Some(rounded_up(reached_ns));
        }
        let left_ns = left_ns / self.rate(sharing);
        Some(self.updated_ns + rounded_up(left_ns))
    }

    /// Time at which its quota is next exhausted or renewed, if that has an effect.
    pub(crate) fn next_turn_ns(&self, sharing: Sharing) -> Option<u64> {
        let quota = self.quota.as_ref().filter(|_| self.bursts())?;
        if self.running == 0 {
            return None;
        }
        let turns_ns = quota.turns_ns(self.updated_ns, quota.cores(self.running) * sharing.pace);
        Some(rounded_up(turns_ns).max(self.updated_ns + 1))
    }

    /// Cores that it would use now if the host had enough. One that is slowed uses its share in
    /// full: what its jobs do not get, whoever slows it does.
    pub(crate) fn demand_cores(&self, sharing: Sharing) -> f64 {
        if !self.bursts() {
            return sharing.cores;
        }
        match &self.quota {
            Some(quota) if quota.is_spent() => 0.0,
            Some(quota) => quota.cores(self.running),
            None => f64::from(self.running).min(sharing.cores),
        }
    }

    /// Time for the next end of work in the calendar; none if it is there, or there is none.
    /// `always`: the calendar's entry is over.
    pub(crate) fn reschedule(&mut self, next_ns: Option<u64>, always: bool) -> Option<u64> {
        let at_ns = next_ns.unwrap_or(u64::MAX);
        if at_ns == self.scheduled_ns && !always {
            return None;
        }
        self.scheduled_ns = at_ns;
        self.version = self.version.wrapping_add(1);
        next_ns
    }

    /// The server goes on at another speed, beside so many jobs of others.
    pub(crate) fn disturb(&mut self, now_ns: u64, speed: f64, strangers: f64, sharing: Sharing) {
        self.advance(now_ns, sharing);
        self.speed = speed;
        self.strangers = strangers;
        self.wake(now_ns);
    }

    /// All jobs are lost.
    pub(crate) fn crash(&mut self) {
        self.others.clear();
        self.running = 0;
        self.virtual_ns = 0.0;
    }

    fn wake(&mut self, now_ns: u64) {
        if let Some(quota) = &mut self.quota {
            quota.wake(now_ns);
        }
    }

    fn bursts(&self) -> bool {
        self.speed >= 1.0 && self.strangers <= 0.0
    }

    fn rate(&self, sharing: Sharing) -> f64 {
        let sharers = f64::from(self.running) + self.strangers;
        self.speed * (sharing.cores / sharers).min(1.0) * sharing.pace
    }

    /// Gives its jobs the work since the last change.
    pub(crate) fn advance(&mut self, now_ns: u64, sharing: Sharing) {
        if self.running > 0 {
            let bursts = self.bursts();
            self.virtual_ns += match &mut self.quota {
                Some(quota) if bursts => {
                    let cores = quota.cores(self.running) * sharing.pace;
                    quota.used_ns(self.updated_ns, now_ns, cores) / f64::from(self.running)
                }
                _ => (now_ns - self.updated_ns) as f64 * self.rate(sharing),
            };
        }
        self.updated_ns = now_ns;
    }
}

/// Rounds up as `ceil` does, without a call to the mathematical library.
fn rounded_up(value: f64) -> u64 {
    let whole = value as u64;
    whole.saturating_add(u64::from((whole as f64) < value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Sharing = Sharing { cores: 1.0, running_max: usize::MAX, pace: 1.0 };

    #[test]
    fn two_jobs_share_one_core_and_a_slow_server_takes_longer() {
        let mut server = Server::new(None);
        server.start(0, 1, 100.0, ONE);
        assert_eq!(server.next_end_ns(ONE), Some(100));
        server.start(50, 2, 20.0, ONE); // 50 and 20 left, each at half a core
        assert_eq!(server.next_end_ns(ONE), Some(90));
        server.disturb(70, 0.5, 0.0, ONE); // 40 and 10 left, each at a quarter
        assert_eq!(server.next_end_ns(ONE), Some(110));
        assert_eq!(server.end_first(110, ONE), 2);
        assert_eq!(server.next_end_ns(ONE), Some(110 + 60)); // 30 left at half
        assert_eq!(server.end_first(170, ONE), 1);
        assert_eq!(server.next_end_ns(ONE), None);
    }

    #[test]
    fn with_a_quota_a_short_job_bursts_and_a_long_one_waits_for_the_next_period() {
        let cap = Cap { period_ns: 100, each_ns: 40.0, cores: 2.0 };
        let share = Sharing { cores: 0.4, ..ONE };
        let mut server = Server::new(Some(cap));
        server.start(1_000, 1, 10.0, share);
        assert_eq!(server.next_end_ns(share), Some(1_010));
        assert_eq!(server.end_first(1_010, share), 1);
        // 30 are left, which two jobs get on a core each, and 30 of the next 40.
        server.start(1_010, 2, 30.0, share);
        server.start(1_010, 3, 35.0, share);
        assert_eq!(server.next_end_ns(share), Some(1_115));
        assert_eq!(server.end_first(1_115, share), 2);
        assert_eq!(server.next_end_ns(share), Some(1_120));
        // Slowed, it has its share and no more: 5 left at 0.4 times a half.
        server.disturb(1_115, 0.5, 0.0, share);
        assert_eq!(server.next_end_ns(share), Some(1_140));
        server.disturb(1_130, 1.0, 0.0, share);
        assert_eq!(server.next_end_ns(share), Some(1_132));
        assert_eq!(server.end_first(1_132, share), 3);
    }

    #[test]
    fn strangers_get_the_share_of_a_job_each() {
        let mut server = Server::new(None);
        server.start(0, 1, 100.0, ONE);
        server.disturb(0, 1.0, 3.0, ONE); // one of four shares
        assert_eq!(server.next_end_ns(ONE), Some(400));
        server.start(200, 2, 100.0, ONE); // 50 left, one of five each
        assert_eq!(server.next_end_ns(ONE), Some(450));
        server.disturb(300, 1.0, 0.0, ONE); // 30 left, half a core each
        assert_eq!(server.next_end_ns(ONE), Some(360));
    }

    #[test]
    fn two_cores_serve_two_jobs_at_full_speed_and_four_at_half() {
        let two = Sharing { cores: 2.0, ..ONE };
        let mut server = Server::new(None);
        for copy in 0..2 {
            server.start(0, copy, 100.0, two);
        }
        assert_eq!(server.next_end_ns(two), Some(100));
        for copy in 2..4 {
            server.start(0, copy, 100.0, two);
        }
        assert_eq!(server.next_end_ns(two), Some(200));
    }
}
