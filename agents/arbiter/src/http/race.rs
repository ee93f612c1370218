//! A read at r > 1: sent to r servers, the first complete good reply wins (sPARE section 4.1.2).
//!
//! Each replica is a task of its own with its own lease, so that a loser is drained off the
//! client's path, gives its connection back and only then its token. Replies are held until they
//! are complete (a server that dies in mid-reply has not won); one that outgrows the buffer wins by
//! that and is streamed. A 5xx does not win while another replica may. A replica whose turn comes
//! after the answer is not sent.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use policy::ServerId;
use tokio::sync::mpsc;
use tokio::time::{timeout, timeout_at, Instant};

use super::body::{Body, Framing};
use super::client::{reply_head_bytes, After, Client};
use super::direct::{refusal_for, refusal_of};
use super::exchange::{ask, keep, open, Failure, Link};
use super::head::{RequestHead, ResponseHead};
use super::refusal::Refusal;
use super::Front;
use crate::tier::{Flight, Lease, Leases};

/// Largest reply that is held back; a larger one is streamed as soon as it is larger.
pub const REPLY_MAX: usize = 1024 * 1024;
/// Pieces of a streamed reply under way between replica and client.
const PIECES_MAX: usize = 8;

struct Race {
    front: Arc<Front>,
    request: RequestHead,
    deadline: Instant,
    answered: AtomicBool,
    events: mpsc::Sender<Event>,
}

enum Event {
    /// This replica won; `rest` is set where it is still streaming.
    Won {
        reply: Reply,
        rest: Option<mpsc::Receiver<Piece>>,
    },
    /// This replica failed, with a 5xx reply or none.
    Lost {
        failure: Failure,
        reply: Option<Reply>,
    },
}

/// The next bytes of a streamed reply, or that it broke off.
type Piece = Result<Bytes, ()>;

struct Reply {
    server: ServerId,
    head: ResponseHead,
    body: BytesMut,
}

/// Serves one read with up to `r` replicas.
pub async fn run(
    front: &Arc<Front>,
    client: &mut Client,
    request: &RequestHead,
    r: usize,
) -> After {
    let leases = match front.tier.acquire(r, &[]) {
        Ok(leases) => leases,
        Err(refused) => {
            return client
                .refuse(front, request, refusal_of(refused, false), false)
                .await
        }
    };
    // At most one event per replica, so that no replica ever waits to tell.
    let (events, told) = mpsc::channel(front.tier.config().servers.len());
    let race = Arc::new(Race {
        front: Arc::clone(front),
        request: request.clone(),
        deadline: Instant::now() + front.tier.config().request_timeout(),
        answered: AtomicBool::new(false),
        events,
    });
    let outcome = Referee::new(Arc::clone(&race), leases, told).decide().await;
    // Also after a time-out: whatever completes from now on is too late.
    race.answered.store(true, SeqCst);
    match outcome {
        Outcome::Reply(reply, None) => relay(front, client, request, &reply).await,
        Outcome::Reply(reply, Some(rest)) => stream(front, client, request, &reply, rest).await,
        Outcome::Refusal(refusal) => client.refuse(front, request, refusal, false).await,
    }
}

enum Outcome {
    Reply(Reply, Option<mpsc::Receiver<Piece>>),
    Refusal(Refusal),
}

/// Starts replicas as servers come free and waits for the first good reply.
struct Referee {
    race: Arc<Race>,
    leases: Leases,
    told: mpsc::Receiver<Event>,
    used: Vec<ServerId>,
    running: usize,
    best: Option<Reply>,
    failure: Option<Failure>,
}

impl Referee {
    fn new(race: Arc<Race>, leases: Leases, told: mpsc::Receiver<Event>) -> Self {
        Self {
            race,
            leases,
            told,
            used: vec![],
            running: 0,
            best: None,
            failure: None,
        }
    }

