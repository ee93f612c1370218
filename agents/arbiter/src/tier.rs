//! The tier behind the arbiter: the selector, its clock, the requests that wait for a server, the
//! counters.
//!
//! `leases` are what a request gets from it, a `flight` is one replica under way, `uploads` are the
//! requests whose bodies are passed on as they come.
//!
//! The lock is held for one decision and never over an await. Grants are turned into [`Lease`]s
//! outside of it, because a lease that finds its request gone gives its server back at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use policy::{Acquired, Ask, Grant, Hedge, Refused, RequestId, ServerId, Settings, TimeUs};
use tokio::sync::mpsc;
use wire::arbiter::{Guardrails, Protocol, Server};
use wire::guardrails;

use crate::collision_avoidance::{Siblings, Stamp};
use crate::comparing::Comparing;
use crate::config::Config;
use crate::counters::{Counters, ServerCounters};
use crate::lock;
use crate::memory::Memory;
use crate::meter::{micros, Meter};
use crate::traced::{Trace, Traced};

mod flight;
mod leases;
mod live;
mod pinned;
mod primary;
mod reach;
mod uploads;

pub use flight::Flight;
pub use leases::{Lease, Leases};
pub use pinned::Pinned;
pub use primary::Primary;
pub use reach::{Down, Unreached};
pub use uploads::UploadPlace;
use uploads::Uploads;

/// The server for writes, if the protocol has one and the configuration names it: the first.
pub const PRIMARY: ServerId = 0;

/// Servers of a tier, the requests that wait for them, and counters of all protocols.
pub struct Tier {
    config: Config,
    started: Instant,
    replicas: AtomicUsize,
    next_request: AtomicU64,
    choices: Mutex<Choices>,
    downs: mpsc::UnboundedSender<Down>,
    /// Counts so far.
    pub counters: Counters,
    /// Counts so far, per server.
    pub server_counters: Vec<ServerCounters>,
    /// Measurements beyond counters.
    pub meter: Meter,
    /// Memory that clients make the arbiter hold.
    pub memory: Arc<Memory>,
    /// Requests whose bodies are streamed.
    uploads: Uploads,
    /// Servers that the replicas of the tier above hold.
    pub siblings: Siblings,
    /// Number of the next request that is sent in stamped replicas.
    next_stamp: AtomicU64,
    next_client: AtomicU64,
    /// The comparison of replicas' replies.
    pub comparing: Comparing,
    /// The server for writes, if the protocol has one.
    pub primary: Primary,
}

/// Servers that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// One, because it cannot be replicated.
    One,
    /// This number, and one more if an ejected server is due for a probe.
    Copies(usize),
}

struct Choices {
    selector: Traced,
    guardrails: Guardrails,
    /// Scratch of `acquire`.
    grants: Vec<Grant>,
    waiters: HashMap<RequestId, mpsc::UnboundedSender<Lease>>,
    /// Servers that were taken out by an operator, who must let them in.
    taken_out: Vec<bool>,
}

/// State of one server in the policy, for `/v1/stats`.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// True if it may be chosen.
    pub alive: bool,
    /// True if it is ejected for its failures.
    pub ejected: bool,
    /// True if an operator took it out.
    pub taken_out: bool,
    /// Its tokens in the pool.
    pub tokens_free: usize,
    /// Its grants not yet released.
    pub in_use: usize,
}

impl Tier {
    /// Creates a tier, and the channel of dying servers (for `health`).
    pub fn new(config: Config, trace: Option<Trace>) -> (Arc<Self>, mpsc::UnboundedReceiver<Down>) {
        let (downs, downs_to_probe) = mpsc::unbounded_channel();
        let settings = Settings {
            tokens_per_server: config.tokens,
            look_ahead: config.look_ahead,
            observation_age_us_max: config.observation_age_ms * 1_000,
            waiting_max: config.waiting_max,
            hedge_percentile: config.hedge_percentile / 100.0,
            held_for_sessions: matches!(config.protocol, Protocol::Mysql | Protocol::Tcp),
            // Without randomness from the system any seed does.
            seed: config.seed.or_else(|| getrandom::u64().ok()).unwrap_or(0),
            guardrails: guardrails::rules(&config.guardrails),
            ..Settings::new(config.policy, config.servers.len())
        };
        let servers = config.servers.len();
        let server_counters = (0..servers).map(|_| ServerCounters::default()).collect();
        let meter = Meter::new(servers, config.server_cores);
        let comparing = Comparing::new(config.compare.clone());
        let primary = match config.detects_primary() {
            true => Primary::detected(servers),
            false => Primary::first(),
        };
        let tier = Self {
            replicas: AtomicUsize::new(config.replicas),
            started: Instant::now(),
            next_request: AtomicU64::new(0),
            choices: Mutex::new(Choices {
                guardrails: config.guardrails,
                selector: Traced::new(settings, trace),
                grants: Vec::new(),
                waiters: HashMap::new(),
                taken_out: vec![false; servers],
            }),
            memory: Memory::new(config.held_mib_max << 20),
            uploads: Uploads::default(),
            config,
            downs,
            comparing,
            primary,
            siblings: Siblings::default(),
            next_stamp: AtomicU64::new(random()),
            next_client: AtomicU64::new(1),
            counters: Counters::default(),
            server_counters,
            meter,
        };
        (Arc::new(tier), downs_to_probe)
    }

