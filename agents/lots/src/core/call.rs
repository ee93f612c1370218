//! A client's invocations and what it does when its server is gone, as a state machine.
//!
//! It says the next step, and hears what became of it. All time between an invocation's begin and its
//! end belongs to the step that was under way, so the parts of a fail-over add up to it.

use super::Server;

/// Between two looks at a naming service that knew no living server.
const PAUSE_S: f64 = 0.05;

/// How a client finds another server; the paper's strategies by number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strategy {
    /// It asks for the primary: at once (nothing), or after a wait (1).
    Primary {
        /// Before it asks [s].
        wait_s: f64,
    },
    /// It has a list of all servers, and asks for another when all have failed (2).
    Cached,
    /// It has open connections to all; others keep them fresh (3).
    Open,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send the invocation on the open connection to this server.
    Ask(Server),
    /// Ask the naming service for the primary.
    NamePrimary,
    /// Ask the naming service for all servers.
    NameAll,
    /// Take the lock on the open connections.
    Lock,
    /// Open a connection.
    Open(Server),
    /// Do nothing for so long [s].
    Wait(f64),
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The reply is there.
    Answered,
    /// There will be no reply: the connection broke, the time is up, or the server is suspected.
    Failed,
    /// The naming service's answer, the best first.
    Named(Vec<Server>),
    /// The lock is held, and these connections are open.
    Locked(Vec<Server>),
    /// The connection is open.
    Opened,
    /// It cannot be opened.
    Refused,
    /// The wait is over.
    Waited,
}

/// Where the time of a fail-over went [s].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Until the client knew that there would be no reply.
    pub detection_s: f64,
    /// It waited, as its strategy says or because nobody was there.
    pub waiting_s: f64,
    /// The naming service.
    pub naming_s: f64,
    /// The lock on the open connections.
    pub lock_s: f64,
    /// Connections that were opened, or could not be.
    pub connecting_s: f64,
    /// The invocation again, when it was answered.
    pub again_s: f64,
}

impl Parts {
    /// All of them.
    pub fn sum_s(&self) -> f64 {
        self.detection_s
            + self.waiting_s
            + self.naming_s
            + self.lock_s
            + self.connecting_s
            + self.again_s
    }
}

/// An invocation that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// From the call to the reply [s].
    pub latency_s: f64,
    /// How often it was sent.
    pub sent: u32,
    /// Whether a reply came.
    pub is_answered: bool,
    /// Where the time went, if it had to look for another server.
    pub parts: Option<Parts>,
    /// Who answered.
    pub server: Option<Server>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This step.
    Step(Step),
    /// Nothing: the invocation is over.
    Over(Account),
}

/// One client.
#[derive(Debug)]
pub struct Caller {
    strategy: Strategy,
    give_up_s: f64,
    servers: Vec<Server>,
    failed: Vec<Server>,
    current: Option<Server>,
    call: Call,
}

/// The invocation that is under way.
#[derive(Debug)]
struct Call {
    began_s: f64,
    since_s: f64,
    step: Step,
    sent: u32,
    named: bool,
    parts: Parts,
}

impl Caller {
    /// A client that knows nobody yet; an invocation that took `give_up_s` is given up.
    pub fn new(strategy: Strategy, give_up_s: f64) -> Self {
        let call = Call::begin(Step::Wait(0.0), 0.0);
        Self {
            strategy,
            give_up_s,
            servers: Vec::new(),
            failed: Vec::new(),
            current: None,
            call,
        }
    }

    /// The first step of a new invocation.
    pub fn invoke(&mut self, now_s: f64) -> Step {
        let first = match (&self.current, self.strategy) {
            (Some(server), _) => Step::Ask(server.clone()),
            (None, Strategy::Primary { .. }) => Step::NamePrimary,
            (None, Strategy::Cached) => Step::NameAll,
            (None, Strategy::Open) => Step::Lock,
        };
        self.call = Call::begin(first.clone(), now_s);
        first
    }

