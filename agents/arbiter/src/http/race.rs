//! A read at r > 1: sent to r servers, the first complete good reply wins (sPARE section 4.1.2).
//!
//! The replicas run in the client's task, each with its own lease, until one has won; only then do
//! those that are left move to a task of their own, where they are drained off the client's path,
//! give their connections back and only then their tokens. Replies are held until they are complete
//! (a server that dies in mid-reply has not won); one that outgrows the buffer wins by that and is
//! streamed; so does one that finds no memory. What says something of the server and not of the
//! request (5xx, 408, 421, 425, 429) does not win while another replica may. A replica whose turn
//! comes after the answer is not sent. One that broke off before its reply makes place for another.
//! A client that goes away ends all of them.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use policy::ServerId;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::body::Body;
use super::direct::READ_TRIES;
use super::exchange::{ask_for_final, keep, open, Failure, Question};
use super::head::{is_good, RequestHead, ResponseHead};
use super::refusal::{refusal_of, Refusal};
use super::relay::{account, pass_on, pass_whole, Reply, Sent};
use super::Front;
use crate::delayed::Delayed;
use crate::memory::{Held, UNCOUNTED};
use crate::siblings::Stamp;
use crate::tier::{Flight, Lease, Leases};

/// Largest reply that is held back; a larger one is streamed as soon as it is larger.
pub const REPLY_MAX: usize = 1024 * 1024;

/// What the replicas of one request share.
struct Race {
    front: Arc<Front>,
    request: RequestHead,
    /// The number that its replicas carry, where the tier behind is to keep them apart.
    stamp: Option<u64>,
    answered: AtomicBool,
}

type Replica = Pin<Box<dyn Future<Output = End> + Send>>;

/// What became of a replica.
enum End {
    /// A complete good reply.
    Good(Reply),
    /// A good reply that outgrew the buffer.
    Large(Box<Large>),
    /// A reply that is not good, or none.
    Lost {
        failure: Failure,
        reply: Option<Reply>,
    },
    /// Another had won before.
    TooLate,
}

struct Large {
    reply: Reply,
    body: Body,
    sent: Sent,
}

/// Serves one read with up to `r` replicas.
pub async fn run(
    front: &Arc<Front>,
    client: &mut Client,
    request: &RequestHead,
    r: usize,
) -> After {
    let leases = match front.tier.acquire_for(request.stamp, r, &[]) {
        Ok(leases) => leases,
        Err(refused) => {
            let refusal = refusal_of(refused, false);
            return client.refuse(front, request, refusal, false).await;
        }
    };
    let deadline = Instant::now() + front.tier.config().request_timeout();
    let race = Arc::new(Race {
        front: Arc::clone(front),
        request: request.clone(),
        stamp: (front.tier.config().avoid_collisions).then(|| front.tier.next_stamp()),
        answered: AtomicBool::new(false),
    });
    let delayed = leases.delayed().map(Delayed::new);
    let mut referee = Referee {
        race,
        wanted: r,
        leases,
        delayed,
        used: SmallVec::new(),
        running: SmallVec::new(),
        best: None,
        failure: None,
    };
    let deciding = referee.decide();
    let Some(decided) = client.conn.limit_while_here(deadline, deciding).await else {
        front.tier.counters.failed.inc();
        return referee.give_up();
    };
    match referee.end(decided) {
        Outcome::Reply(reply) => pass_whole(front, client, request, reply).await,
        Outcome::Large(large) => {
            let Large { reply, body, sent } = *large;
            if client.pass_interim(front, request, &reply.interim).await {
                let head = (reply.head, body);
                return pass_on(front, client, request, sent, head, reply.body).await;
            }
            front.tier.counters.failed.inc();
            After::Abort
        }
        Outcome::Refusal(refusal) => client.refuse(front, request, refusal, false).await,
    }
}

enum Outcome {
    Reply(Reply),
    Large(Box<Large>),
    Refusal(Refusal),
}

