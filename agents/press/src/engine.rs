//! The node in its process: events of sockets and files are its input, and its actions are carried
//! out. One thread, so there are no locks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, Notify};
use tokio::task::{spawn_blocking, spawn_local, AbortHandle};

use crate::codec;
use crate::config::{Config, Mode};
use crate::core::link::LinkId;
use crate::core::message::{Datagram, Key, Message, Page};
use crate::core::node::{Action, Answer, Fault, Node, Outcome, Ticket};

/// A connection to another node: where its messages go, and what ends it.
struct Wire {
    messages: mpsc::UnboundedSender<Message>,
    task: AbortHandle,
}

/// A request that has been made.
pub enum Response {
    /// The answer was there.
    Now(Answer),
    /// The answer will come.
    Later(Ticket, oneshot::Receiver<Answer>),
}

/// A node with its sockets, its files and its clock.
pub struct Engine {
    /// The program's settings.
    pub config: Config,
    node: RefCell<Node>,
    wires: RefCell<HashMap<LinkId, Wire>>,
    waiting: RefCell<HashMap<Ticket, oneshot::Sender<Answer>>>,
    tickets: Cell<Ticket>,
    links: Cell<LinkId>,
    datagrams: UdpSocket,
    started: Instant,
    room: Notify,
    root: Arc<Path>,
}

impl Engine {
    /// Creates a node without connections or requests.
    pub fn new(config: Config, datagrams: UdpSocket) -> Rc<Self> {
        Rc::new(Self {
            node: RefCell::new(config.node()),
            wires: RefCell::default(),
            waiting: RefCell::default(),
            tickets: Cell::new(0),
            links: Cell::new(0),
            datagrams,
            started: Instant::now(),
            room: Notify::new(),
            root: config.root.clone().into(),
            config,
        })
    }

    /// Reads the node's state.
    pub fn look<T>(&self, look: impl FnOnce(&Node) -> T) -> T {
        look(&self.node.borrow())
    }

    /// True if it serves clients and has room for a request.
    pub fn is_ready(&self) -> bool {
        self.look(|node| node.membership().serves() && node.stall().is_none())
    }

    /// True if it is busy and answers so, instead of letting clients wait.
    pub fn sheds(&self) -> bool {
        self.config.mode == Mode::Shed
    }

    /// Waits until the node takes requests.
    pub async fn room(&self) {
        loop {
            let room = self.room.notified();
            if self.is_ready() {
                return;
            }
            room.await;
        }
    }

    /// Requests a page for a client.
    pub fn request(self: &Rc<Self>, key: &Key) -> Response {
        let ticket = self.tickets.get() + 1;
        self.tickets.set(ticket);
        let mut actions = self.act(|node| node.request(ticket, key));
        match actions.pop() {
            Some(Action::Reply(_, answer)) => return Response::Now(answer),
            other => actions.extend(other),
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(ticket, sender);
        self.carry_out(actions);
        Response::Later(ticket, receiver)
    }

    /// Forgets the request of a client that has gone.
    pub fn withdraw(&self, ticket: Ticket, key: &Key) {
        self.waiting.borrow_mut().remove(&ticket);
        self.node.borrow_mut().withdraw(ticket, key);
    }

    /// Registers a connection with `peer`, which `task` carries.
    pub fn link_up(
        self: &Rc<Self>,
        peer: usize,
        link: impl FnOnce(LinkId) -> (mpsc::UnboundedSender<Message>, AbortHandle),
    ) {
        let id = self.links.get() + 1;
        self.links.set(id);
        let (messages, task) = link(id);
        self.wires.borrow_mut().insert(id, Wire { messages, task });
        self.happened(|node| node.link_up(id, peer));
        let name = &self.config.peers[peer].name;
        tracing::info!(connection = %id, "connected with {name}");
    }

    /// Removes a connection that has ended.
    pub fn link_down(self: &Rc<Self>, id: LinkId, reason: &str) {
        let wire = self.wires.borrow_mut().remove(&id);
        if wire.is_some() {
            tracing::info!(connection = %id, "ended: {reason}");
            self.happened(|node| node.link_down(id));
        }
    }

    /// Passes a message to the node.
    pub fn message(self: &Rc<Self>, id: LinkId, message: Message) {
        self.happened(|node| node.message(id, message));
    }

    /// Passes datagrams of the monitor to the node, for ever.
    pub async fn monitor(self: Rc<Self>) {
        let mut bytes = [0; 64];
        let cluster = self.config.cluster();
        loop {
            // An error of receiving is that of an earlier send.
            let Ok((length, sender)) = self.datagrams.recv_from(&mut bytes).await else {
                continue;
            };
            let Some((from, datagram)) = codec::datagram_of(&bytes[..length], cluster) else {
                continue;
            };
            let is_from = self.config.peers.get(from).is_some_and(|peer| peer.address == sender);
            if is_from && from != self.config.me {
                self.happened(|node| node.datagram(from, datagram));
            }
        }
    }

    /// Tells the node the time, for ever.
    pub async fn clock(self: Rc<Self>) {
        let mut every = tokio::time::interval(TICK);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let now = self.started.elapsed();
            self.happened(|node| node.tick(now));
        }
    }