    /// What follows on what became of the last step.
    pub fn hear(&mut self, heard: Heard, now_s: f64) -> Next {
        self.call.charge(&heard, now_s);
        if heard == Heard::Answered {
            return Next::Over(self.account(now_s, true));
        }
        if now_s - self.call.began_s >= self.give_up_s {
            self.current = None;
            return Next::Over(self.account(now_s, false));
        }
        let step = match heard {
            Heard::Answered | Heard::Failed | Heard::Refused => self.recover(),
            Heard::Named(servers) => self.named(servers),
            Heard::Locked(open) => self.locked(open),
            Heard::Opened => self.opened(),
            Heard::Waited => self.look(),
        };
        if let Step::Ask(_) = step {
            self.call.sent += 1;
        }
        self.call.step = step.clone();
        Next::Step(step)
    }

    /// The server of the last step is out.
    fn recover(&mut self) -> Step {
        self.current = None;
        if let Step::Ask(server) | Step::Open(server) = &self.call.step {
            self.failed.push(server.clone());
        }
        match self.strategy {
            Strategy::Primary { wait_s } if wait_s > 0.0 => Step::Wait(wait_s),
            Strategy::Primary { .. } => Step::NamePrimary,
            Strategy::Cached => self.next_of_list(),
            Strategy::Open if self.call.named => self.next_of_list(),
            Strategy::Open => Step::Lock,
        }
    }

    /// The next server of the list that has not failed; where all have, the list is made anew.
    fn next_of_list(&self) -> Step {
        match self.servers.iter().find(|one| !self.failed.contains(one)) {
            Some(server) => Step::Open(server.clone()),
            None if self.call.named => Step::Wait(PAUSE_S),
            None => Step::NameAll,
        }
    }

    fn named(&mut self, servers: Vec<Server>) -> Step {
        self.failed.clear();
        self.servers = servers;
        self.call.named = true;
        match (self.servers.first(), self.strategy) {
            (Some(server), _) => Step::Open(server.clone()),
            (None, Strategy::Primary { wait_s }) => Step::Wait(wait_s.max(PAUSE_S)),
            (None, _) => Step::Wait(PAUSE_S),
        }
    }

    fn locked(&mut self, open: Vec<Server>) -> Step {
        self.failed.retain(|one| open.contains(one));
        match open.into_iter().find(|one| !self.failed.contains(one)) {
            Some(server) => {
                self.current = Some(server.clone());
                Step::Ask(server)
            }
            None => Step::NameAll,
        }
    }

    fn opened(&mut self) -> Step {
        let Step::Open(server) = self.call.step.clone() else {
            return self.look(); // nothing was being opened
        };
        self.current = Some(server.clone());
        Step::Ask(server)
    }

    fn look(&self) -> Step {
        match self.strategy {
            Strategy::Primary { .. } => Step::NamePrimary,
            Strategy::Cached | Strategy::Open => Step::NameAll,
        }
    }

    fn account(&self, now_s: f64, is_answered: bool) -> Account {
        let call = &self.call;
        Account {
            latency_s: now_s - call.began_s,
            sent: call.sent,
            is_answered,
            parts: (call.sent != 1 || !is_answered).then_some(call.parts),
            server: self.current.clone(),
        }
    }
}

impl Call {
    fn begin(step: Step, now_s: f64) -> Self {
        Self {
            began_s: now_s,
            since_s: now_s,
            sent: u32::from(matches!(step, Step::Ask(_))),
            step,
            named: false,
            parts: Parts::default(),
        }
    }