/// Starts replicas as servers come free and waits for the first good reply.
struct Referee {
    race: Arc<Race>,
    /// Replicas that were asked for.
    wanted: usize,
    leases: Leases,
    delayed: Option<Delayed>,
    used: SmallVec<[ServerId; 4]>,
    running: SmallVec<[Replica; 4]>,
    best: Option<Reply>,
    failure: Option<Failure>,
}

enum Step {
    Lease(Option<Lease>),
    End(End),
    /// The time for one more replica.
    OneMore,
}

impl Referee {
    /// The winner; none where nobody can win any more. May be dropped at any time.
    async fn decide(&mut self) -> Option<Outcome> {
        while !self.running.is_empty() || self.leases.to_come() > 0 {
            match poll_fn(|context| self.step(context)).await {
                Step::Lease(Some(lease)) => self.start(lease),
                Step::OneMore => {
                    if let Some(lease) = self.leases.one_more(&self.used) {
                        self.start(lease);
                    }
                }
                Step::End(End::Good(reply)) => return Some(Outcome::Reply(reply)),
                Step::End(End::Large(large)) => return Some(Outcome::Large(large)),
                Step::End(End::Lost { failure, reply }) => self.lost(failure, reply),
                Step::Lease(None) | Step::End(End::TooLate) => {}
            }
        }
        None
    }

    fn start(&mut self, lease: Lease) {
        self.used.push(lease.server);
        let race = Arc::clone(&self.race);
        if let Some(above) = race.request.stamp {
            race.front.tier.holds(above, lease.server);
        }
        let stamp = race.stamp.map(|request| Stamp {
            request,
            replica: self.used.len() as u16 - 1,
        });
        self.running.push(Box::pin(replica(race, lease, stamp)));
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        if self.leases.to_come() > 0 {
            if let Poll::Ready(lease) = pin!(self.leases.next()).poll(context) {
                return Poll::Ready(Step::Lease(lease));
            }
        }
        for place in 0..self.running.len() {
            if let Poll::Ready(end) = self.running[place].as_mut().poll(context) {
                drop(self.running.swap_remove(place));
                return Poll::Ready(Step::End(end));
            }
        }
        match &mut self.delayed {
            Some(delayed) => delayed.poll_due(context).map(|()| Step::OneMore),
            None => Poll::Pending,
        }
    }

    fn lost(&mut self, failure: Failure, reply: Option<Reply>) {
        let may_be_retried = reply.is_none() && failure.may_be_retried();
        self.best = reply.or(self.best.take());
        self.failure = Some(failure);
        // Another server may take its place, each at most once. Where nothing was sent each may; else
        // the last replica alone makes place, and not for all servers that there are.
        let is_last = self.running.is_empty() && self.best.is_none();
        let has_tries = self.used.len() < self.wanted + READ_TRIES - 1;
        let was_sent = failure != Failure::Connect;
        let again = may_be_retried && (!was_sent || (is_last && has_tries));
        if again && self.leases.to_come() == 0 {
            let Race { front, request, .. } = &*self.race;
            if let Ok(leases) = front.tier.acquire_for(request.stamp, 1, &self.used) {
                self.leases = leases;
            }
        }
    }

    /// The client has gone: nothing is drained, the servers' connections close.
    fn give_up(self) -> After {
        self.race.answered.store(true, SeqCst);
        After::Abort
    }

    /// What the client gets; none for `decided` says that the time was up. Whatever completes from
    /// now on is too late, and is drained.
    fn end(self, decided: Option<Option<Outcome>>) -> Outcome {
        self.race.answered.store(true, SeqCst);
        if !self.running.is_empty() {
            tokio::spawn(drain(self.running));
        }
        let failure = match decided {
            Some(Some(outcome)) => {
                // Replicas that wait for a token now never need it.
                let not_sent = self.leases.to_come() as u64;
                let counters = &self.race.front.tier.counters;
                counters.replicas_not_needed.add(not_sent);
                return outcome;
            }
            Some(None) => self.failure.unwrap_or(Failure::TimedOut),
            None => Failure::TimedOut,
        };
        match self.best {
            Some(reply) => Outcome::Reply(reply),
            None if self.used.is_empty() => {
                Outcome::Refusal(Refusal::new(503, "no server came free in time"))
            }
            None => Outcome::Refusal(failure.refusal()),
        }
    }
}

