//! One replica of a read: sent to one server, with its reply read to the end, or until it wins by
//! its size.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::time::Instant;

use super::body::Body;
use super::digest::ReplyHasher;
use super::exchange::{ask_for_final, keep, open, Failure, Question};
use super::head::{is_good, RequestHead, ResponseHead};
use super::pool::Age;
use super::relay::{account, Reply, Sent};
use super::Front;
use crate::collision_avoidance::Stamp;
use crate::comparing::Digest;
use crate::memory::{Held, Holder, UNCOUNTED};
use crate::tier::{Flight, Lease};
use crate::voting::ReplyVote;

/// Maximum size of a reply that is held back; a larger one is streamed from then on.
const REPLY_MAX: usize = 1024 * 1024;

/// An incomplete reply is streamed once this share of the time is left, if its server has sent some
/// of it in as short a time.
const HELD_SHARE: u32 = 4;

/// State that the replicas of one request share.
pub(super) struct Race {
    pub(super) front: Arc<Front>,
    pub(super) request: RequestHead,
    /// The client for whom replies are held.
    pub(super) holder: Holder,
    /// The request's number in stamps, for the tier behind.
    pub(super) stamp: Option<u64>,
    pub(super) answered: AtomicBool,
    /// The vote, if replies are compared.
    pub(super) ballot: Option<Arc<ReplyVote>>,
}

/// The result of a replica.
pub(super) enum End {
    /// A complete good reply.
    Good(Good),
    /// A good reply that is larger than the buffer.
    Large(Box<Large>),
    /// No reply, or one that is not good.
    Lost { failure: Failure, reply: Option<Reply> },
    /// Another replica won before.
    TooLate,
}

/// A complete good reply.
pub(super) struct Good {
    pub(super) reply: Reply,
    pub(super) digest: Option<Digest>,
}

/// A reply that wins by its size, with its remainder.
pub(super) struct Large {
    pub(super) reply: Reply,
    pub(super) body: Body,
    pub(super) sent: Sent,
}

impl Race {
    fn is_answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    /// True if a replica that was not sent yet is unnecessary.
    fn is_over(&self) -> bool {
        let counts = self.ballot.as_ref().is_some_and(|ballot| ballot.counts());
        self.is_answered() && !counts
    }

    /// True if a reply is held until others agree.
    pub(super) fn refuses(&self) -> bool {
        self.ballot.as_ref().is_some_and(|ballot| ballot.refuses())
    }

    /// Maximum size of a held body.
    fn body_max(&self) -> usize {
        let refusing = self.ballot.as_ref().filter(|ballot| ballot.refuses());
        refusing.map_or(REPLY_MAX, |ballot| ballot.rules.bytes_max)
    }

    fn not_needed(&self) -> End {
        self.front.tier.counters.replicas_not_needed.inc();
        End::TooLate
    }

    /// Streams a good reply that its server does not complete in time: it wins unless another has,
    /// and is no observation of its server's latency.
    fn stream(&self, reply: Reply, body: Body, sent: Sent) -> End {
        if !self.is_answered() {
            return End::Large(Box::new(Large { reply, body, sent }));
        }
        let spent = sent.flight.neutral();
        sent.flight.wasted(spent);
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

/// Runs one replica, from connection to accounting.
pub(super) async fn replica(race: Arc<Race>, lease: Lease, stamp: Option<Stamp>) -> End {
    let server = lease.server;
    if race.is_over() {
        return race.not_needed();
    }
    // A time of its own, beyond the client's: the token stays out while the server is at work.
    let drained_by = Instant::now() + race.front.tier.config().request_timeout();
    let mut link = match open(&race.front, server, Some(Age::Any), drained_by).await {
        Ok(link) => link,
        Err(failure) => {
            let reply = None;
            return End::Lost { failure, reply };
        }
    };
    if race.is_over() {
        race.front.pool.put(server, link.conn);
        return race.not_needed();
    }
    let tier = &race.front.tier;
    let flight = tier.sent(server);
    let mut reply = Reply {
        server,
        interim: Vec::new(),
        head: ResponseHead::default(),
        body: BytesMut::new(),
        memory: None,
    };
    let question = Question { request: &race.request, body: &[], stamp, deadline: drained_by };
    let (head, interim) = (&mut reply.head, &mut reply.interim);
    match ask_for_final(&race.front, server, &mut link, &question, head, interim).await {
        Ok(()) => {
            let sent = Sent {
                server,
                lease: Some(lease),
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

/// Reads the whole reply; bytes that come after another's answer are discarded once compared.
async fn collect(race: &Race, mut sent: Sent, drained_by: Instant, mut reply: Reply) -> End {
    let mut body = Body::new(reply.head.framing);
    let ballot = race.ballot.clone();
    let mut hasher = ballot.map(|ballot| ReplyHasher::new(ballot, &reply.head));
    let limit = race.front.tier.config().request_timeout();
    // A server that keeps sending is not late: what is not complete by then is passed on as it comes.
    let mut held_until = drained_by - limit / HELD_SHARE;
    let mut last_bytes_at = Instant::now();
    let may_stream = is_good(reply.head.status) && !race.refuses();
    if may_stream && reply.head.is_events {
        return race.stream(reply, body, sent);
    }
    loop {
        let conn = &mut sent.link.conn;
        match body.next(conn, held_until).await {
            Ok(Some(length)) => {
                last_bytes_at = Instant::now();
                if let Some(hasher) = &mut hasher {
                    hasher.add(&conn.buffer[..length]);
                }
                if race.is_answered() {
                    reply.body = BytesMut::new();
                } else {
                    reply.body.extend_from_slice(&conn.buffer[..length]);
                }
                conn.buffer.advance(length);
            }
            Ok(None) => break,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                let is_sending = last_bytes_at.elapsed() < limit / HELD_SHARE;
                if is_sending && may_stream {
                    return race.stream(reply, body, sent);
                }
                if held_until >= drained_by {
                    return race.failed(&sent.flight, Failure::TimedOut);
                }
                held_until = drained_by;
                continue;
            }
            Err(_) => return race.failed(&sent.flight, Failure::Broken),
        }
        let length = reply.body.len();
        let may_hold = length <= UNCOUNTED || {
            let memory = &race.front.tier.memory;
            let held = || Held::of(memory, race.holder);
            reply.memory.get_or_insert_with(held).cover(length)
        };
        if length > race.body_max() || !may_hold {
            if !is_good(reply.head.status) {
                return race.failed(&sent.flight, Failure::Broken);
            }
            if let Some(mut hasher) = hasher {
                hasher.too_large();
            }
            if race.refuses() {
                let (failure, reply) = (Failure::TooLarge, None);
                return End::Lost { failure, reply };
            }
            return End::Large(Box::new(Large { reply, body, sent }));
        }
    }
    let digest =
        hasher.filter(|_| is_good(reply.head.status)).and_then(|hasher| hasher.vote(reply.server));
    let good = Good { reply, digest };
    complete(race, sent, good)
}

fn complete(race: &Race, sent: Sent, good: Good) -> End {
    let reply = &good.reply;
    let Sent { link, flight, .. } = sent;
    let latency = account(&flight, reply.head.status);
    keep(&race.front, reply.server, link, &reply.head);
    if race.is_answered() {
        flight.wasted(latency);
        End::TooLate
    } else if is_good(reply.head.status) {
        if !race.refuses() {
            flight.won();
        }
        End::Good(good)
    } else {
        End::Lost { failure: Failure::Broken, reply: Some(good.reply) }
    }
}