    /// The time since the last step belongs to it.
    fn charge(&mut self, heard: &Heard, now_s: f64) {
        let parts = &mut self.parts;
        let part = match (&self.step, heard) {
            (Step::Ask(_), Heard::Answered) => &mut parts.again_s,
            (Step::Ask(_), _) => &mut parts.detection_s,
            (Step::NamePrimary | Step::NameAll, _) => &mut parts.naming_s,
            (Step::Lock, _) => &mut parts.lock_s,
            (Step::Open(_), _) => &mut parts.connecting_s,
            (Step::Wait(_), _) => &mut parts.waiting_s,
        };
        *part += now_s - self.since_s;
        self.since_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::server;

    /// A client whose first invocation was answered by `a`, of the servers `a` and `b`.
    fn client_of_a(strategy: Strategy) -> Caller {
        let mut caller = Caller::new(strategy, 30.0);
        let both = vec![server("a", 1), server("b", 2)];
        let heard = match caller.invoke(0.0) {
            Step::Lock => vec![Heard::Locked(both)],
            _ => vec![Heard::Named(both), Heard::Opened],
        };
        for one in heard {
            caller.hear(one, 0.0);
        }
        assert!(matches!(caller.hear(Heard::Answered, 0.0), Next::Over(_)));
        caller
    }

    fn step(next: Next) -> Step {
        match next {
            Next::Step(step) => step,
            Next::Over(account) => panic!("expected a step, got {account:?}"),
        }
    }

    fn over(next: Next) -> Account {
        match next {
            Next::Over(account) => account,
            Next::Step(step) => panic!("expected the end, got {step:?}"),
        }
    }

    #[test]
    fn an_undisturbed_invocation_is_sent_once_and_has_no_parts() {
        let mut caller = client_of_a(Strategy::Cached);
        assert_eq!(caller.invoke(1.0), Step::Ask(server("a", 1)));
        let account = over(caller.hear(Heard::Answered, 1.5));
        assert_eq!(
            (account.sent, account.latency_s, account.parts),
            (1, 0.5, None)
        );
    }

    #[test]
    fn without_a_strategy_naming_is_asked_until_it_knows_a_living_primary() {
        let mut caller = client_of_a(Strategy::Primary { wait_s: 0.0 });
        caller.invoke(1.0);
        for _ in 0..3 {
            assert_eq!(step(caller.hear(Heard::Failed, 1.0)), Step::NamePrimary);
            let dead = vec![server("a", 1)];
            let opened = step(caller.hear(Heard::Named(dead), 1.1));
            assert_eq!(opened, Step::Open(server("a", 1)));
            assert_eq!(step(caller.hear(Heard::Refused, 1.2)), Step::NamePrimary);
        }
        caller.hear(Heard::Named(vec![server("b", 2)]), 1.3);
        assert_eq!(
            step(caller.hear(Heard::Opened, 1.4)),
            Step::Ask(server("b", 2))
        );
    }

    #[test]
    fn a_wait_comes_before_each_look_at_the_naming_service() {
        let mut caller = client_of_a(Strategy::Primary { wait_s: 2.0 });
        caller.invoke(1.0);
        assert_eq!(step(caller.hear(Heard::Failed, 1.0)), Step::Wait(2.0));
        assert_eq!(step(caller.hear(Heard::Waited, 3.0)), Step::NamePrimary);
        caller.hear(Heard::Named(vec![server("a", 1)]), 3.0);
        assert_eq!(step(caller.hear(Heard::Refused, 3.0)), Step::Wait(2.0));
    }

    #[test]
    fn a_cached_list_is_used_up_before_another_is_asked_for() {
        let mut caller = client_of_a(Strategy::Cached);
        caller.invoke(1.0);
        assert_eq!(
            step(caller.hear(Heard::Failed, 1.0)),
            Step::Open(server("b", 2))
        );
        assert_eq!(step(caller.hear(Heard::Refused, 1.0)), Step::NameAll);
        let again = vec![server("a", 3)];
        assert_eq!(
            step(caller.hear(Heard::Named(again), 1.0)),
            Step::Open(server("a", 3))
        );
    }

    #[test]
    fn an_empty_or_stale_naming_service_is_asked_again_after_a_pause_and_not_for_ever() {
        let mut caller = client_of_a(Strategy::Cached);
        caller.invoke(0.0);
        caller.hear(Heard::Failed, 0.0);
        caller.hear(Heard::Refused, 0.0);
        let mut now_s = 0.0;
        loop {
            assert_eq!(
                step(caller.hear(Heard::Named(Vec::new()), now_s)),
                Step::Wait(PAUSE_S)
            );
            now_s += 1.0;
            match caller.hear(Heard::Waited, now_s) {
                Next::Step(step) => assert_eq!(step, Step::NameAll),
                Next::Over(account) => {
                    assert!(!account.is_answered && account.latency_s >= 30.0);
                    break;
                }
            }
        }
        assert_eq!(caller.invoke(now_s), Step::NameAll);
    }

    #[test]
    fn an_open_connection_takes_the_place_of_a_broken_one_under_the_lock() {
        let mut caller = client_of_a(Strategy::Open);
        caller.invoke(1.0);
        assert_eq!(step(caller.hear(Heard::Failed, 1.0)), Step::Lock);
        let open = vec![server("a", 1), server("b", 2)];
        assert_eq!(
            step(caller.hear(Heard::Locked(open), 1.0)),
            Step::Ask(server("b", 2))
        );
        let account = over(caller.hear(Heard::Answered, 1.0));
        assert_eq!((account.sent, account.server), (2, Some(server("b", 2))));
    }

    #[test]
    fn without_an_open_connection_naming_is_asked_and_its_servers_are_tried_in_turn() {
        let mut caller = client_of_a(Strategy::Open);
        caller.invoke(1.0);
        caller.hear(Heard::Failed, 1.0);
        assert_eq!(
            step(caller.hear(Heard::Locked(Vec::new()), 1.0)),
            Step::NameAll
        );
        let both = vec![server("a", 1), server("b", 2)];
        caller.hear(Heard::Named(both), 1.0);
        assert_eq!(
            step(caller.hear(Heard::Refused, 1.0)),
            Step::Open(server("b", 2))
        );
    }

    #[test]
    fn a_server_that_was_started_again_is_not_the_one_that_failed() {
        let mut caller = client_of_a(Strategy::Open);
        caller.invoke(1.0);
        caller.hear(Heard::Failed, 1.0);
        let next = caller.hear(Heard::Locked(vec![server("a", 7)]), 1.0);
        assert_eq!(step(next), Step::Ask(server("a", 7)));
    }

    #[test]
    fn the_parts_of_a_fail_over_add_up_to_it() {
        for strategy in [
            Strategy::Primary { wait_s: 1.0 },
            Strategy::Cached,
            Strategy::Open,
        ] {
            let mut caller = client_of_a(strategy);
            let (mut now_s, mut refusals) = (10.0, 2);
            let mut next = Next::Step(caller.invoke(now_s));
            let account = loop {
                now_s += 0.1;
                let heard = match next {
                    Next::Over(account) => break account,
                    Next::Step(Step::Ask(one)) if one == server("a", 1) => Heard::Failed,
                    Next::Step(Step::Ask(_)) => Heard::Answered,
                    Next::Step(Step::NamePrimary | Step::NameAll) => {
                        Heard::Named(vec![server("b", 2)])
                    }
                    Next::Step(Step::Lock) => Heard::Locked(Vec::new()),
                    Next::Step(Step::Open(_)) if refusals > 0 => {
                        refusals -= 1;
                        Heard::Refused
                    }
                    Next::Step(Step::Open(_)) => Heard::Opened,
                    Next::Step(Step::Wait(_)) => Heard::Waited,
                };
                next = caller.hear(heard, now_s);
            };
            let parts = account.parts.unwrap();
            assert!(
                (parts.sum_s() - account.latency_s).abs() < 1e-9,
                "{strategy:?}"
            );
            assert!(parts.detection_s > 0.0 && parts.again_s > 0.0 && parts.connecting_s > 0.0);
        }
    }
}