    async fn decide(mut self) -> Outcome {
        while self.running > 0 || self.leases.to_come() > 0 {
            let coming = self.leases.to_come() > 0;
            let step = tokio::select! {
                lease = self.leases.next(), if coming => Step::Lease(lease),
                event = self.told.recv(), if self.running > 0 => Step::Event(event),
                () = tokio::time::sleep_until(self.race.deadline) => Step::TimeUp,
            };
            match step {
                Step::Lease(Some(lease)) => self.start(lease),
                Step::Lease(None) | Step::Event(None) => {}
                Step::Event(Some(Event::Won { reply, rest })) => {
                    // Replicas that wait for a token now never need it.
                    let not_sent = self.leases.to_come() as u64;
                    self.race
                        .front
                        .tier
                        .counters
                        .replicas_not_needed
                        .add(not_sent);
                    return Outcome::Reply(reply, rest);
                }
                Step::Event(Some(Event::Lost { failure, reply })) => {
                    self.lost(failure, reply);
                }
                Step::TimeUp => {
                    self.failure = Some(Failure::TimedOut);
                    break;
                }
            }
        }
        self.nobody_won()
    }

    fn start(&mut self, lease: Lease) {
        self.used.push(lease.server);
        self.running += 1;
        tokio::spawn(replica(Arc::clone(&self.race), lease));
    }

    fn lost(&mut self, failure: Failure, reply: Option<Reply>) {
        self.running -= 1;
        self.best = reply.or(self.best.take());
        self.failure = Some(failure);
        // Nothing was sent: another server may take its place, each at most once.
        if failure == Failure::Connect && self.leases.to_come() == 0 {
            if let Ok(leases) = self.race.front.tier.acquire(1, &self.used) {
                self.leases = leases;
            }
        }
    }

    fn nobody_won(self) -> Outcome {
        match (self.best, self.failure) {
            (Some(reply), _) => Outcome::Reply(reply, None),
            (None, _) if self.used.is_empty() => {
                Outcome::Refusal(Refusal::new(503, "no server came free in time"))
            }
            (None, failure) => Outcome::Refusal(refusal_for(failure.unwrap_or(Failure::TimedOut))),
        }
    }
}

enum Step {
    Lease(Option<Lease>),
    Event(Option<Event>),
    TimeUp,
}

impl Race {
    fn is_answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    /// True for the first to ask.
    fn claim(&self) -> bool {
        !self.answered.swap(true, SeqCst)
    }

    async fn tell(&self, event: Event) {
        // The referee may have left after its time-out.
        let _ = self.events.send(event).await;
    }

    fn not_needed(&self) {
        self.front.tier.counters.replicas_not_needed.inc();
    }
}

/// One replica, from connection to accounting.
async fn replica(race: Arc<Race>, lease: Lease) {
    let server = lease.server;
    if race.is_answered() {
        return race.not_needed();
    }
    let front = Arc::clone(&race.front);
    let Ok(mut link) = open(&front, server, true).await else {
        return race
            .tell(Event::Lost {
                failure: Failure::Connect,
                reply: None,
            })
            .await;
    };
    if race.is_answered() {
        if link.conn.buffer.is_empty() {
            front.pool.put(server, link.conn);
        }
        return race.not_needed();
    }
    let flight = front.tier.sent(server);
    // A time of its own, beyond the client's: the token stays out while the server is at work.
    let drained_by = Instant::now() + front.tier.config().request_timeout();
    match ask(&front, server, &mut link, &race.request, drained_by).await {
        Ok(head) => {
            collect(
                &race,
                link,
                &flight,
                drained_by,
                Reply {
                    server,
                    head,
                    body: BytesMut::new(),
                },
            )
            .await
        }
        Err(failure) => failed(&race, &flight, failure).await,
    }
}

async fn failed(race: &Race, flight: &Flight, failure: Failure) {
    let spent = flight.bad();
    if race.is_answered() {
        return flight.wasted(spent);
    }
    // Sent already: it must not look as if another server could be tried for it.
    let failure = if failure == Failure::Connect {
        Failure::Silent
    } else {
        failure
    };
    race.tell(Event::Lost {
        failure,
        reply: None,
    })
    .await;
}