    /// The configuration of the file.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The servers, by number.
    pub fn servers(&self) -> &[Server] {
        &self.config.servers
    }

    /// Completes the trace.
    pub fn end_trace(&self) {
        self.choices().selector.end();
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// True if the next read probes an ejected server with a copy.
    pub fn is_probe_due(&self, now: Instant) -> bool {
        let now = self.us_at(now);
        self.choices().selector.is_probe_due(now, &[])
    }

    /// Replicas of the next read: the configured number, or one more if the only server was not
    /// observed for long.
    pub fn read_replicas(&self, now: Instant) -> usize {
        let now = self.us_at(now);
        self.choices().selector.replicas(now, self.replicas())
    }

    /// State of each server in the policy.
    pub fn standings(&self) -> Vec<Standing> {
        let choices = self.choices();
        (0..self.servers().len())
            .map(|server| Standing {
                alive: choices.selector.is_alive(server),
                ejected: choices.selector.is_ejected(server),
                taken_out: choices.taken_out[server],
                tokens_free: choices.selector.tokens_free(server),
                in_use: choices.selector.in_use(server),
            })
            .collect()
    }

    /// Asks for different servers, none of `exclude`.
    ///
    /// # Errors
    /// [`Refused`] when there is nothing now and nothing to wait for.
    pub fn acquire(
        self: &Arc<Self>,
        wanted: Wanted,
        exclude: &[ServerId],
    ) -> Result<Leases, Refused> {
        self.acquire_but(wanted, exclude, &[])
    }

    /// As `acquire`; avoids servers of sibling replicas if possible. Later leases must be reported
    /// to `collision_avoidance`.
    pub fn acquire_for(
        self: &Arc<Self>,
        stamp: Option<Stamp>,
        wanted: Wanted,
        exclude: &[ServerId],
    ) -> Result<Leases, Refused> {
        let Some(stamp) = stamp else {
            return self.acquire(wanted, exclude);
        };
        let avoids = self.config.avoid_collisions;
        self.siblings.choose(self.now(), stamp, avoids, |avoid| {
            let leases = self.acquire_but(wanted, exclude, avoid);
            let ready = leases.iter().flat_map(|leases| &leases.ready);
            let servers = ready.map(|lease| lease.server).collect();
            (leases, servers)
        })
    }

    fn acquire_but(
        self: &Arc<Self>,
        wanted: Wanted,
        exclude: &[ServerId],
        avoid: &[ServerId],
    ) -> Result<Leases, Refused> {
        let (r, probes) = match wanted {
            Wanted::One => (1, false),
            Wanted::Copies(r) => (r, true),
        };
        self.ask(|selector, now, request, grants| {
            let ask = Ask { probes, exclude, avoid, ..Ask::new(now, request, r) };
            selector.acquire(&ask, grants)
        })
    }

    /// Asks for the token of a server to which the caller has a connection. If none is free, one
    /// follows if the request `waits`.
    pub fn again(self: &Arc<Self>, server: ServerId, waits: bool) -> Result<Leases, Refused> {
        self.ask(|selector, now, request, grants| {
            selector.again(now, (request, server), waits, grants)
        })
    }

    fn ask(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut Traced, TimeUs, RequestId, &mut Vec<Grant>) -> Result<Acquired, Refused>,
    ) -> Result<Leases, Refused> {
        let request = self.next_request.fetch_add(1, Relaxed);
        let since = Instant::now();
        let now = self.us_at(since);
        let mut guard = self.choices();
        let choices = &mut *guard;
        choices.grants.clear();
        let acquired = ask(&mut choices.selector, now, request, &mut choices.grants)?;
        let ready = choices.grants.iter().map(|grant| self.lease(*grant, since)).collect();
        // Most requests wait for nothing and need no channel.
        let waits = acquired.waiting > 0;
        let receiver = waits.then(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            choices.waiters.insert(request, sender);
            receiver
        });
        drop(guard);
        Ok(Leases {
            tier: Arc::clone(self),
            request,
            ready,
            receiver,
            waiting: acquired.waiting,
            waits_since: (waits && acquired.granted == 0).then_some(since),
            delayed: acquired.hedge,
        })
    }

    /// Times for further replicas of a request that keeps its server.
    pub fn delay(&self, r: usize) -> Option<Hedge> {
        self.choices().selector.delay(r)
    }

    /// One more server for a late request that has those in `used`, if one is free and the
    /// guardrails allow it.
    pub fn hedge(self: &Arc<Self>, used: &[ServerId]) -> Option<Lease> {
        self.one_more(self.next_request.fetch_add(1, Relaxed), used)
    }

    fn one_more(self: &Arc<Self>, request: RequestId, used: &[ServerId]) -> Option<Lease> {
        let since = Instant::now();
        let mut guard = self.choices();
        let choices = &mut *guard;
        choices.grants.clear();
        let ask = Ask { exclude: used, ..Ask::new(self.us_at(since), request, 1) };
        let is_granted = choices.selector.hedge(&ask, &mut choices.grants);
        let grant = *choices.grants.first().filter(|_| is_granted)?;
        drop(guard);
        Some(self.lease(grant, since))
    }

    /// Fills `alive` with the servers that may be chosen, in order.
    pub fn alive(&self, alive: &mut Vec<ServerId>) {
        let choices = self.choices();
        alive.clear();
        alive.extend((0..self.servers().len()).filter(|&server| choices.selector.is_alive(server)));
    }

    /// Records that a replica of the tier above holds this server.
    pub fn holds(&self, stamp: Stamp, server: ServerId) {
        self.siblings.hold(self.now(), stamp, server);
    }

    /// Number of a request that is sent in stamped replicas.
    pub fn next_stamp(&self) -> u64 {
        self.next_stamp.fetch_add(1, Relaxed)
    }

    /// Number of a client.
    pub fn next_client(&self) -> u64 {
        self.next_client.fetch_add(1, Relaxed)
    }

    /// Counts a request that ended, with its latency since `received`, whatever its outcome.
    pub fn request_ended(&self, received: Instant) {
        self.requests_ended(received, 1);
    }

    /// As `request_ended`, for requests that were sent and answered together.
    pub fn requests_ended(&self, received: Instant, count: u32) {
        let ended = Instant::now();
        let latency_us = micros(ended - received);
        self.meter.requests(self.us_at(ended), latency_us, count);
    }

    /// Starts the accounting of a replica that is sent.
    pub fn sent(self: &Arc<Self>, server: ServerId) -> Flight {
        self.counters.replicas_sent.inc();
        self.server_counters[server].requests.inc();
        self.server_counters[server].in_flight.inc();
        let sent = Instant::now();
        Flight {
            tier: Arc::clone(self),
            server,
            sent,
            entered: self.meter.arrived(self.us_at(sent), server),
            failed: AtomicBool::new(false),
        }
    }

    /// Microseconds since the start.
    pub fn now(&self) -> TimeUs {
        self.us_at(Instant::now())
    }

    fn us_at(&self, moment: Instant) -> TimeUs {
        micros(moment.saturating_duration_since(self.started))
    }

    fn choices(&self) -> MutexGuard<'_, Choices> {
        lock(&self.choices)
    }

    fn lease(self: &Arc<Self>, grant: Grant, since: Instant) -> Lease {
        Lease {
            tier: Arc::clone(self),
            server: grant.server,
            since,
            probes: grant.probes,
            probe: None,
        }
    }

    /// Runs a decision that may serve waiting requests, then delivers the leases.
    fn decide(self: &Arc<Self>, step: impl FnOnce(&mut Choices, TimeUs, &mut Vec<Grant>)) {
        self.decide_at(Instant::now(), step);
    }

    /// As `decide`, at a given time.
    fn decide_at(
        self: &Arc<Self>,
        now: Instant,
        step: impl FnOnce(&mut Choices, TimeUs, &mut Vec<Grant>),
    ) {
        let mut grants = Vec::new();
        let mut choices = self.choices();
        step(&mut choices, self.us_at(now), &mut grants);
        let receivers: Vec<_> =
            grants.iter().map(|grant| choices.waiters.get(&grant.request).cloned()).collect();
        drop(choices);
        let mut given = receivers.into_iter().zip(grants).peekable();
        while let Some((receiver, grant)) = given.next() {
            let mut lease = self.lease(grant, now);
            // A probe comes right behind the grant that it is beside, and goes with it.
            let probe = given.next_if(|(_, next)| next.probes);
            lease.probe = probe.map(|(_, probe)| Box::new(self.lease(probe, now)));
            if let Some(receiver) = receiver {
                // A request that has just gone drops the lease here, which releases the server.
                let _ = receiver.send(lease);
            }
        }
    }
}

/// A random start of counting, so that the numbers of two arbiters differ.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness numbers may meet, and two requests would avoid each other's servers.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
