//! Invariants of every policy, over random histories.

use std::collections::{BTreeMap, BTreeSet};

use policy::{
    Ask, EjectionRules, Grant, Guardrails, Observation, Policy, RequestId, Selector, ServerId,
    Settings,
};
use proptest::prelude::*;

const SERVERS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Acquire { r: usize, probes: bool, exclude: Vec<ServerId>, avoid: Vec<ServerId> },
    Again { server: ServerId, waits: bool },
    Hedge { pick: usize },
    Release { pick: usize, latency_us: Option<u64> },
    Cancel { pick: usize },
    Down(ServerId),
    Up(ServerId),
    Tokens(usize),
    LookAhead(usize),
    Policy(Policy),
    Guardrails(bool),
}

fn policy() -> impl Strategy<Value = Policy> {
    proptest::sample::select(Policy::all().collect::<Vec<_>>())
}

/// Strict ones, so that small histories meet them.
fn guardrails(strict: bool) -> Guardrails {
    if !strict {
        return Guardrails { ejection: None, ..Guardrails::default() };
    }
    Guardrails {
        extra_load_max: Some(0.3),
        extra_load_window_us: 400,
        ejection: Some(EjectionRules {
            consecutive_failures: 2,
            out_us_first: 40,
            ..EjectionRules::default()
        }),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let server = 0..SERVERS;
    let servers = prop::collection::vec(server.clone(), 0..2);
    prop_oneof![
        6 => (1..=SERVERS + 1, any::<bool>(), servers.clone(), servers)
            .prop_map(|(r, probes, exclude, avoid)| Step::Acquire { r, probes, exclude, avoid }),
        2 => (server.clone(), any::<bool>())
            .prop_map(|(server, waits)| Step::Again { server, waits }),
        1 => any::<usize>().prop_map(|pick| Step::Hedge { pick }),
        6 => (any::<usize>(), prop::option::of(1..1000u64))
            .prop_map(|(pick, latency_us)| Step::Release { pick, latency_us }),
        1 => any::<usize>().prop_map(|pick| Step::Cancel { pick }),
        1 => server.clone().prop_map(Step::Down),
        2 => server.prop_map(Step::Up),
        1 => (1..4usize).prop_map(Step::Tokens),
        1 => (0..=SERVERS).prop_map(Step::LookAhead),
        1 => policy().prop_map(Step::Policy),
        1 => any::<bool>().prop_map(Step::Guardrails),
    ]
}

/// Drives a selector as the arbiter does, and keeps the books beside it.
struct Driver {
    selector: Selector,
    now: u64,
    next: RequestId,
    grants: Vec<Grant>,
    used: BTreeMap<RequestId, BTreeSet<ServerId>>,
    demand: BTreeMap<RequestId, usize>,
    /// Requests that are bound to one server.
    bound: BTreeMap<RequestId, ServerId>,
    /// Servers granted to each.
    counts: BTreeMap<RequestId, usize>,
    waiting_max: usize,
}

impl Driver {
    fn new(policy: Policy, tokens_per_server: usize, waiting_max: usize, strict: bool) -> Self {
        let selector = Selector::new(Settings {
            tokens_per_server,
            observation_age_us_max: 50,
            waiting_max,
            guardrails: guardrails(strict),
            ..Settings::new(policy, SERVERS)
        });
        Self {
            selector,
            now: 0,
            next: 0,
            grants: vec![],
            used: BTreeMap::new(),
            demand: BTreeMap::new(),
            bound: BTreeMap::new(),
            counts: BTreeMap::new(),
            waiting_max,
        }
    }

    fn take(&mut self, grants: Vec<Grant>) {
        for grant in grants {
            assert!(
                self.selector.is_alive(grant.server)
                    || self.bound.get(&grant.request) == Some(&grant.server),
                "{grant:?} is for a dead server"
            );
            self.check_probe(grant);
            let used = self.used.entry(grant.request).or_default();
            assert!(used.insert(grant.server), "{grant:?}: had it already or excluded it");
            let demand = self.demand.get_mut(&grant.request).expect("only who asked is granted");
            // A probe comes besides.
            let count = usize::from(!grant.probes);
            *demand = demand.checked_sub(count).expect("never more than asked");
            *self.counts.entry(grant.request).or_default() += 1;
            self.grants.push(grant);
        }
    }

    /// No request is given a server that is out, and nothing else, while there is another for it.
    fn check_probe(&self, grant: Grant) {
        let Grant { request, server, .. } = grant;
        let is_out = |server| self.selector.is_ejected(server);
        assert!(is_out(server) || !grant.probes, "{grant:?}: it is not out");
        if !is_out(server) || self.bound.contains_key(&request) {
            return;
        }
        let may_have = |other: &ServerId| {
            let is_in = self.selector.is_alive(*other) && !is_out(*other);
            is_in && !self.used[&request].contains(other)
        };
        let is_beside = grant.probes && self.counts.get(&request) > Some(&0);
        assert!(
            is_beside || (0..SERVERS).find(may_have).is_none(),
            "{grant:?} is alone at a server that is out"
        );
    }

    fn acquire(&mut self, (r, probes): (usize, bool), exclude: Vec<ServerId>, avoid: &[ServerId]) {
        let mut grants = vec![];
        let request = self.next;
        self.next += 1;
        self.used.insert(request, exclude.iter().copied().collect());
        self.demand.insert(request, r);
        let result = self.selector.acquire(
            &Ask { probes, exclude: &exclude, avoid, ..Ask::new(self.now, request, r) },
            &mut grants,
        );
        match result {
            Ok(acquired) => {
                assert_eq!(acquired.granted, grants.len());
                let besides = grants.iter().filter(|grant| grant.probes).count();
                let count = acquired.granted + acquired.waiting - besides;
                assert!((1..=r).contains(&count));
                assert!(besides <= usize::from(probes && acquired.granted > 1));
                self.demand.insert(request, count);
            }
            Err(_) => {
                assert!(grants.is_empty());
                self.demand.insert(request, 0);
            }
        }
        self.take(grants);
    }

    /// Asks for a server as one who is there already: no other will do.
    fn again(&mut self, server: ServerId, waits: bool) {
        let mut grants = vec![];
        let request = self.next;
        self.next += 1;
        let others = (0..SERVERS).filter(|other| *other != server);
        self.used.insert(request, others.collect());
        self.bound.insert(request, server);
        let binding = (request, server);
        let result = self.selector.again(self.now, binding, waits, &mut grants);
        let expected = match result {
            Ok(acquired) => {
                assert_eq!(acquired.granted, grants.len());
                assert_eq!(acquired.waiting == 1, waits && acquired.granted == 0);
                acquired.granted + acquired.waiting
            }
            Err(_) => 0,
        };
        self.demand.insert(request, expected);
        self.take(grants);
    }

    /// Hedges a request that holds something.
    fn hedge(&mut self, pick: usize) {
        if self.grants.is_empty() {
            return;
        }
        let request = self.grants[pick % self.grants.len()].request;
        let used: Vec<_> = self.used[&request].iter().copied().collect();
        let mut grants = vec![];
        let ask = Ask { exclude: &used, ..Ask::new(self.now, request, 1) };
        let is_granted = self.selector.hedge(&ask, &mut grants);
        assert_eq!(grants.len(), usize::from(is_granted));
        let count = grants.iter().filter(|grant| !grant.probes).count();
        *self.demand.get_mut(&request).unwrap() += count;
        // One that also waits could be given the same server later: drivers do one or the other.
        if self.selector.cancel(request) > 0 {
            self.demand.insert(request, count);
        }
        self.take(grants);
    }

    fn release(&mut self, pick: usize, latency_us: Option<u64>) {
        if self.grants.is_empty() {
            return;
        }
        let grant = self.grants.swap_remove(pick % self.grants.len());
        let observation =
            latency_us.map_or(Observation::Error { after_us: 1 }, Observation::LatencyUs);
        self.selector.observe(self.now, grant.server, observation);
        let mut grants = vec![];
        self.selector.release(self.now, grant.server, &mut grants);
        self.take(grants);
    }

    fn run(&mut self, step: Step) {
        self.now += 7;
        let mut grants = vec![];
        match step {
            Step::Acquire { r, probes, exclude, avoid } => {
                self.acquire((r, probes), exclude, &avoid)
            }
            Step::Again { server, waits } => self.again(server, waits),
            Step::Hedge { pick } => self.hedge(pick),
            Step::Release { pick, latency_us } => self.release(pick, latency_us),
            Step::Cancel { pick } => {
                let request = pick as u64 % self.next.max(1);
                let count = self.selector.cancel(request);
                if count > 0 {
                    let demand = self.demand.get_mut(&request).unwrap();
                    *demand -= count;
                }
            }
            Step::Down(server) => self.selector.server_down(self.now, server, &mut grants),
            Step::Up(server) => self.selector.server_up(self.now, server, &mut grants),
            Step::Tokens(tokens) => self.selector.set_tokens(self.now, tokens, &mut grants),
            Step::LookAhead(servers) => self.selector.set_look_ahead(servers),
            Step::Policy(policy) => self.selector.set_policy(self.now, policy, &mut grants),
            Step::Guardrails(strict) => {
                let rules = guardrails(strict);
                self.selector.set_guardrails(self.now, rules, &mut grants);
            }
        }
        self.take(grants);
        self.check();
    }

    fn check(&self) {
        let selector = &self.selector;
        for server in 0..SERVERS {
            let count = self.grants.iter().filter(|grant| grant.server == server).count();
            assert_eq!(selector.in_use(server), count, "in use = granted and not released");
            let free = selector.tokens_free(server);
            let c = selector.tokens_per_server();
            let out = !selector.is_alive(server) || selector.is_ejected(server);
            if selector.policy().uses_tokens() && !out {
                assert_eq!(free, c.saturating_sub(count), "tokens of {server} are conserved");
            } else {
                assert_eq!(free, 0);
            }
            // Work conserving: whoever waits could not use what is free.
            for (request, demand) in &self.demand {
                assert!(*demand == 0 || free == 0 || self.used[request].contains(&server));
            }
        }
        for (request, &server) in &self.bound {
            let out = !selector.is_alive(server) || selector.is_ejected(server);
            assert!(
                !out || self.demand[request] == 0,
                "{request} waits for a token of {server}, which is out and gives none"
            );
        }
        let alive = (0..SERVERS).filter(|&server| selector.is_alive(server));
        let out = alive.clone().filter(|&server| selector.is_ejected(server));
        assert!(2 * out.count() <= alive.count(), "at most half are ejected");
        assert!(selector.waiting() <= self.waiting_max, "the queue is bounded");
    }
}

proptest! {
    #[test]
    fn tokens_are_conserved_and_no_server_is_given_twice_or_dead_or_alone_to_be_probed(
        steps in prop::collection::vec(step(), 0..300),
        tokens in 1..4usize,
        waiting_max in 0..6usize,
        policy in policy(),
        strict in any::<bool>(),
    ) {
        let mut driver = Driver::new(policy, tokens, waiting_max, strict);
        for step in steps {
            driver.run(step);
        }
    }

    #[test]
    fn who_waits_is_served_once_servers_live_and_tokens_return(
        steps in prop::collection::vec(step(), 0..200),
        policy in policy(),
        strict in any::<bool>(),
    ) {
        let mut driver = Driver::new(policy, 1, 1000, strict);
        for step in steps {
            driver.run(step);
        }
        for server in 0..SERVERS {
            driver.run(Step::Up(server));
        }
        driver.run(Step::Guardrails(false));
        // Each release lets at least one in; every request wants at most SERVERS.
        for _ in 0..driver.next * SERVERS as u64 {
            driver.run(Step::Release { pick: 0, latency_us: Some(5) });
        }
        prop_assert_eq!(driver.selector.waiting(), 0);
        prop_assert!(driver.grants.is_empty());
    }
}
