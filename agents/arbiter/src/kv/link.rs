//! One connection to a server that all clients share.
//!
//! Batches are written in the order of the queue, many with one system call, and replies are
//! matched in that order. A reply is delivered when its batch is complete, so a server that dies in
//! mid-reply delivers nothing. Anything that breaks the order (unexpected bytes, bytes outside of
//! the protocol, silence for longer than a request may take) ends the link and fails all batches
//! that wait on it. Silence counts only while a reply is due: a long queue that moves is no reason
//! to drop its batches.
//!
//! A server gets no more commands than it can answer soon (`window`). A batch that waits here for
//! half of a request's time limit is dropped, and its client is told that nothing was sent, because
//! it would be answered too late, and would delay others.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{ready, Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, Sleep};

use super::queue::{Pending, Queue, Until};
use super::window::Window;
use super::{Dialect, Failure, Kind, HELD_MAX};
use crate::lock;
use crate::memory::Held;
use crate::tier::{Tier, Unreached};

const READ_SIZE: usize = 64 * 1024;
/// A buffer above this size is not kept.
const KEPT_MAX: usize = 1024 * 1024;

/// The clients' side of a link.
pub struct Link {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    queue: Queue,
    waker: Option<Waker>,
}

impl Link {
    /// Starts a link to a server, with a task that connects and serves it. Batches may be queued at
    /// once.
    pub fn start<D: Dialect>(tier: &Arc<Tier>, server: ServerId, flavour: usize) -> Arc<Self> {
        let link = Arc::new(Self { state: Mutex::default() });
        let greeting = D::greeting(flavour);
        tokio::spawn(run::<D>(Arc::clone(&link), Arc::clone(tier), server, greeting));
        link
    }

    /// True if a batch may be queued.
    pub fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Queues a batch.
    #[allow(clippy::result_large_err)]
    pub fn submit(&self, bytes: &[&[u8]], pending: Pending) -> Result<(), (Pending, Failure)> {
        let mut state = self.lock();
        if state.closed {
            return Err((pending, Failure::Connect));
        }
        let pushed = state.queue.push(bytes, pending);
        pushed.map_err(|pending| (pending, Failure::Busy))?;
        // Taken: the link's task is woken once and then writes all that was queued meanwhile.
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
        Ok(())
    }

    /// Closes the link with all that is under way.
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

    /// Closes the link and tells those that wait.
    fn close(&self, server: ServerId, head: Option<Pending>, failure: Failure) {
        let mut state = self.lock();
        state.closed = true;
        let (given, unsent) = state.queue.take_all();
        drop(state);
        for batch in head.into_iter().chain(given) {
            batch.fail(server, failure);
        }
        for batch in unsent {
            batch.fail(server, failure.before_sending());
        }
    }
}

