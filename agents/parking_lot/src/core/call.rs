//! A client's invocations and what it does when its server is gone, as a state machine.
//!
//! It says the next step, and hears what became of it. All time between an invocation's begin and
//! its end belongs to the step that was under way, so the parts of a fail-over add up to it.
//!
//! A client that hedges sends a call again while the first request is still under way: where it is
//! late (`recent`), and another server is open. The first reply of the two counts.

use super::recent::Recent;
use super::Server;

/// Pause before the naming service is asked again that knew no living server.
const PAUSE_S: f64 = 0.05;

/// Ways of a client to find another server; the paper's strategies by number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strategy {
    /// It asks for the primary: at once (nothing), or after a wait (1).
    Primary {
        /// Wait before it asks [s].
        wait_s: f64,
    },
    /// It has a list of all servers, and asks for another when all have failed (2).
    Cached,
    /// It has open connections to all; others keep them fresh (3).
    Open,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send the invocation on the open connection to this server.
    Ask(Server),
    /// Send it to this server too, and wait for whichever reply comes first; none: go on waiting
    /// for the one that is late.
    Hedge(Option<Server>),
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

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The reply is there, of the server that was asked last.
    Answered,
    /// The server that was late has answered after all.
    LateAnswered,
    /// The reply is late by `Caller::late_after_s`; it may still come.
    Late,
    /// There will be no reply, of nobody who was asked: the connection broke, the time is up, or the
    /// server is suspected.
    Failed,
    /// The naming service's answer, the best first.
    Named(Vec<Server>),
    /// The lock is held, and these connections are open.
    Locked(Vec<Server>),
    /// The connection is open.
    Opened,
    /// The connection cannot be opened.
    Refused,
    /// The wait is over.
    Waited,
}

/// The parts of a fail-over's time [s].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Time until the client knew that there would be no reply.
    pub detection_s: f64,
    /// Time of waits, by the strategy or because no server was known.
    pub waiting_s: f64,
    /// The naming service.
    pub naming_s: f64,
    /// The lock on the open connections.
    pub lock_s: f64,
    /// Time of opening connections, also in vain.
    pub connecting_s: f64,
    /// The invocation again, when it was answered.
    pub again_s: f64,
}

impl Parts {
    /// Returns the sum of all parts.
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
    /// Time from the call to the reply [s].
    pub latency_s: f64,
    /// Number of times that it was sent.
    pub sent: u32,
    /// True if it was sent a second time though the first server's reply came first.
    pub is_needless: bool,
    /// True if a reply came.
    pub is_answered: bool,
    /// The parts of its time, if it had to look for another server.
    pub parts: Option<Parts>,
    /// The server that answered.
    pub server: Option<Server>,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The next step.
    Action(Action),
    /// The end of the invocation.
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
    /// Latencies of a client that hedges.
    recent: Option<Recent>,
    call: Call,
}

/// The invocation that is under way.
#[derive(Debug)]
struct Call {
    began_s: f64,
    since_s: f64,
    step: Action,
    sent: u32,
    is_named: bool,
    /// The server that was asked first and is waited for still.
    late: Option<Server>,
    parts: Parts,
}

impl Caller {
    /// A client that knows nobody yet; an invocation that took `give_up_s` is given up.
    pub fn new(strategy: Strategy, give_up_s: f64) -> Self {
        let call = Call::begin(Action::Wait(0.0), 0.0);
        Self {
            strategy,
            give_up_s,
            servers: Vec::new(),
            failed: Vec::new(),
            current: None,
            recent: None,
            call,
        }
    }

    /// The same client, which sends a late call a second time.
    pub fn hedging(mut self) -> Self {
        self.recent = Some(Recent::default());
        self
    }

    /// Age at which a call is late [s]; none without hedging, or while it is not known.
    pub fn late_after_s(&self) -> Option<f64> {
        self.recent.as_ref().and_then(Recent::late_after_s)
    }

    /// The first step of a new invocation.
    pub fn invoke(&mut self, now_s: f64) -> Action {
        let first = match (&self.current, self.strategy) {
            (Some(server), _) => Action::Ask(server.clone()),
            (None, Strategy::Primary { .. }) => Action::NamePrimary,
            (None, Strategy::Cached) => Action::NameAll,
            (None, Strategy::Open) => Action::Lock,
        };
        self.call = Call::begin(first.clone(), now_s);
        first
    }

    /// The next step after the outcome of the last.
    pub fn handle(&mut self, event: Event, now_s: f64) -> Next {
        self.call.charge(&event, now_s);
        if matches!(event, Event::Answered | Event::LateAnswered) {
            return Next::Over(self.finish(event == Event::LateAnswered, now_s));
        }
        if now_s - self.call.began_s >= self.give_up_s {
            self.current = None;
            return Next::Over(self.account(now_s, false));
        }
        let step = match event {
            Event::Late => self.hedge(),
            Event::Answered | Event::LateAnswered | Event::Failed | Event::Refused => {
                self.recover()
            }
            Event::Named(servers) => self.list_servers(servers),
            Event::Locked(open) => self.use_open(open),
            Event::Opened => self.opened(),
            Event::Waited => self.look(),
        };
        if let Action::Ask(_) | Action::Hedge(Some(_)) = step {
            self.call.sent += 1;
        }
        self.call.step = step.clone();
        Next::Action(step)
    }

