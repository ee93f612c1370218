//! The open loop: every request is sent at its own time, independent of earlier answers.
//!
//! If a client waits for an answer before it continues, a stalled server stalls the arrivals, and
//! the worst requests are never sent (coordinated omission). Here the schedule is drawn in advance.
//! A due request is sent on an idle connection, or on a new one, and its latency counts from its
//! due time.
//!
//! One thread is one loop over `epoll`, edge-triggered: a request costs one write and one read. It
//! looks at the schedule after each event, and sleeps by a timer of the kernel (`timerfd`), since
//! `epoll`'s own time-out counts in milliseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use mio::event::Event;
use mio::{Events, Token};

use crate::clock::{monotonic_ns, SECOND};
use crate::conn::{Conn, Took};
use crate::cpu::CpuUse;
use crate::operation::VirtualUser;
use crate::outcome::Outcome;
use crate::plan::{part, Plan};
use crate::pool::{Mark, Pool};
use crate::protocol::Reader;
use crate::record::Record;
use crate::waiting::{lead_ns, slot_of, Stop, Waiting};

const EVENTS: usize = 1024;

/// Records are passed on after this, or when there are so many.
const PASS_ON_NS: i64 = SECOND / 10;
const PASS_ON: usize = 4096;

/// Requests in a row without a look for answers.
const LAUNCHES: usize = 64;

/// The result of one loop.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopEnd {
    /// Arrivals that it came to.
    pub launched: u64,
    /// Requests with a record; the others were under way at the stop.
    pub recorded: u64,
    /// Mean use of one core, and the maximum of any second.
    pub cpu_share: f64,
    /// See `cpu_share`.
    pub cpu_share_max: f64,
}

/// The user at an arrival, and its intended start, if it waited for another.
#[derive(Debug, Default)]
struct Visit {
    user: VirtualUser,
    intended_ns: Option<i64>,
}

/// One thread's part of a block: sends each request when it is due.
pub struct Engine {
    plan: Arc<Plan>,
    records: Sender<Vec<Record>>,
    waiting: Waiting,
    pool: Pool,
    origin_ns: i64,
    /// The next arrival that leaves at its offset, and how many places it is to the one after it.
    next: usize,
    step: usize,
    /// Steps that wait for their time, the first on top.
    thinking: BinaryHeap<Reverse<(i64, usize)>>,
    /// Visits over HTTP, by the arrival that they are at.
    visits: HashMap<usize, Visit>,
    launched: u64,
    recorded: u64,
    in_flight: usize,
    in_flight_max: usize,
    /// Deadlines in order, as each kind has one limit; those of ended requests are skipped.
    connecting: VecDeque<Mark>,
    answering: VecDeque<Mark>,
    out: Vec<Record>,
    passed_ns: i64,
    scratch: Vec<u8>,
}

impl Engine {
    /// Creates thread `number` of `count`: it has every `count`-th arrival.
    pub fn new(
        plan: Arc<Plan>,
        number: usize,
        count: usize,
        records: Sender<Vec<Record>>,
    ) -> io::Result<Self> {
        Ok(Self {
            records,
            waiting: Waiting::new(lead_ns(mean_gap_ns(&plan.offsets_ns) * count as f64))?,
            pool: Pool::new(plan.targets.len()),
            origin_ns: 0,
            next: number,
            step: count,
            thinking: BinaryHeap::new(),
            visits: HashMap::new(),
            launched: 0,
            recorded: 0,
            in_flight: 0,
            in_flight_max: part(plan.max_in_flight, number, count),
            connecting: VecDeque::new(),
            answering: VecDeque::new(),
            out: vec![],
            passed_ns: 0,
            scratch: vec![0; 64 * 1024],
            plan,
        })
    }

    /// Handle that stops it.
    pub fn stopper(&self) -> Stop {
        self.waiting.stop.clone()
    }

    /// Launches every arrival at its time after `origin_ns`, then waits for those under way, which
    /// limits bound.
    pub fn run(mut self, origin_ns: i64) -> io::Result<LoopEnd> {
        self.origin_ns = origin_ns;
        let mut cpu = CpuUse::begin(monotonic_ns());
        let mut events = Events::with_capacity(EVENTS);
        while self.next < self.plan.len() || self.in_flight > 0 || !self.thinking.is_empty() {
            self.launch_due(LAUNCHES);
            let now_ns = monotonic_ns();
            self.give_up_late(now_ns);
            cpu.mark(now_ns);
            self.pass_on(now_ns, false);
            let wake_ns = self.wake_ns().min(cpu.next_ns());
            self.waiting.wait(&mut events, self.due_ns(), wake_ns)?;
            for event in &events {
                if let Some(slot) = slot_of(event.token()) {
                    self.on_event(slot, event);
                }
                self.launch_due(1);
            }
            if self.waiting.stop.is_stopped() {
                break;
            }
        }
        self.pass_on(monotonic_ns(), true);
        let (cpu_share, cpu_share_max) = cpu.shares(monotonic_ns());
        Ok(LoopEnd { launched: self.launched, recorded: self.recorded, cpu_share, cpu_share_max })
    }