    fn happened(self: &Rc<Self>, act: impl FnOnce(&mut Node)) {
        let actions = self.act(act);
        self.carry_out(actions);
        if self.is_ready() {
            self.room.notify_waiters();
        }
    }

    fn act(&self, act: impl FnOnce(&mut Node)) -> Vec<Action> {
        let mut node = self.node.borrow_mut();
        act(&mut node);
        node.actions()
    }

    fn carry_out(self: &Rc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(id, message) => self.send(id, message),
                Action::Drop(id, fault) => self.close(id, fault),
                Action::Tell(to, datagram) => self.tell(to, datagram),
                Action::Read(key) => self.read(key),
                Action::Reply(ticket, answer) => self.reply(ticket, answer),
            }
        }
    }

    fn send(&self, id: LinkId, message: Message) {
        if let Some(wire) = self.wires.borrow().get(&id) {
            // A task that has just ended says so itself.
            let _ = wire.messages.send(message);
        }
    }

    fn close(&self, id: LinkId, fault: Fault) {
        let wire = self.wires.borrow_mut().remove(&id);
        if let Some(wire) = wire {
            tracing::warn!(connection = %id, "closed: {fault}");
            wire.task.abort();
        }
    }

    fn tell(&self, to: usize, datagram: Datagram) {
        let bytes = codec::datagram(self.config.cluster(), self.config.me, datagram);
        // A datagram may be lost, here as anywhere.
        let _ = self.datagrams.try_send_to(&bytes, self.config.peers[to].address);
    }

    fn reply(&self, ticket: Ticket, answer: Answer) {
        let client = self.waiting.borrow_mut().remove(&ticket);
        if let Some(client) = client {
            // It may have gone away in this moment.
            let _ = client.send(answer);
        }
    }

    fn read(self: &Rc<Self>, key: Key) {
        let engine = Rc::clone(self);
        let (root, name) = (Arc::clone(&self.root), key.clone());
        spawn_local(async move {
            let outcome = spawn_blocking(move || read(&root, &name)).await;
            let outcome = outcome.unwrap_or(Outcome::Failed);
            engine.happened(|node| node.read(&key, outcome));
        });
    }
}

/// Time between two ticks of the node.
const TICK: Duration = Duration::from_millis(50);

fn read(root: &Path, key: &Key) -> Outcome {
    let path: PathBuf = root.join(&**key);
    let failed = |reason: String| {
        tracing::error!("{}: {reason}", path.display());
        Outcome::Failed
    };
    match std::fs::metadata(&path) {
        Ok(file) if !file.is_file() => return Outcome::Missing,
        Ok(file) if file.len() > codec::PAGE_BYTES_MAX as u64 => {
            let most = codec::PAGE_BYTES_MAX;
            return failed(format!("expected at most {most} bytes, found {}", file.len()));
        }
        Ok(_) => {}
        Err(error) if is_missing(&error) => return Outcome::Missing,
        Err(error) => return failed(error.to_string()),
    }
    match std::fs::read(&path) {
        Ok(bytes) if bytes.len() <= codec::PAGE_BYTES_MAX => {
            Outcome::Page(Page::new(key, bytes.into()))
        }
        Ok(_) => failed("grew while it was read".to_owned()),
        Err(error) if is_missing(&error) => Outcome::Missing,
        Err(error) => failed(error.to_string()),
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}
