//! One command sent to several servers, and the server that answers it.
//!
//! Every server with the command reports exactly once: it won, it failed, or it is lost. A ticket
//! that is dropped (its connection died, its queue was discarded) reports that it is lost.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

/// The number of a session's connection to a server.
pub type LinkId = usize;

/// A server's word on a command.
pub enum Event {
    /// Its reply is the one; `rest` is set where it is still streaming.
    Won {
        /// The server.
        link: LinkId,
        /// Packets, complete unless `rest` is set.
        reply: Bytes,
        /// The pieces that follow.
        rest: Option<mpsc::Receiver<Piece>>,
        /// The session's there, as far as the reply has said.
        status: Option<u16>,
    },
    /// It replied with an ERR packet.
    Failed {
        /// The server.
        link: LinkId,
        /// The packets.
        reply: Bytes,
        /// The session's there, where a result before the error said it.
        status: Option<u16>,
    },
    /// It will not reply any more.
    Lost {
        /// The server.
        link: LinkId,
    },
}

/// The next bytes of a streamed reply, or that it broke off.
pub type Piece = Result<Bytes, ()>;

/// One command of a session, and the events of the servers that got it.
pub struct Contest {
    answered: AtomicBool,
    events: mpsc::Sender<Event>,
}

impl Contest {
    /// A contest of at most `servers`, and where they tell.
    pub fn new(servers: usize) -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, told) = mpsc::channel(servers.max(1));
        (Arc::new(Self { answered: AtomicBool::new(false), events }), told)
    }

    /// A contest that is over: nobody waits for an answer (replay, commands without a reply).
    pub fn decided() -> Arc<Self> {
        let (contest, _) = Self::new(1);
        contest.close();
        contest
    }

    /// True if somebody has won, or nobody can any more.
    pub fn is_answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    /// Whatever comes now is too late.
    pub fn close(&self) {
        self.answered.store(true, SeqCst);
    }

    /// True for the first to ask.
    fn claim(&self) -> bool {
        !self.answered.swap(true, SeqCst)
    }
}

/// A server's right to tell.
pub struct Ticket {
    contest: Arc<Contest>,
    link: LinkId,
    told: bool,
}

impl Ticket {
    /// For one server.
    pub fn new(contest: &Arc<Contest>, link: LinkId) -> Self {
        Self { contest: Arc::clone(contest), link, told: false }
    }

    /// True if somebody has won, or nobody can any more.
    pub fn is_answered(&self) -> bool {
        self.contest.is_answered()
    }

    /// Tries to win with this reply; false for who is too late.
    pub fn win(
        &mut self,
        reply: Bytes,
        rest: Option<mpsc::Receiver<Piece>>,
        status: Option<u16>,
    ) -> bool {
        if !self.contest.claim() {
            return false;
        }
        let link = self.link;
        self.tell(Event::Won { link, reply, rest, status });
        true
    }

    /// Tells the error reply.
    pub fn fail(&mut self, reply: Bytes, status: Option<u16>) {
        let link = self.link;
        self.tell(Event::Failed { link, reply, status });
    }

    /// Nothing to tell: somebody else answered, or there is no answer.
    pub fn done(&mut self) {
        self.told = true;
    }

    fn tell(&mut self, event: Event) {
        self.told = true;
        // One event per server fits; a session that is gone needs none.
        let _ = self.contest.events.try_send(event);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.told {
            let link = self.link;
            self.tell(Event::Lost { link });
        }
    }
}