    /// Time of the next request.
    fn due_ns(&self) -> i64 {
        let arrival_ns = match self.plan.offsets_ns.get(self.next) {
            Some(offset_ns) => self.origin_ns + offset_ns,
            None => i64::MAX,
        };
        let Reverse((step_ns, _)) = self.thinking.peek().unwrap_or(&Reverse((i64::MAX, 0)));
        arrival_ns.min(*step_ns)
    }

    /// Time of the next action that needs no event.
    fn wake_ns(&mut self) -> i64 {
        let pass_on_ns = if self.out.is_empty() { i64::MAX } else { self.passed_ns + PASS_ON_NS };
        let mut wake_ns = pass_on_ns;
        for queue in [&mut self.connecting, &mut self.answering] {
            while let Some(limit) = queue.front() {
                if self.pool.of(limit).is_some() {
                    wake_ns = wake_ns.min(limit.at_ns);
                    break;
                }
                queue.pop_front();
            }
        }
        wake_ns
    }

    /// Launches what is due, at most so many.
    fn launch_due(&mut self, most: usize) {
        for _ in 0..most {
            let due_ns = self.due_ns();
            if due_ns == i64::MAX {
                return;
            }
            let now_ns = monotonic_ns();
            if due_ns > now_ns || self.waiting.stop.is_stopped() {
                return;
            }
            let place = self.take_due(due_ns);
            self.launched += 1;
            if self.in_flight >= self.in_flight_max {
                self.finish(Record::unsent(place, Outcome::Dropped, now_ns, None));
            } else {
                self.in_flight += 1;
                self.launch(place, now_ns);
            }
        }
    }

    /// The arrival or step that is due then.
    fn take_due(&mut self, due_ns: i64) -> usize {
        if let Some(&Reverse((step_ns, place))) = self.thinking.peek() {
            if step_ns == due_ns {
                self.thinking.pop();
                return place;
            }
        }
        let place = self.next;
        self.next += self.step;
        while self.next < self.plan.len() && !self.plan.begins(self.next) {
            self.next += self.step;
        }
        if self.plan.operation(place).http.is_some() {
            let user = self.plan.user_of(place);
            self.visits.insert(place, Visit { user, intended_ns: None });
        }
        place
    }

    fn launch(&mut self, place: usize, now_ns: i64) {
        let target = self.plan.route(place).target;
        if let Some(slot) = self.pool.reusable(target, now_ns) {
            if let Some(conn) = self.pool.get(slot) {
                conn.take_on(place, now_ns);
            }
            return self.ask(slot, now_ns);
        }
        let (slot, stamp) = (self.pool.free_slot(), self.pool.next_stamp());
        let server = &self.plan.targets[target];
        let tls = self.plan.tls.as_ref().filter(|_| server.secure);
        let conn =
            Conn::connect(server, tls, (target, place), now_ns, stamp).and_then(|mut conn| {
                conn.register(self.waiting.registry(), Token(slot))?;
                Ok(conn)
            });
        if let Ok(conn) = conn {
            self.pool.fill(slot, conn);
            self.connecting.push_back(Mark {
                at_ns: now_ns + self.plan.connect_timeout_ns,
                slot,
                stamp,
            });
        } else {
            self.in_flight -= 1;
            let (outcome, done_ns) = (Outcome::ConnectionError, Some(monotonic_ns()));
            self.finish(Record::unsent(place, outcome, now_ns, done_ns));
        }
    }

    /// Sends the request of a connection that is ready for it.
    fn ask(&mut self, slot: usize, now_ns: i64) {
        let stamp = self.pool.next_stamp();
        let Some(conn) = self.pool.get(slot) else {
            return;
        };
        let route = self.plan.route(conn.place);
        let target = &self.plan.targets[route.target];
        let limit_ns = now_ns + self.plan.response_timeout_ns;
        let visit = self.visits.get(&conn.place);
        match (&self.plan.operation(conn.place).http, visit) {
            (Some(http), Some(visit)) => {
                let bytes = http.bytes(&target.host, &visit.user);
                conn.ask(&bytes, Reader::of_operation(http), limit_ns, stamp);
            }
            _ => conn.ask(&route.bytes, Reader::new(target.protocol), limit_ns, stamp),
        }
        self.answering.push_back(Mark { at_ns: limit_ns, slot, stamp });
        self.write(slot);
    }

    fn write(&mut self, slot: usize) {
        if let Some(conn) = self.pool.get(slot) {
            if conn.write().is_err() {
                let outcome = conn.failure();
                self.end(slot, outcome, false);
            }
        }
    }

