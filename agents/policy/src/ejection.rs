//! Outlier ejection: a failing server is taken out for a time, independent of the policy.
//!
//! A server is out after `consecutive_failures` in a row, or when `failure_share` of at least
//! `requests_min` replies within the window were failures. The first time it is out for
//! `out_us_first`, then twice as long each time, at most `out_us_max`; each such time without a new
//! ejection takes one doubling back. At most `out_share_max` of the living servers are out at a
//! time, because the fault is not the server's if all fail. It is not the server's either if the
//! other servers together fail at least half as often in that window: then a page, or a statement,
//! fails everywhere. After Envoy's outlier detection.
//!
//! A server that was out long enough is probed with one request at a time, and the first reply to a
//! request sent since then decides. A probe may hang or fail, so it is a copy of a request that
//! another server has too. A request that cannot be copied is a probe only if there is no other: a
//! whole session (MySQL at one replica, TCP), or a request of a tier without a copyable request for
//! `out_us_max`.

use serde::{Deserialize, Serialize};

use crate::{ServerId, TimeUs};

/// Rules of ejecting servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EjectionRules {
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Failures per reply in the window, 0 to 1.
    pub failure_share: f64,
    /// Minimum replies in the window for the share to count.
    pub requests_min: u32,
    /// The window.
    pub window_us: u64,
    /// The first time out.
    pub out_us_first: u64,
    /// The longest.
    pub out_us_max: u64,
    /// Servers out per server alive, 0 to 1.
    pub out_share_max: f64,
}

impl Default for EjectionRules {
    fn default() -> Self {
        Self {
            consecutive_failures: 5,
            failure_share: 0.5,
            requests_min: 20,
            window_us: 10_000_000,
            out_us_first: 1_000_000,
            out_us_max: 60_000_000,
            out_share_max: 0.5,
        }
    }
}

/// The change that an observation made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Ejected,
    Restored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    In,
    Out(Term),
}

/// Term of an ejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Term {
    /// Time from which it is probed, and its replies decide.
    until: TimeUs,
    /// Time from which it is probed also by requests that cannot be copied.
    alone_from: TimeUs,
    /// A probe is under way.
    is_probed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Replies {
    all: u32,
    failed: u32,
}

#[derive(Debug, Clone)]
struct Record {
    standing: Standing,
    in_a_row: u32,
    /// The window is this half and the one before.
    half: u64,
    now: Replies,
    before: Replies,
    times: u32,
    /// The last time out.
    out_us: u64,
    returned_at: TimeUs,
}

/// The servers that are out, and the failures that may put others out.
#[derive(Debug, Clone)]
pub(crate) struct Ejection {
    rules: Option<EjectionRules>,
    /// Servers are given to sessions.
    for_sessions: bool,
    records: Vec<Record>,
    /// Ejected servers, including probed ones, the longest first.
    out: Vec<ServerId>,
    /// Ejections so far.
    pub(crate) ejections: u64,
    /// Probes so far.
    pub(crate) probes: u64,
}

impl Ejection {
    pub(crate) fn new(rules: Option<EjectionRules>, servers: usize, for_sessions: bool) -> Self {
        let record = Record {
            standing: Standing::In,
            in_a_row: 0,
            half: 0,
            now: Replies::default(),
            before: Replies::default(),
            times: 0,
            out_us: 0,
            returned_at: 0,
        };
        Self {
            rules,
            for_sessions,
            records: vec![record; servers],
            out: Vec::with_capacity(servers),
            ejections: 0,
            probes: 0,
        }
    }

    /// Other rules from now on; who is out stays out by the old ones. Without rules the driver
    /// takes everybody back with [`Ejection::readmit`].
    pub(crate) fn set(&mut self, rules: Option<EjectionRules>) {
        self.rules = rules;
    }

    pub(crate) fn is_out(&self, server: ServerId) -> bool {
        self.records[server].standing != Standing::In
    }

    /// Ejected servers, the longest first.
    pub(crate) fn out(&self) -> &[ServerId] {
        &self.out
    }

