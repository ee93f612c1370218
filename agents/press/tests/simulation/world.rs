//! A network, disks and clients for nodes, all out of one seed. Time is made here.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use press::core::link::LinkId;
use press::core::members::Members;
use press::core::membership::{Formed, Membership};
use press::core::message::{Datagram, Key, Message, Page};
use press::core::monitor::{Monitor, Times};
use press::core::node::{Action, Answer, Limits, Node, Outcome, Ticket};
use testkit::random::Random;

pub const PAGES: u64 = 300;
pub const PAGE_BYTES: usize = 100;

pub const TIMES: Times = Times {
    beat: Duration::from_millis(100),
    query: Duration::from_millis(200),
    fail_after: Duration::from_millis(600),
};

pub const LIMITS: Limits = Limits {
    cache_bytes: 100 * (PAGE_BYTES as u64 + 170),
    window: 8,
    queue: 8,
    awaited: 32,
    keys_of_peer: 1000,
};

/// Milliseconds between looks at clocks and at whom to connect to.
const TICK_MS: u64 = 20;
/// Pause before something that cannot be delivered is tried again.
const AGAIN_MS: u64 = 5;

enum Event {
    Tick(usize),
    Client(usize),
    Stream(LinkId, usize),
    Closed(LinkId, usize),
    Datagram(usize, usize, Datagram),
    Dial(usize, usize),
    Read(usize, u64, Key),
}

/// The faults of the network, per thousand messages.
#[derive(Default, Clone, Copy)]
pub struct Weather {
    pub datagrams_lost: u64,
    pub datagrams_twice: u64,
    pub changes_lost: u64,
    pub pages_spoilt: u64,
    pub reads_failed: u64,
}

struct Machine {
    node: Option<Node>,
    starts: u64,
    is_hung: bool,
    parked: VecDeque<(Ticket, Key)>,
}

struct Wire {
    ends: [usize; 2],
    open: [bool; 2],
    lanes: [VecDeque<Message>; 2],
}

pub struct World {
    pub random: Random,
    pub weather: Weather,
    pub answered: HashMap<&'static str, u64>,
    pub vanished: HashSet<Key>,
    is_monitored: bool,
    machines: Vec<Machine>,
    wires: HashMap<LinkId, Wire>,
    cut: HashSet<(usize, usize)>,
    events: BTreeMap<(u64, u64), Event>,
    now_us: u64,
    sequence: u64,
    links: LinkId,
    tickets: HashMap<Ticket, (usize, Key)>,
    next_ticket: Ticket,
    clients_until_us: u64,
}

impl World {
    pub fn new(seed: u64, nodes: usize, is_monitored: bool) -> Self {
        println!("seed {seed}, {nodes} nodes, monitored: {is_monitored}");
        let mut world = Self {
            random: Random::new(seed),
            weather: Weather::default(),
            answered: HashMap::new(),
            vanished: HashSet::new(),
            is_monitored,
            machines: vec![],
            wires: HashMap::new(),
            cut: HashSet::new(),
            events: BTreeMap::new(),
            now_us: 0,
            sequence: 0,
            links: 0,
            tickets: HashMap::new(),
            next_ticket: 0,
            clients_until_us: 0,
        };
        for _ in 0..nodes {
            let machine =
                Machine { node: None, starts: 0, is_hung: false, parked: VecDeque::new() };
            world.machines.push(machine);
        }
        for node in 0..nodes {
            world.start(node);
            world.at_ms(TICK_MS, Event::Tick(node));
        }
        world
    }

    pub fn nodes(&self) -> usize {
        self.machines.len()
    }

    pub fn node(&self, node: usize) -> &Node {
        self.machines[node].node.as_ref().expect("a node that is up")
    }

    pub fn monitor(&self, node: usize) -> &Monitor {
        match self.node(node).membership() {
            Membership::Monitored(monitor) => monitor,
            Membership::Formed(_) => panic!("expected a monitored node"),
        }
    }

    pub fn is_up(&self, node: usize) -> bool {
        self.machines[node].node.is_some()
    }

    pub fn waiting(&self) -> usize {
        self.tickets.len()
    }

    pub fn start(&mut self, node: usize) {
        let nodes = self.nodes();
        let membership = match self.is_monitored {
            true => Membership::Monitored(Monitor::new(node, nodes, TIMES)),
            false => Membership::Formed(Formed::new(node, nodes)),
        };
        let machine = &mut self.machines[node];
        machine.node = Some(Node::new(node, nodes, LIMITS, membership));
        machine.starts += 1;
        machine.is_hung = false;
    }