/// Lets losers come to their end, each in its own time.
async fn drain(mut running: SmallVec<[Replica; 4]>) {
    poll_fn(|context| {
        running.retain(|replica| replica.as_mut().poll(context).is_pending());
        if running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

impl Race {
    fn is_answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    fn not_needed(&self) -> End {
        self.front.tier.counters.replicas_not_needed.inc();
        End::TooLate
    }

    fn failed(&self, flight: &Flight, failure: Failure) -> End {
        let spent = flight.bad();
        if self.is_answered() {
            flight.wasted(spent);
            return End::TooLate;
        }
        // Sent already: it must not look as if each could be tried in its place.
        let failure = match failure {
            Failure::Connect => Failure::Silent,
            other => other,
        };
        let reply = None;
        End::Lost { failure, reply }
    }
}

/// One replica, from connection to accounting.
async fn replica(race: Arc<Race>, lease: Lease, stamp: Option<Stamp>) -> End {
    let server = lease.server;
    if race.is_answered() {
        return race.not_needed();
    }
    // A time of its own, beyond the client's: the token stays out while the server is at work.
    let drained_by = Instant::now() + race.front.tier.config().request_timeout();
    let mut link = match open(&race.front, server, true, drained_by).await {
        Ok(link) => link,
        Err(failure) => {
            let reply = None;
            return End::Lost { failure, reply };
        }
    };
    if race.is_answered() {
        race.front.pool.put(server, link.conn, link.generation);
        return race.not_needed();
    }
    let tier = &race.front.tier;
    let flight = tier.sent(server);
    let mut reply = Reply {
        server,
        interim: Vec::new(),
        head: ResponseHead::default(),
        body: BytesMut::new(),
    };
    let question = Question {
        request: &race.request,
        body: &[],
        stamp,
        deadline: drained_by,
    };
    let (head, interim) = (&mut reply.head, &mut reply.interim);
    match ask_for_final(&race.front, server, &mut link, &question, head, interim).await {
        Ok(()) => {
            let sent = Sent {
                lease,
                link,
                flight,
                is_cut: false,
                unread_body: false,
            };
            collect(&race, sent, drained_by, reply).await
        }
        Err(failure) => race.failed(&flight, failure),
    }
}

/// Reads the whole reply; what comes after another's answer is thrown away.
async fn collect(race: &Race, mut sent: Sent, drained_by: Instant, mut reply: Reply) -> End {
    let mut held: Option<Held> = None;
    let mut body = Body::new(reply.head.framing);
    loop {
        let conn = &mut sent.link.conn;
        match body.next(conn, drained_by).await {
            Ok(Some(length)) => {
                if race.is_answered() {
                    reply.body = BytesMut::new();
                } else {
                    reply.body.extend_from_slice(&conn.buffer[..length]);
                }
                conn.buffer.advance(length);
            }
            Ok(None) => break,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                return race.failed(&sent.flight, Failure::TimedOut);
            }
            Err(_) => return race.failed(&sent.flight, Failure::Broken),
        }
        let length = reply.body.len();
        let may_hold = length <= UNCOUNTED || {
            let memory = &race.front.tier.memory;
            held.get_or_insert_with(|| Held::new(memory)).cover(length)
        };
        if length > REPLY_MAX || !may_hold {
            if !is_good(reply.head.status) {
                return race.failed(&sent.flight, Failure::Broken);
            }
            return End::Large(Box::new(Large { reply, body, sent }));
        }
    }
    complete(race, sent, reply)
}

fn complete(race: &Race, sent: Sent, reply: Reply) -> End {
    let Sent { link, flight, .. } = sent;
    let latency = account(&flight, reply.head.status);
    keep(&race.front, reply.server, link, &reply.head);
    if race.is_answered() {
        flight.wasted(latency);
        End::TooLate
    } else if is_good(reply.head.status) {
        flight.won();
        End::Good(reply)
    } else {
        End::Lost {
            failure: Failure::Broken,
            reply: Some(reply),
        }
    }
}