/// Reads the whole reply; what comes after another's answer is thrown away.
async fn collect(
    race: &Race,
    mut link: Link,
    flight: &Flight,
    drained_by: Instant,
    mut reply: Reply,
) {
    if race.request.minor == 0 && reply.head.framing == Framing::Chunked {
        return failed(race, flight, Failure::Broken).await;
    }
    let mut body = Body::new(reply.head.framing);
    loop {
        match timeout_at(drained_by, body.next_piece(&mut link.conn)).await {
            Ok(Ok(Some(_))) if race.is_answered() => reply.body = BytesMut::new(),
            Ok(Ok(Some(piece))) => reply.body.extend_from_slice(&piece),
            Ok(Ok(None)) => break,
            Ok(Err(_)) => return failed(race, flight, Failure::Broken).await,
            Err(_) => return failed(race, flight, Failure::TimedOut).await,
        }
        if reply.body.len() > REPLY_MAX {
            if reply.head.status >= 500 {
                return failed(race, flight, Failure::Broken).await;
            }
            if race.claim() {
                return pour(race, link, flight, reply, body).await;
            }
        }
    }
    complete(race, flight, link, reply).await;
}

async fn complete(race: &Race, flight: &Flight, link: Link, reply: Reply) {
    let is_good = reply.head.status < 500;
    let latency = if is_good { flight.good() } else { flight.bad() };
    keep(&race.front, reply.server, link, &reply.head);
    if is_good && race.claim() {
        flight.won();
        race.tell(Event::Won { reply, rest: None }).await;
    } else if race.is_answered() {
        flight.wasted(latency);
    } else {
        race.tell(Event::Lost {
            failure: Failure::Broken,
            reply: Some(reply),
        })
        .await;
    }
}

/// The reply outgrew the buffer and won: streams the rest to the client.
async fn pour(race: &Race, mut link: Link, flight: &Flight, reply: Reply, mut body: Body) {
    let limit: Duration = race.front.tier.config().request_timeout();
    let (pieces, rest) = mpsc::channel(PIECES_MAX);
    let (server, head) = (reply.server, reply.head.clone());
    flight.won();
    race.tell(Event::Won {
        reply,
        rest: Some(rest),
    })
    .await;
    loop {
        match timeout(limit, body.next_piece(&mut link.conn)).await {
            Ok(Ok(Some(piece))) => {
                if pieces.send(Ok(piece)).await.is_err() {
                    // The client has gone; the connection is in mid-reply and of no more use.
                    flight.neutral();
                    return;
                }
            }
            Ok(Ok(None)) => break,
            Ok(Err(_)) | Err(_) => {
                flight.bad();
                let _ = pieces.send(Err(())).await;
                return;
            }
        }
    }
    flight.good();
    keep(&race.front, server, link, &head);
}

async fn relay(front: &Front, client: &mut Client, request: &RequestHead, reply: &Reply) -> After {
    if reply.head.status >= 500 {
        front.tier.server_counters[reply.server].wins.inc();
    }
    let keep = client.keeps(request);
    let name = &front.tier.server(reply.server).name;
    let mut out = reply_head_bytes(&reply.head, name, request, keep, Some(reply.body.len()));
    out.extend_from_slice(&reply.body);
    client.finish(front, &out, keep, false).await
}

async fn stream(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    reply: &Reply,
    mut rest: mpsc::Receiver<Piece>,
) -> After {
    let limit = front.tier.config().request_timeout();
    let keep = client.keeps(request) && reply.head.framing != Framing::UntilClose;
    let name = &front.tier.server(reply.server).name;
    let mut out = reply_head_bytes(&reply.head, name, request, keep, None);
    out.extend_from_slice(&reply.body);
    while let Some(piece) = rest.recv().await {
        let written = client.conn.write(&out, limit).await;
        let (Ok(piece), Ok(())) = (piece, written) else {
            front.tier.counters.failed.inc();
            return After::Abort;
        };
        out.clear();
        out.extend_from_slice(&piece);
    }
    client.finish(front, &out, keep, false).await
}