    /// The reply is that of the last step's server, or of the one that was late.
    fn finish(&mut self, is_late: bool, now_s: f64) -> Account {
        let late = self.call.late.take();
        if let (true, Some(server)) = (is_late, late) {
            self.current = Some(server);
        } else if let Action::Hedge(Some(server)) = &self.call.step {
            self.current = Some(server.clone());
        }
        let mut account = self.account(now_s, true);
        account.is_needless = is_late && account.sent > 1;
        if let Some(recent) = &mut self.recent {
            recent.add(account.latency_s);
        }
        account
    }

    /// Looks for another server while the first request is under way.
    fn hedge(&mut self) -> Action {
        self.call.late = self.current.clone();
        Action::Lock
    }

    /// The servers of the last step are out.
    fn recover(&mut self) -> Action {
        self.current = None;
        self.failed.extend(self.call.late.take());
        if let Action::Ask(server) | Action::Hedge(Some(server)) | Action::Open(server) =
            &self.call.step
        {
            self.failed.push(server.clone());
        }
        match self.strategy {
            Strategy::Primary { wait_s } if wait_s > 0.0 => Action::Wait(wait_s),
            Strategy::Primary { .. } => Action::NamePrimary,
            Strategy::Cached => self.next_of_list(),
            Strategy::Open if self.call.is_named => self.next_of_list(),
            Strategy::Open => Action::Lock,
        }
    }

    /// The next server of the list that has not failed; where all have, the list is made anew.
    fn next_of_list(&self) -> Action {
        match self.servers.iter().find(|server| !self.failed.contains(server)) {
            Some(server) => Action::Open(server.clone()),
            None if self.call.is_named => Action::Wait(PAUSE_S),
            None => Action::NameAll,
        }
    }

    fn list_servers(&mut self, servers: Vec<Server>) -> Action {
        self.failed.clear();
        self.servers = servers;
        self.call.is_named = true;
        match (self.servers.first(), self.strategy) {
            (Some(server), _) => Action::Open(server.clone()),
            (None, Strategy::Primary { wait_s }) => Action::Wait(wait_s.max(PAUSE_S)),
            (None, _) => Action::Wait(PAUSE_S),
        }
    }

    fn use_open(&mut self, open: Vec<Server>) -> Action {
        self.failed.retain(|server| open.contains(server));
        let late = &self.call.late;
        let is_possible =
            |server: &Server| !self.failed.contains(server) && Some(server) != late.as_ref();
        let server = open.into_iter().find(is_possible);
        if late.is_some() {
            return Action::Hedge(server);
        }
        match server {
            Some(server) => {
                self.current = Some(server.clone());
                Action::Ask(server)
            }
            None => Action::NameAll,
        }
    }

    fn opened(&mut self) -> Action {
        let Action::Open(server) = self.call.step.clone() else {
            return self.look(); // nothing was being opened
        };
        self.current = Some(server.clone());
        Action::Ask(server)
    }

    fn look(&self) -> Action {
        match self.strategy {
            Strategy::Primary { .. } => Action::NamePrimary,
            Strategy::Cached | Strategy::Open => Action::NameAll,
        }
    }

    fn account(&self, now_s: f64, is_answered: bool) -> Account {
        let call = &self.call;
        Account {
            latency_s: now_s - call.began_s,
            sent: call.sent,
            is_needless: false,
            is_answered,
            parts: (call.sent != 1 || !is_answered).then_some(call.parts),
            server: self.current.clone(),
        }
    }
}

impl Call {
    fn begin(step: Action, now_s: f64) -> Self {
        Self {
            began_s: now_s,
            since_s: now_s,
            sent: u32::from(matches!(step, Action::Ask(_))),
            step,
            is_named: false,
            late: None,
            parts: Parts::default(),
        }
    }

    /// The time since the last step belongs to it.
    fn charge(&mut self, event: &Event, now_s: f64) {
        let parts = &mut self.parts;
        let part = match (&self.step, event) {
            (Action::Ask(_) | Action::Hedge(_), Event::Answered | Event::LateAnswered) => {
                &mut parts.again_s
            }
            (Action::Ask(_) | Action::Hedge(_), _) => &mut parts.detection_s,
            (Action::NamePrimary | Action::NameAll, _) => &mut parts.naming_s,
            (Action::Lock, _) => &mut parts.lock_s,
            (Action::Open(_), _) => &mut parts.connecting_s,
            (Action::Wait(_), _) => &mut parts.waiting_s,
        };
        *part += now_s - self.since_s;
        self.since_s = now_s;
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