    /// The process is gone; its kernel resets its connections, its clients' requests are lost.
    pub fn crash(&mut self, node: usize) {
        self.machines[node].node = None;
        self.machines[node].parked.clear();
        self.tickets.retain(|_, (at, _)| *at != node);
        let mut ids: Vec<LinkId> = self.wires.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.close(id, node);
        }
    }

    pub fn hang(&mut self, node: usize, is_hung: bool) {
        self.machines[node].is_hung = is_hung;
    }

    /// Nothing passes between these two and all others, or everything again.
    pub fn part(&mut self, side: Members) {
        for a in side.iter() {
            for b in (0..self.nodes()).filter(|&b| !side.contains(b)) {
                self.cut.extend([(a, b), (b, a)]);
            }
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Clients come to all nodes for so long.
    pub fn clients_for(&mut self, ms: u64) {
        self.clients_until_us = self.now_us + ms * 1000;
        for node in 0..self.nodes() {
            self.at_ms(1, Event::Client(node));
        }
    }

    pub fn run_ms(&mut self, ms: u64) {
        let end = self.now_us + ms * 1000;
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now_us = at;
            self.happen(event);
        }
        self.now_us = end;
    }

    fn at_ms(&mut self, ms: u64, event: Event) {
        self.at_us(self.now_us + ms * 1000, event);
    }

    fn at_us(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    fn soon(&mut self, event: Event) {
        let delay = 50 + self.random.exponential(300.0) as u64;
        self.at_us(self.now_us + delay, event);
    }

    fn chance(&mut self, of_thousand: u64) -> bool {
        of_thousand > 0 && self.random.below(1000) < of_thousand
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(node) => self.tick(node),
            Event::Client(node) => self.client(node),
            Event::Stream(id, end) => self.stream(id, end),
            Event::Closed(id, end) => self.closed(id, end),
            Event::Datagram(from, to, datagram) => self.datagram(from, to, datagram),
            Event::Dial(from, to) => self.dial(from, to),
            Event::Read(node, start, key) => self.read(node, start, &key),
        }
    }

    /// Lets the node act, and what waited for that.
    fn with(&mut self, node: usize, act: impl FnOnce(&mut Node)) {
        self.act(node, act);
        self.unpark(node);
    }

    /// Lets the node act, and does what it wants; holds it against its bounds.
    fn act(&mut self, node: usize, act: impl FnOnce(&mut Node)) {
        let Some(state) = self.machines[node].node.as_mut() else {
            return;
        };
        act(state);
        let actions = state.actions();
        for action in actions {
            self.carry_out(node, action);
        }
        self.check_bounds(node);
    }

    fn unpark(&mut self, node: usize) {
        while self.is_up(node) && self.node(node).stall().is_none() {
            let Some((ticket, key)) = self.machines[node].parked.pop_front() else {
                return;
            };
            self.act(node, |state| state.request(ticket, &key));
        }
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        match action {
            Action::Send(id, message) => self.send(node, id, message),
            Action::Drop(id, _) => self.close(id, node),
            Action::Tell(to, datagram) => {
                if self.chance(self.weather.datagrams_lost) {
                    return;
                }
                self.soon(Event::Datagram(node, to, datagram));
                if self.chance(self.weather.datagrams_twice) {
                    self.soon(Event::Datagram(node, to, datagram));
                }
            }
            Action::Read(key) => {
                let start = self.machines[node].starts;
                let delay = 1000 + self.random.exponential(4000.0) as u64;
                self.at_us(self.now_us + delay, Event::Read(node, start, key));
            }
            Action::Reply(ticket, answer) => self.reply(node, ticket, &answer),
        }
    }

    fn tick(&mut self, node: usize) {
        self.at_ms(TICK_MS, Event::Tick(node));
        if self.machines[node].is_hung || !self.is_up(node) {
            return;
        }
        let now = Duration::from_micros(self.now_us);
        self.with(node, |state| state.tick(now));
        let state = self.node(node);
        let peers = (0..node).filter(|&peer| state.admits(peer) && state.link(peer).is_none());
        for peer in peers.collect::<Vec<_>>() {
            self.soon(Event::Dial(node, peer));
        }
    }

    fn client(&mut self, node: usize) {
        if self.now_us > self.clients_until_us {
            return;
        }
        let gap = self.random.exponential(3000.0) as u64;
        self.at_us(self.now_us + gap, Event::Client(node));
        // The square makes some pages popular.
        let place = self.random.below(PAGES) * self.random.below(PAGES) / PAGES;
        let key: Key = format!("page-{place}").into();
        if !self.is_up(node)
            || !self.node(node).membership().serves()
            || self.machines[node].is_hung
        {
            return;
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.tickets.insert(ticket, (node, key.clone()));
        self.machines[node].parked.push_back((ticket, key));
        self.unpark(node);
    }

    fn reply(&mut self, node: usize, ticket: Ticket, answer: &Answer) {
        let (at, key) = self.tickets.remove(&ticket).expect("each request is answered once");
        assert_eq!(at, node);
        let kind = match answer {
            Answer::Page(page, source) => {
                assert_eq!(*page, content(&key), "the page of {key}");
                match source {
                    press::core::node::Source::Local => "local",
                    press::core::node::Source::Peer => "peer",
                    press::core::node::Source::Disk => "disk",
                }
            }
            Answer::Missing => {
                assert!(self.vanished.contains(&key), "{key} is there");
                "missing"
            }
            Answer::Failed => "failed",
        };
        *self.answered.entry(kind).or_default() += 1;
    }

    fn read(&mut self, node: usize, start: u64, key: &Key) {
        if self.machines[node].is_hung {
            self.at_ms(AGAIN_MS, Event::Read(node, start, key.clone()));
        } else if self.machines[node].starts == start {
            let outcome = match self.vanished.contains(key) {
                true => Outcome::Missing,
                false if self.chance(self.weather.reads_failed) => Outcome::Failed,
                false => Outcome::Page(content(key)),
            };
            self.with(node, |state| state.read(key, outcome));
        }
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.contains(&(from, to))
    }

    fn dial(&mut self, from: usize, to: usize) {
        let is_there = |node: usize| self.is_up(node) && !self.machines[node].is_hung;
        if self.is_cut(from, to) || !is_there(from) || !is_there(to) {
            return;
        }
        if !self.node(to).admits(from) || self.node(from).link(to).is_some() {
            return;
        }
        self.links += 1;
        let id = self.links;
        let wire = Wire {
            ends: [from, to],
            open: [true, true],
            lanes: [VecDeque::new(), VecDeque::new()],
        };
        self.wires.insert(id, wire);
        self.with(to, |state| state.link_up(id, from));
        self.with(from, |state| state.link_up(id, to));
    }

    fn send(&mut self, node: usize, id: LinkId, mut message: Message) {
        if matches!(&message, Message::Changed(_)) && self.chance(self.weather.changes_lost) {
            return;
        }
        if let Message::Page { page, .. } = &mut message {
            if self.chance(self.weather.pages_spoilt) {
                page.body = vec![b'?'; PAGE_BYTES].into();
            }
        }
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        let end = usize::from(wire.ends[0] == node);
        wire.lanes[end].push_back(message);
        self.soon(Event::Stream(id, end));
    }

    /// One message of a connection, in order, to its end number `end`.
    fn stream(&mut self, id: LinkId, end: usize) {
        let Some(wire) = self.wires.get(&id) else {
            return;
        };
        let (from, to) = (wire.ends[1 - end], wire.ends[end]);
        if self.is_cut(from, to) || self.machines[to].is_hung {
            self.at_ms(AGAIN_MS, Event::Stream(id, end));
            return;
        }
        let wire = self.wires.get_mut(&id).expect("looked at above");
        if let Some(message) = wire.lanes[end].pop_front().filter(|_| wire.open[end]) {
            self.with(to, |state| state.message(id, message));
        }
    }

    /// `node` closes its end; the other learns it when the network lets it.
    fn close(&mut self, id: LinkId, node: usize) {
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        let Some(end) = wire.ends.iter().position(|&n| n == node) else {
            return;
        };
        if std::mem::replace(&mut wire.open[end], false) {
            self.soon(Event::Closed(id, 1 - end));
        }
    }

    fn closed(&mut self, id: LinkId, end: usize) {
        let Some(wire) = self.wires.get(&id) else {
            return;
        };
        let (from, to) = (wire.ends[1 - end], wire.ends[end]);
        if self.is_cut(from, to) || self.machines[to].is_hung {
            self.at_ms(AGAIN_MS, Event::Closed(id, end));
            return;
        }
        let is_open = wire.open[end];
        self.wires.remove(&id);
        if is_open {
            self.with(to, |state| state.link_down(id));
        }
    }

    fn datagram(&mut self, from: usize, to: usize, datagram: Datagram) {
        if self.is_cut(from, to) {
            return;
        }
        if self.machines[to].is_hung {
            self.at_ms(AGAIN_MS, Event::Datagram(from, to, datagram));
            return;
        }
        self.with(to, |state| state.datagram(from, datagram));
    }

    fn check_bounds(&self, node: usize) {
        let state = self.node(node);
        assert!(state.cache().bytes() <= LIMITS.cache_bytes);
        assert!(state.pending() <= LIMITS.awaited);
        let all = state.cache().len() / 64 + 2;
        for link in (0..self.nodes()).filter_map(|peer| state.link(peer)) {
            assert!(link.unacknowledged() <= LIMITS.window);
            // Bounds: the stall, requests let in before, answers, and all of its memory, twice.
            let most = LIMITS.queue + 2 * LIMITS.awaited + 2 * all;
            assert!(link.waiting() <= most, "{} wait of at most {most}", link.waiting());
        }
    }
}

pub fn content(key: &str) -> Page {
    let mut body = key.as_bytes().to_vec();
    body.resize(PAGE_BYTES, b'.');
    Page::new(key, body.into())
}
