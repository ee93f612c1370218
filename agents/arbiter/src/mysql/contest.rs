//! One command sent to several servers, and the server that answers it.
//!
//! Every server with the command reports exactly once: it won, it failed, or it is lost. A ticket
//! that is dropped (its connection died, its queue was discarded) reports that it is lost.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

/// Number of a session's connection to a server.
pub type LinkId = usize;

/// Result of a command at one server.
pub enum Event {
    /// Its reply goes to the client; `rest` is set if it is still streaming.
    Won {
        /// The server.
        link: LinkId,
        /// Packets, complete unless `rest` is set.
        reply: Bytes,
        /// The next pieces.
        rest: Option<mpsc::Receiver<Piece>>,
        /// Session status there, if the reply had one so far.
        status: Option<u16>,
    },
    /// It replied with an ERR packet.
    Failed {
        /// The server.
        link: LinkId,
        /// The packets.
        reply: Bytes,
        /// Session status there, if a result before the error had one.
        status: Option<u16>,
    },
    /// It will not reply.
    Lost {
        /// The server.
        link: LinkId,
    },
}

/// The next bytes of a streamed reply; an error if it was cut.
pub type Piece = Result<Bytes, ()>;

/// One command of a session at several servers, and their events.
pub struct Contest {
    answered: AtomicBool,
    events: mpsc::Sender<Event>,
}

impl Contest {
    /// Opens a contest of at most `servers`, with the channel of their events.
    pub fn new(servers: usize) -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(servers.max(1));
        (Arc::new(Self { answered: AtomicBool::new(false), events }), receiver)
    }

    /// A contest without a client that waits (replay, commands without a reply).
    pub fn decided() -> Arc<Self> {
        let (contest, _) = Self::new(1);
        contest.close();
        contest
    }

    /// True if a server has won, or none can any more.
    pub fn is_answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    /// Ends the contest; later replies are too late.
    pub fn close(&self) {
        self.answered.store(true, SeqCst);
    }

    /// True for the first caller only.
    fn claim(&self) -> bool {
        !self.answered.swap(true, SeqCst)
    }
}

/// A server's right to report one event.
pub struct Ticket {
    contest: Arc<Contest>,
    link: LinkId,
    is_reported: bool,
}

impl Ticket {
    /// Creates the ticket of one server.
    pub fn new(contest: &Arc<Contest>, link: LinkId) -> Self {
        Self { contest: Arc::clone(contest), link, is_reported: false }
    }

    /// True if a server has won, or none can any more.
    pub fn is_answered(&self) -> bool {
        self.contest.is_answered()
    }

    /// Tries to win with this reply; false if it is too late.
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

    /// Reports an error reply.
    pub fn fail(&mut self, reply: Bytes, status: Option<u16>) {
        let link = self.link;
        self.tell(Event::Failed { link, reply, status });
    }

    /// Reports nothing: another server answered, or there is no answer.
    pub fn done(&mut self) {
        self.is_reported = true;
    }

    fn tell(&mut self, event: Event) {
        self.is_reported = true;
        // One event per server fits; a session that is gone needs none.
        let _ = self.contest.events.try_send(event);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_reported {
            let link = self.link;
            self.tell(Event::Lost { link });
        }
    }
}
