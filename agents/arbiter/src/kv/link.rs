//! One connection to a server that all clients share.
//!
//! Batches are written in the order in which they were queued, many with one system call; replies
//! are matched in that order. A reply is handed over when its batch is complete, so that a server
//! that dies in mid-reply has said nothing. Whatever breaks the order (bytes that nobody asked for,
//! bytes that are not of the protocol, silence for longer than a request may take) ends the link
//! and fails all that wait on it. Silence is what the server does not say while something is due of
//! it: a queue that is long, and moves, is no reason to throw away what is in it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{ready, Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{sleep, Sleep};

use super::slot::{Slot, Verdict, NOBODY};
use super::{Dialect, Failure, Kind, HELD_MAX};
use crate::comparing::{digest, Ballot};
use crate::lock;
use crate::memory::Held;
use crate::stream::Stream;
use crate::tier::{Flight, Lease, Tier, Unreached};

const READ_SIZE: usize = 64 * 1024;
/// A buffer that grew beyond this is not kept.
const KEPT_MAX: usize = 1024 * 1024;
/// Batches that may wait on one link.
const PENDING_MAX: usize = 20_000;

/// The clients' side of a link.
pub struct Link {
    state: Mutex<State>,
    /// The server's when it was made.
    pub generation: u64,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Not yet taken to be written.
    out: BytesMut,
    pending: VecDeque<Pending>,
    waker: Option<Waker>,
}

/// Where a batch's reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many replies.
    Replies(usize),
    /// After so many fences, the last of which is the arbiter's own.
    Fences(usize),
}

/// A batch on its way.
pub struct Pending {
    /// Who waits.
    pub slot: Arc<Slot>,
    /// For which round.
    pub ticket: u64,
    /// Where the reply ends.
    pub until: Until,
    /// Held until the reply is complete.
    pub lease: Option<Lease>,
    /// The accounts, from the moment when it was queued.
    pub flight: Flight,
    /// Where its reply is compared with others.
    pub ballot: Option<Arc<Ballot>>,
}

impl Link {
    /// A link to a server, which is connected and kept going by a task of its own. Batches may be
    /// queued at once.
    pub fn start<D: Dialect>(tier: &Arc<Tier>, server: ServerId, flavour: usize) -> Arc<Self> {
        let mut state = State::default();
        state.out.extend_from_slice(D::greeting(flavour));
        let link = Arc::new(Self {
            state: Mutex::new(state),
            generation: tier.generation(server),
        });
        let greetings = usize::from(!D::greeting(flavour).is_empty());
        tokio::spawn(run::<D>(
            Arc::clone(&link),
            Arc::clone(tier),
            server,
            greetings,
        ));
        link
    }

    /// Whether a batch may be queued.
    pub fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Queues a batch.
    ///
    /// # Errors
    /// Gives the batch back, and why it was not queued.
    #[allow(clippy::result_large_err)]
    pub fn submit(&self, bytes: &[&[u8]], pending: Pending) -> Result<(), (Pending, Failure)> {
        let mut state = self.lock();
        if state.closed {
            return Err((pending, Failure::Connect));
        }
        if state.pending.len() >= PENDING_MAX || state.out.len() > HELD_MAX {
            return Err((pending, Failure::Busy));
        }
        for bytes in bytes {
            state.out.extend_from_slice(bytes);
        }
        state.pending.push_back(pending);
        // Taken: the link's task is woken once and then writes all that was queued meanwhile.
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
        Ok(())
    }

    /// Ends it, whatever is under way.
    pub fn shut(&self) {
        let mut state = self.lock();
        state.closed = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Ends it; who waited is told.
    fn close(&self, server: ServerId, head: Option<Pending>, failure: Failure) {
        let mut state = self.lock();
        state.closed = true;
        state.out = BytesMut::new();
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        for batch in head.into_iter().chain(pending) {
            batch.fail(server, failure);
        }
    }
}

impl Pending {
    /// Its client is told now; what else comes of it, nobody waits for.
    fn give_up(&mut self, server: ServerId, failure: Failure) {
        self.slot.fail(self.ticket, server, failure);
        self.ticket = NOBODY;
        // What comes still is too late, or not the whole reply.
        let ballot = self.ballot.take();
        if let (Some(ballot), Failure::TooLarge | Failure::TooMuch) = (ballot, failure) {
            ballot.too_large();
        }
    }