async fn run<D: Dialect>(
    link: Arc<Link>,
    tier: Arc<Tier>,
    server: ServerId,
    greeting: &'static [u8],
) {
    let limit = tier.config().request_timeout();
    let stream = match tier.connect(server, (Instant::now() + limit).into()).await {
        Ok(stream) => stream,
        Err(Unreached::Local) => return link.close(server, None, Failure::Local),
        Err(_) => return link.close(server, None, Failure::Connect),
    };
    let mut driver = Driver::<D> {
        link: Arc::clone(&link),
        server,
        stream,
        writing: BytesMut::from(greeting),
        window: Window::default(),
        buffer: BytesMut::new(),
        scanned: 0,
        reply_start: 0,
        greetings: usize::from(!greeting.is_empty()),
        head: None,
        is_server_error: false,
        dialect: D::default(),
        held: Held::new(&tier.memory),
        heard: Instant::now(),
        limit,
        tick: Box::pin(sleep(tick_of(limit))),
        ticks: 0,
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
    server: ServerId,
    stream: TcpStream,
    writing: BytesMut,
    window: Window,
    /// Replies of the first batch, up to `scanned`, and bytes not yet looked at.
    buffer: BytesMut,
    scanned: usize,
    reply_start: usize,
    /// Replies to the arbiter's own commands that are still due.
    greetings: usize,
    head: Option<Pending>,
    /// True if a reply of the first batch was a server's error.
    is_server_error: bool,
    dialect: D,
    /// Memory of `buffer`.
    held: Held,
    /// Time of the last bytes received.
    heard: Instant,
    limit: Duration,
    tick: Pin<Box<Sleep>>,
    /// Ticks so far.
    ticks: u64,
}

impl<D: Dialect> Driver<D> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        // Bytes that are here are read before anything is called late: we may be late ourselves.
        if let Poll::Ready(failure) = self.poll_read(cx) {
            return Poll::Ready(failure);
        }
        if self.tick.as_mut().poll(cx).is_ready() {
            self.tick = Box::pin(sleep(tick_of(self.limit)));
            cx.waker().wake_by_ref();
            if self.is_stalled() {
                return Poll::Ready(Failure::TimedOut);
            }
            self.fit_window();
            self.give_up_overdue();
        }
        self.poll_write(cx)
    }

    /// Fits the window at each tick. A silent server is no observation: it may be stopped.
    fn fit_window(&mut self) {
        self.ticks += 1;
        if self.heard.elapsed() > tick_of(self.limit) {
            return;
        }
        let mut state = self.link.lock();
        let given = self.head.as_ref().map(|head| head.given);
        let oldest = given.or_else(|| Some(state.queue.each_given().next()?.given));
        if let Some(given) = oldest {
            self.window.tick(self.ticks - given);
        }
    }

    /// Tells clients whose time is up.
    fn give_up_overdue(&mut self) {
        let (server, limit) = (self.server, self.limit);
        let overdue = |batch: &&mut Pending| batch.flight.age() > limit;
        let mut state = self.link.lock();
        let given = state.queue.each_given();
        for batch in self.head.iter_mut().chain(given).take_while(overdue) {
            batch.give_up(server, Failure::TimedOut);
        }
        let unsent = state.queue.drop_unsent(limit / 2);
        drop(state);
        for batch in unsent {
            batch.fail(server, Failure::Busy);
        }
    }

    /// True if something has been due for too long, and nothing has arrived meanwhile.
    fn is_stalled(&self) -> bool {
        let overdue = |batch: &Pending| batch.flight.age() > self.limit;
        if self.heard.elapsed() <= self.limit {
            return false;
        }
        match &self.head {
            Some(head) => overdue(head),
            None => self.link.lock().queue.oldest().is_some_and(overdue),
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
                let queue = &mut state.queue;
                queue.take(&mut self.window, self.ticks, &mut self.writing);
                if self.writing.is_empty() {
                    state.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
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

    /// Follows the received bytes, and delivers complete batches.
    fn digest(&mut self) -> Result<(), Failure> {
        while self.scanned < self.buffer.len() {
            let followed = self.dialect.follow(&self.buffer[self.scanned..]);
            let followed = followed.map_err(|_| Failure::Broken)?;
            self.scanned += followed.used;
            match followed.reply {
                Some(kind) => {
                    // One read may bring what is too much and the end as well.
                    if self.scanned > HELD_MAX && self.greetings == 0 {
                        self.give_up_large();
                    }
                    self.reply_ended(kind)?;
                }
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
            return if greeted { Ok(()) } else { Err(Failure::Broken) };
        }
        if self.head.is_none() {
            self.head = self.link.lock().queue.pop_given();
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
            self.window.answered(head.commands, self.ticks - head.given);
            head.complete(self.server, &self.buffer[..end], self.is_server_error);
            self.buffer.advance(self.scanned);
            (self.scanned, self.reply_start, self.is_server_error) = (0, 0, false);
        }
        Ok(())
    }

    /// Removes the reply that just ended from the batch.
    fn cut_reply(&mut self) {
        let rest = self.buffer.split_off(self.scanned);
        self.buffer.truncate(self.reply_start);
        self.scanned = self.reply_start;
        self.buffer.unsplit(rest);
    }

    /// Discards a reply that is too large to be held, and tells its client.
    fn give_up_large(&mut self) {
        let failure = if self.scanned > HELD_MAX {
            Failure::TooLarge
        } else if !self.held.cover(self.buffer.len()) {
            Failure::TooMuch
        } else {
            return;
        };
        if self.head.is_none() {
            self.head = self.link.lock().queue.pop_given();
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
