//! A client's invocations and what it does when its server is gone, as a state machine.
//!
//! It says the next step, and hears what became of it. All time between an invocation's begin and
//! its end belongs to the step that was under way, so the parts of a fail-over add up to it.

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
#[path = "call_tests.rs"]
mod tests;