    /// The change that a reply of the server, one of `alive`, makes; it took `took_us`.
    pub(crate) fn observe(
        &mut self,
        now: TimeUs,
        server: ServerId,
        (failed, took_us): (bool, u64),
        alive: usize,
    ) -> Change {
        let Some(rules) = self.rules else {
            return Change::None;
        };
        let record = &mut self.records[server];
        record.count(now, failed, &rules);
        match (record.standing, failed) {
            (Standing::In, true) if record.is_outlier(&rules) => {
                let own = record.recent(now, &rules);
                let room = rules.out_share_max * alive as f64;
                let has_room = (self.out.len() + 1) as f64 <= room;
                if !has_room || self.others_fail_too(now, server, own, &rules) {
                    return Change::None;
                }
                self.eject(now, server, &rules);
                self.out.push(server);
                Change::Ejected
            }
            // Requests sent before say nothing of now.
            (Standing::Out(term), _) if now.saturating_sub(took_us) < term.until => Change::None,
            (Standing::Out(_), true) => {
                self.eject(now, server, &rules);
                Change::None
            }
            (Standing::Out(_), false) => {
                self.readmit(now, server);
                Change::Restored
            }
            (Standing::In, _) => Change::None,
        }
    }

    /// True if those of the others that are in fail at least half as often as the server does.
    fn others_fail_too(
        &self,
        now: TimeUs,
        server: ServerId,
        own: Replies,
        rules: &EjectionRules,
    ) -> bool {
        let mut total = Replies::default();
        for (other, record) in self.records.iter().enumerate() {
            if other != server && record.standing == Standing::In {
                let recent = record.recent(now, rules);
                total.all = total.all.saturating_add(recent.all);
                total.failed = total.failed.saturating_add(recent.failed);
            }
        }
        // Few replies say nothing of the others; products compare the shares.
        let (all, failed) = (u64::from(total.all), u64::from(total.failed));
        total.all >= rules.consecutive_failures
            && 2 * failed * u64::from(own.all) >= u64::from(own.failed) * all
    }

    /// A server that is to be probed now, by a copy, and that `may` have this request.
    pub(crate) fn due(&self, now: TimeUs, may: impl Fn(ServerId) -> bool) -> Option<ServerId> {
        self.find(may, |term| term.until <= now)
    }

    /// The same as `due`, for requests that cannot be copied.
    pub(crate) fn due_alone(
        &self,
        now: TimeUs,
        may: impl Fn(ServerId) -> bool,
    ) -> Option<ServerId> {
        self.find(may, |term| term.alone_from <= now)
    }

    fn find(
        &self,
        may: impl Fn(ServerId) -> bool,
        is_due: impl Fn(&Term) -> bool,
    ) -> Option<ServerId> {
        let is_wanted = |server: &ServerId| match &self.records[*server].standing {
            Standing::Out(term) => !term.is_probed && is_due(term) && may(*server),
            Standing::In => false,
        };
        self.out.iter().copied().find(is_wanted)
    }

    /// The server, which is due, is probed from now on.
    pub(crate) fn probe(&mut self, server: ServerId) {
        if let Standing::Out(term) = &mut self.records[server].standing {
            term.is_probed = true;
            self.probes += 1;
        }
    }

    /// The server has nothing under way any more. A probe that ended without a word is tried again.
    pub(crate) fn idle(&mut self, now: TimeUs, server: ServerId) {
        let Some(rules) = self.rules else {
            return;
        };
        let record = &mut self.records[server];
        match &mut record.standing {
            Standing::Out(term) if term.is_probed => {
                // Whole sessions come one by one: not each of them is to be such a probe.
                let patience_us = if self.for_sessions { record.out_us } else { rules.out_us_max };
                term.is_probed = false;
                term.alone_from = now.saturating_add(patience_us);
            }
            Standing::In | Standing::Out(_) => {}
        }
    }

    /// The server is in, as if nothing had been; its past ejections count for the next one.
    pub(crate) fn readmit(&mut self, now: TimeUs, server: ServerId) {
        self.out.retain(|&other| other != server);
        let record = &mut self.records[server];
        *record = Record {
            standing: Standing::In,
            in_a_row: 0,
            now: Replies::default(),
            before: Replies::default(),
            returned_at: now,
            ..*record
        };
    }

    /// A server that has to return because too many are ejected for `alive` servers.
    pub(crate) fn surplus(&self, alive: usize) -> Option<ServerId> {
        let room = self.rules.map_or(0.0, |rules| rules.out_share_max) * alive as f64;
        let first = self.out.first().copied();
        first.filter(|_| self.out.len() as f64 > room)
    }

    fn eject(&mut self, now: TimeUs, server: ServerId, rules: &EjectionRules) {
        let record = &mut self.records[server];
        let good_times = now.saturating_sub(record.returned_at) / rules.out_us_first.max(1);
        let good_times = u32::try_from(good_times).unwrap_or(u32::MAX);
        if record.standing == Standing::In {
            record.times = record.times.saturating_sub(good_times);
        }
        let doubled = rules.out_us_first.saturating_mul(1 << record.times.min(32));
        record.out_us = doubled.min(rules.out_us_max);
        let until = now.saturating_add(record.out_us);
        // Nothing of a session can be copied, however long one waits.
        let patience_us = if self.for_sessions { 0 } else { rules.out_us_max };
        record.standing = Standing::Out(Term {
            until,
            alone_from: until.saturating_add(patience_us),
            is_probed: false,
        });
        record.times = record.times.saturating_add(1);
        self.ejections += 1;
    }
}