    /// There will be no reply.
    pub fn fail(self, server: ServerId, failure: Failure) {
        let spent = match failure {
            // The size is of the command's making; a full queue, memory, descriptors are ours.
            Failure::TooLarge | Failure::TooMuch | Failure::Busy | Failure::Local => {
                self.flight.neutral()
            }
            _ => self.flight.bad(),
        };
        if !self.slot.fail(self.ticket, server, failure) {
            self.flight.wasted(spent);
        }
    }

    fn complete(self, server: ServerId, reply: &[u8], is_server_error: bool) {
        let latency = if is_server_error {
            self.flight.bad()
        } else {
            self.flight.good()
        };
        match self.slot.fill(self.ticket, server, reply, is_server_error) {
            Verdict::Won => self.flight.won(),
            Verdict::Kept => {}
            Verdict::Late => self.flight.wasted(latency),
        }
        if let Some(ballot) = self.ballot.filter(|_| !is_server_error) {
            if reply.len() > ballot.rules.bytes_max {
                ballot.too_large();
            } else {
                ballot.vote(server, digest(reply));
            }
        }
    }
}

async fn run<D: Dialect>(link: Arc<Link>, tier: Arc<Tier>, server: ServerId, greetings: usize) {
    let limit = tier.config().request_timeout();
    let stream = match tier.connect(server, (Instant::now() + limit).into()).await {
        Ok(stream) => stream,
        Err(Unreached::Local) => return link.close(server, None, Failure::Local),
        Err(_) => return link.close(server, None, Failure::Connect),
    };
    let mut driver = Driver::<D> {
        link: Arc::clone(&link),
        tier: Arc::clone(&tier),
        server,
        stream,
        writing: BytesMut::new(),
        buffer: BytesMut::new(),
        scanned: 0,
        reply_start: 0,
        greetings,
        head: None,
        is_server_error: false,
        dialect: D::default(),
        held: Held::new(&tier.memory),
        heard: Instant::now(),
        limit,
        tick: Box::pin(sleep(tick_of(limit))),
    };
    let failure = std::future::poll_fn(|cx| driver.poll(cx)).await;
    if failure == Failure::TimedOut {
        // All clients wait on this connection: a server that stalls is taken out until it answers.
        tier.server_failed(server);
    }
    link.close(server, driver.head.take(), failure);
}

fn tick_of(limit: Duration) -> Duration {
    (limit / 8).max(Duration::from_millis(2))
}

/// The server's side of a link.
struct Driver<D> {
    link: Arc<Link>,
    tier: Arc<Tier>,
    server: ServerId,
    stream: Stream,
    writing: BytesMut,
    /// Replies of the batch at the head, up to `scanned`, and what is not looked at yet.
    buffer: BytesMut,
    scanned: usize,
    reply_start: usize,
    /// Replies that are the arbiter's own.
    greetings: usize,
    head: Option<Pending>,
    /// A reply of the head's batch was an error of the server's making.
    is_server_error: bool,
    dialect: D,
    /// Of `buffer`.
    held: Held,
    /// When bytes came last.
    heard: Instant,
    limit: Duration,
    tick: Pin<Box<Sleep>>,
}

impl<D: Dialect> Driver<D> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        // What has come is read before anything is called late: we may be who was late.
        if let Poll::Ready(failure) = self.poll_read(cx) {
            return Poll::Ready(failure);
        }
        if self.tick.as_mut().poll(cx).is_ready() {
            self.tick = Box::pin(sleep(tick_of(self.limit)));
            cx.waker().wake_by_ref();
            if self.is_stalled() {
                return Poll::Ready(Failure::TimedOut);
            }
            if self.is_left() {
                return Poll::Ready(Failure::Closed);
            }
            self.give_up_overdue();
        }
        self.poll_write(cx)
    }

    /// Whose time is up is told so; the others wait on.
    fn give_up_overdue(&mut self) {
        let (server, limit) = (self.server, self.limit);
        let overdue = |batch: &&mut Pending| batch.flight.age() > limit;
        let mut state = self.link.lock();
        let queued = state.pending.iter_mut();
        // In the order in which they were queued: the oldest come first.
        for batch in self.head.iter_mut().chain(queued).take_while(overdue) {
            batch.give_up(server, Failure::TimedOut);
        }
    }

    /// Whether nothing is under way, and nothing more will come: the server was removed, or is
    /// elsewhere now.
    fn is_left(&self) -> bool {
        let is_old = self.link.generation != self.tier.generation(self.server);
        is_old && self.head.is_none() && self.link.lock().pending.is_empty()
    }

    /// Whether something has been due for too long, and nothing at all has come meanwhile.
    fn is_stalled(&self) -> bool {
        let overdue = |batch: &Pending| batch.flight.age() > self.limit;
        if self.heard.elapsed() <= self.limit {
            return false;
        }
        match &self.head {
            Some(head) => overdue(head),
            None => self.link.lock().pending.front().is_some_and(overdue),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            if self.writing.is_empty() {
                if self.writing.capacity() > KEPT_MAX {
                    self.writing = BytesMut::new();
                }
                let mut state = self.link.lock();
                if state.closed {
                    return Poll::Ready(Failure::Closed);
                }
                if state.out.is_empty() {
                    state.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                self.writing.clear();
                std::mem::swap(&mut self.writing, &mut state.out);
            }
            let writing = Pin::new(&mut self.stream).poll_write(cx, &self.writing);
            match ready!(writing) {
                Ok(0) | Err(_) => return Poll::Ready(Failure::Closed),
                Ok(written) => self.writing.advance(written),
            }
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_MAX {
                self.buffer = BytesMut::new();
            }
            self.buffer.reserve(READ_SIZE);
            let reading = pin!(self.stream.read_buf(&mut self.buffer)).poll(cx);
            match ready!(reading) {
                Ok(0) | Err(_) => return Poll::Ready(Failure::Closed),
                Ok(_) => {
                    self.heard = Instant::now();
                    if let Err(failure) = self.digest() {
                        return Poll::Ready(failure);
                    }
                }
            }
        }
    }

    /// Follows what came, and hands complete batches over.
    fn digest(&mut self) -> Result<(), Failure> {
        while self.scanned < self.buffer.len() {
            let followed = self.dialect.follow(&self.buffer[self.scanned..]);
            let followed = followed.map_err(|_| Failure::Broken)?;
            self.scanned += followed.used;
            match followed.reply {
                Some(kind) => self.reply_ended(kind)?,
                None => break,
            }
        }
        self.give_up_large();
        Ok(())
    }

    fn reply_ended(&mut self, kind: Kind) -> Result<(), Failure> {
        if kind == Kind::Push {
            self.cut_reply();
            return Ok(());
        }
        if self.greetings > 0 {
            self.greetings -= 1;
            let greeted = self.buffer[self.reply_start] != b'-';
            self.cut_reply();
            return if greeted {
                Ok(())
            } else {
                Err(Failure::Broken)
            };
        }
        if self.head.is_none() {
            self.head = self.link.lock().pending.pop_front();
        }
        let Some(head) = &mut self.head else {
            return Err(Failure::Broken);
        };
        self.is_server_error |= kind == Kind::ServerError;
        let end = match &mut head.until {
            Until::Replies(left) => {
                *left -= 1;
                (*left == 0).then_some(self.scanned)
            }
            Until::Fences(left) => {
                *left -= usize::from(kind == Kind::Fence);
                (*left == 0).then_some(self.reply_start)
            }
        };
        self.reply_start = self.scanned;
        if let (Some(end), Some(head)) = (end, self.head.take_if(|_| end.is_some())) {
            head.complete(self.server, &self.buffer[..end], self.is_server_error);
            self.buffer.advance(self.scanned);
            (self.scanned, self.reply_start, self.is_server_error) = (0, 0, false);
        }
        Ok(())
    }

    /// Takes the reply that just ended out of the batch's.
    fn cut_reply(&mut self) {
        let rest = self.buffer.split_off(self.scanned);
        self.buffer.truncate(self.reply_start);
        self.scanned = self.reply_start;
        self.buffer.unsplit(rest);
    }

    /// A reply that is too large to be held is thrown away as it comes, and its client told.
    fn give_up_large(&mut self) {
        let failure = if self.scanned > HELD_MAX {
            Failure::TooLarge
        } else if !self.held.cover(self.buffer.len()) {
            Failure::TooMuch
        } else {
            return;
        };
        if self.head.is_none() {
            self.head = self.link.lock().pending.pop_front();
        }
        if let Some(head) = &mut self.head {
            head.give_up(self.server, failure);
        }
        self.buffer.advance(self.scanned);
        (self.scanned, self.reply_start) = (0, 0);
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        // Less than before, so that it is had.
        self.held.cover(self.buffer.len());
    }
}