    fn on_event(&mut self, slot: usize, event: &Event) {
        let Some(conn) = self.pool.get(slot) else {
            return;
        };
        if conn.is_connecting() {
            match conn.connected() {
                None => return,
                Some(Err(_)) => return self.end(slot, Outcome::ConnectionError, false),
                Some(Ok(())) if conn.must_log_in() => self.write(slot),
                Some(Ok(())) => self.ask(slot, monotonic_ns()),
            }
        } else if event.is_writable() && conn.is_unsent() {
            self.write(slot);
        }
        let ends = event.is_read_closed() || event.is_error();
        if event.is_readable() || ends {
            self.read(slot, ends);
        }
    }

    fn read(&mut self, slot: usize, ends: bool) {
        let Some(conn) = self.pool.get(slot) else {
            return;
        };
        let target = &self.plan.targets[conn.target];
        let operation = self.plan.operation(conn.place);
        match conn.read(&mut self.scratch, ends, target, &operation.check) {
            Took::Nothing => {}
            Took::Ended(outcome, keep) => self.end(slot, outcome, keep),
            Took::LoggedIn => self.ask(slot, monotonic_ns()),
            Took::Write => self.write(slot),
            Took::Gone => self.pool.close(slot),
        }
    }

    /// A request has ended: its record, and what becomes of its connection.
    fn end(&mut self, slot: usize, outcome: Outcome, keep: bool) {
        let Some(conn) = self.pool.get(slot) else {
            return;
        };
        let now_ns = monotonic_ns();
        let (outcome, done_ns) = if conn.limit_ns < now_ns && !conn.is_connecting() {
            (Outcome::TimeOut, conn.limit_ns)
        } else {
            (outcome, now_ns)
        };
        let mut record = conn.record(outcome, done_ns);
        if outcome == Outcome::Ok {
            let http = &self.plan.operation(conn.place).http;
            let visit = self.visits.get_mut(&conn.place);
            if let (Some(http), Some(visit), Some(answer)) = (http, visit, conn.answer()) {
                (record.outcome, record.lack) = answer.judge(http, &mut visit.user);
            }
        }
        if keep && self.plan.keep_alive {
            self.pool.keep_idle(slot, now_ns);
        } else {
            self.pool.close(slot);
        }
        self.in_flight -= 1;
        self.finish(record);
    }

    /// Requests whose limit has come end at it.
    fn give_up_late(&mut self, now_ns: i64) {
        while let Some(limit) = take_until(&mut self.connecting, now_ns) {
            self.end_at_limit(limit, Outcome::AbortedConnection);
        }
        while let Some(limit) = take_until(&mut self.answering, now_ns) {
            self.end_at_limit(limit, Outcome::TimeOut);
        }
    }

    fn end_at_limit(&mut self, limit: Mark, outcome: Outcome) {
        let Some(conn) = self.pool.of(&limit) else {
            return;
        };
        let record = conn.record(outcome, limit.at_ns);
        self.pool.close(limit.slot);
        self.in_flight -= 1;
        self.finish(record);
    }

    /// A request has its record; in a session the step after it waits, or none is reached any more.
    fn finish(&mut self, mut record: Record) {
        let place = record.place as usize;
        let visit = self.visits.remove(&place).unwrap_or_default();
        record.intended_ns = visit.intended_ns;
        self.record(record);
        let mut following = self.plan.following(place);
        if let (Outcome::Ok, Some(done_ns), Some((next, think_ns))) =
            (record.outcome, record.done_ns, following)
        {
            let due_ns = done_ns + think_ns;
            let intended_ns = Some(due_ns);
            let user = visit.user;
            self.visits.insert(next, Visit { user, intended_ns });
            self.thinking.push(Reverse((due_ns, next)));
            return;
        }
        while let Some((next, _)) = following {
            self.launched += 1;
            self.record(Record::unsent(next, Outcome::Unreached, 0, None));
            following = self.plan.following(next);
        }
    }

    fn record(&mut self, record: Record) {
        self.recorded += 1;
        self.out.push(record);
    }

    fn pass_on(&mut self, now_ns: i64, all: bool) {
        let is_time = now_ns - self.passed_ns >= PASS_ON_NS || self.out.len() >= PASS_ON || all;
        if !self.out.is_empty() && is_time {
            self.passed_ns = now_ns;
            // A recorder that is gone has said why.
            let _ = self.records.send(std::mem::take(&mut self.out));
        }
    }
}

/// The first of the limits, if its time has come.
fn take_until(limits: &mut VecDeque<Mark>, now_ns: i64) -> Option<Mark> {
    let has_come = limits.front().is_some_and(|limit| limit.at_ns <= now_ns);
    if has_come {
        limits.pop_front()
    } else {
        None
    }
}

/// Between two arrivals; endless where there are fewer.
fn mean_gap_ns(offsets_ns: &[i64]) -> f64 {
    match offsets_ns {
        [first, .., last] => (last - first) as f64 / (offsets_ns.len() - 1) as f64,
        _ => f64::INFINITY,
    }
}