impl Record {
    fn count(&mut self, now: TimeUs, failed: bool, rules: &EjectionRules) {
        let half = now / (rules.window_us / 2).max(1);
        if half != self.half {
            let adjacent = half == self.half + 1;
            self.before = if adjacent { self.now } else { Replies::default() };
            self.now = Replies::default();
            self.half = half;
        }
        self.now.all = self.now.all.saturating_add(1);
        self.now.failed = self.now.failed.saturating_add(u32::from(failed));
        self.in_a_row = if failed { self.in_a_row.saturating_add(1) } else { 0 };
    }

    /// The replies of the window, which may have moved on since the last of them.
    fn recent(&self, now: TimeUs, rules: &EjectionRules) -> Replies {
        let half = now / (rules.window_us / 2).max(1);
        let empty = Replies::default();
        let (now, before) = match half.checked_sub(self.half) {
            Some(0) => (self.now, self.before),
            Some(1) => (empty, self.now),
            _ => (empty, empty),
        };
        Replies {
            all: now.all.saturating_add(before.all),
            failed: now.failed.saturating_add(before.failed),
        }
    }

    fn is_outlier(&self, rules: &EjectionRules) -> bool {
        let all = self.now.all.saturating_add(self.before.all);
        let failed = self.now.failed.saturating_add(self.before.failed);
        self.in_a_row >= rules.consecutive_failures
            || (all >= rules.requests_min
                && f64::from(failed) >= rules.failure_share * f64::from(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn ejection() -> Ejection {
        Ejection::new(Some(EjectionRules::default()), 4, false)
    }

    #[test]
    fn who_fails_as_often_as_the_others_is_not_out() {
        let rules = EjectionRules::default();
        // Of every three replies of each server one is the page that fails everywhere.
        let mut ejection = ejection();
        for turn in 0..300 {
            let failed = turn % 3 == 0;
            for server in 0..4 {
                ejection.observe(turn, server, (failed, 0), 4);
            }
        }
        assert_eq!(fail(&mut ejection, 300, 0, 5), Change::None);
        // That server alone fails from then on, and is out once its share is twice that of the others.
        let out = (0..300).find(|_| fail(&mut ejection, 301, 0, 1) == Change::Ejected);
        assert!(out.is_some());
        // Old replies say nothing of the others now.
        let later = 10 * rules.window_us;
        assert_eq!(fail(&mut ejection, later, 1, 5), Change::Ejected);
    }

    fn fail(ejection: &mut Ejection, now: TimeUs, server: ServerId, times: u32) -> Change {
        (0..times).fold(Change::None, |_, _| ejection.observe(now, server, (true, 0), 4))
    }

    fn probe(ejection: &mut Ejection, now: TimeUs) -> Option<ServerId> {
        let server = ejection.due(now, |_| true)?;
        ejection.probe(server);
        Some(server)
    }

    #[test]
    fn five_failures_in_a_row_eject_and_a_success_between_starts_again() {
        let mut ejection = ejection();
        assert_eq!(fail(&mut ejection, 0, 0, 4), Change::None);
        assert_eq!(ejection.observe(0, 0, (false, 0), 4), Change::None);
        assert_eq!(fail(&mut ejection, 0, 0, 4), Change::None);
        assert_eq!(fail(&mut ejection, 0, 0, 1), Change::Ejected);
        assert!(ejection.is_out(0));
    }

    #[test]
    fn half_of_twenty_replies_in_the_window_eject() {
        let mut ejection = ejection();
        for _ in 0..9 {
            assert_eq!(ejection.observe(0, 0, (false, 0), 4), Change::None);
            assert_eq!(ejection.observe(4 * SECOND, 0, (true, 0), 4), Change::None);
        }
        assert_eq!(ejection.observe(4 * SECOND, 0, (false, 0), 4), Change::None);
        assert_eq!(ejection.observe(4 * SECOND, 0, (true, 0), 4), Change::Ejected);
    }

    #[test]
    fn replies_older_than_the_window_do_not_count() {
        let mut ejection = ejection();
        for now in [0, 60 * SECOND] {
            for _ in 0..9 {
                assert_eq!(ejection.observe(now, 0, (false, 0), 4), Change::None);
                assert_eq!(ejection.observe(now, 0, (true, 0), 4), Change::None);
            }
        }
    }

    #[test]
    fn at_most_half_of_those_alive_are_out() {
        let mut ejection = ejection();
        assert_eq!(fail(&mut ejection, 0, 0, 5), Change::Ejected);
        assert_eq!(fail(&mut ejection, 0, 1, 5), Change::Ejected);
        assert_eq!(fail(&mut ejection, 0, 2, 50), Change::None);
        assert_eq!(ejection.surplus(4), None);
        assert_eq!(ejection.surplus(3), Some(0), "two of three are too many");
        assert_eq!(ejection.observe(0, 3, (true, 0), 1), Change::None, "never the only one");
    }

    #[test]
    fn one_probe_at_a_time_decides_and_times_out_grow_and_shrink_again() {
        let mut ejection = ejection();
        fail(&mut ejection, 0, 0, 5);
        assert_eq!(probe(&mut ejection, SECOND - 1), None);
        assert_eq!(ejection.due(SECOND, |_| false), None, "not for this request");
        assert_eq!(probe(&mut ejection, SECOND), Some(0));
        assert_eq!(probe(&mut ejection, SECOND), None, "one at a time");
        assert_eq!(fail(&mut ejection, SECOND, 0, 1), Change::None);
        assert_eq!(probe(&mut ejection, 3 * SECOND - 1), None, "twice as long");
        assert_eq!(probe(&mut ejection, 3 * SECOND), Some(0));
        ejection.idle(3 * SECOND, 0);
        assert_eq!(probe(&mut ejection, 3 * SECOND), Some(0), "it said nothing");
        let change = ejection.observe(3 * SECOND, 0, (false, 0), 4);
        assert_eq!(change, Change::Restored);
        assert_eq!(fail(&mut ejection, 4 * SECOND, 0, 5), Change::Ejected);
        // Twice ejected, one good second since: the second step again.
        assert_eq!(probe(&mut ejection, 6 * SECOND - 1), None);
        assert_eq!(probe(&mut ejection, 6 * SECOND), Some(0));
    }

    #[test]
    fn a_late_reply_does_not_bring_it_back() {
        let mut ejection = ejection();
        fail(&mut ejection, 0, 0, 5);
        assert_eq!(ejection.observe(10, 0, (false, 0), 4), Change::None);
        assert!(ejection.is_out(0));
        // Nor while it is probed; the probe's own reply does.
        assert_eq!(probe(&mut ejection, SECOND), Some(0));
        for failed in [false, true] {
            let change = ejection.observe(2 * SECOND, 0, (failed, SECOND + 1), 4);
            assert_eq!(change, Change::None);
        }
        assert_eq!(ejection.ejections, 1);
        let change = ejection.observe(2 * SECOND, 0, (false, SECOND), 4);
        assert_eq!(change, Change::Restored);
    }

    #[test]
    fn what_is_sent_after_its_time_decides_also_where_it_was_no_probe() {
        let mut ejection = ejection();
        fail(&mut ejection, 0, 0, 5);
        let change = ejection.observe(SECOND, 0, (true, 0), 4);
        assert_eq!((change, ejection.ejections), (Change::None, 2));
        let change = ejection.observe(3 * SECOND, 0, (false, 0), 4);
        assert_eq!(change, Change::Restored);
    }

    #[test]
    fn what_cannot_be_copied_probes_only_where_nothing_that_can_came_for_long() {
        let mut ejection = ejection();
        fail(&mut ejection, 0, 0, 5);
        let longest = EjectionRules::default().out_us_max;
        assert_eq!(ejection.due_alone(longest + SECOND - 1, |_| true), None);
        assert_eq!(ejection.due_alone(longest + SECOND, |_| true), Some(0));
        assert_eq!(probe(&mut ejection, SECOND), Some(0));
        ejection.idle(2 * SECOND, 0);
        assert_eq!(ejection.due_alone(longest + SECOND, |_| true), None);
    }

    #[test]
    fn a_session_probes_at_once_and_the_next_only_after_a_while_where_it_said_nothing() {
        let mut ejection = Ejection::new(Some(EjectionRules::default()), 4, true);
        fail(&mut ejection, 0, 0, 5);
        assert_eq!(ejection.due_alone(SECOND, |_| true), Some(0));
        assert_eq!(probe(&mut ejection, SECOND), Some(0));
        ejection.idle(SECOND, 0);
        assert_eq!(ejection.due_alone(2 * SECOND - 1, |_| true), None);
        assert_eq!(ejection.due_alone(2 * SECOND, |_| true), Some(0));
    }
}
