//! One batch of a client, from sending to decision.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use policy::{Refused, ServerId};
use tokio::time::sleep_until;

use super::front::{Batch, Front};
use super::slot::{Mode, Slot};
use super::{Dialect, Failure};
use crate::comparing::majority_of;
use crate::delayed::{due, Delayed};
use crate::tier::Wanted;
use crate::voting::ReplyVote;

/// Maximum attempts of a read whose server or connection failed.
const READ_TRIES: usize = 3;

/// Races a read at r servers of the policy's choice (at once, or delayed if the policy hedges); the
/// first good reply wins. A read that failed, or was refused, at all of them is sent to others, or
/// again; never to those in `not`. If nobody answers, the reply is a server's refusal (`-LOADING`,
/// say).
pub async fn race<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    not: &[ServerId],
    received: Instant,
) -> Result<(), Failure> {
    let r = front.tier.read_replicas(received);
    if r > 1 {
        front.tier.counters.cloned.add(batch.commands);
    }
    let ballot = ReplyVote::open(&front.tier).filter(|_| batch.is_comparable);
    ask(front, slot, batch, not, (r, received), ballot.as_ref()).await
}

/// Repeats reads at one server that is not in `not`.
pub async fn elsewhere<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    not: &[ServerId],
    received: Instant,
) -> Result<(), Failure> {
    ask(front, slot, batch, not, (1, received), None).await
}

async fn ask<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    not: &[ServerId],
    (r, received): (usize, Instant),
    ballot: Option<&Arc<ReplyVote>>,
) -> Result<(), Failure> {
    let mut options = Options { r, received, never: not.len(), ballot, is_over_once_tried: false };
    let mut tried = not.to_vec();
    let mut failure = Failure::NoServer;
    // The refusal of a server that has not executed it, for the client if no other answers.
    let mut error = BytesMut::new();
    for _ in 0..READ_TRIES {
        match race_once(front, slot, batch, options, &mut tried).await {
            Err(Failure::NoServer) if tried.len() > not.len() => break,
            Err(again @ (Failure::Connect | Failure::Closed)) => failure = again,
            Err(again @ Failure::ServerError) => {
                failure = again;
                error = slot.take_server_error();
                options.is_over_once_tried = true;
            }
            other => {
                if let Some(ballot) = ballot.filter(|_| other.is_err_and(Failure::is_undecided)) {
                    ballot.refused();
                }
                return other;
            }
        }
    }
    if error.is_empty() {
        return Err(failure);
    }
    slot.say(&error);
    Ok(())
}

/// Options of a race.
#[derive(Clone, Copy)]
struct Options<'a> {
    r: usize,
    received: Instant,
    /// Number of the tried servers that must never be asked.
    never: usize,
    /// The vote, if replies are compared.
    ballot: Option<&'a Arc<ReplyVote>>,
    /// True if servers that were asked are not asked again.
    is_over_once_tried: bool,
}

impl Options<'_> {
    fn mode(&self) -> Mode {
        match self.ballot {
            Some(ballot) if ballot.refuses() => {
                Mode::Agree { majority: majority_of(self.r), bytes_max: ballot.rules.bytes_max }
            }
            _ => Mode::Race,
        }
    }
}

async fn race_once<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    options: Options<'_>,
    tried: &mut Vec<ServerId>,
) -> Result<(), Failure> {
    let Options { r, received, never, .. } = options;
    let copies = Wanted::Copies(r);
    let mut leases = match front.tier.acquire(copies, tried) {
        // All were tried: a connection that the server had just closed may be tried again.
        Err(Refused::NoServer) if tried.len() > never && !options.is_over_once_tried => {
            front.tier.acquire(copies, &tried[..never])
        }
        other => other,
    }
    .map_err(|refused| match refused {
        Refused::NoServer => Failure::NoServer,
        Refused::QueueFull => Failure::Busy,
    })?;
    let limit = front.tier.config().request_timeout();
    let ticket = slot.open(options.mode());
    let mut delayed = leases.delayed().map(Delayed::new);
    let mut sent = 0;
    loop {
        let coming = leases.to_come() > 0;
        let lease = tokio::select! {
            biased;
            lease = leases.next(), if coming => lease,
            decided = poll_fn(|cx| slot.poll_round(cx, coming)), if sent > 0 => {
                let has_tries = tried.len() < never + r + READ_TRIES - 1;
                if decided.is_err_and(Failure::is_undecided) && has_tries {
                    // Another server may tell who is right.
                    if let Ok(another) = front.tier.acquire(Wanted::Copies(1), tried) {
                        leases = another;
                        sent = 0;
                        continue;
                    }
                }
                // Replicas that wait for a token now never need it.
                front.tier.counters.replicas_not_needed.add(leases.to_come() as u64);
                return decided;
            }
            () = due(&mut delayed), if sent > 0 => leases.one_more(tried),
            // Its link bounds the time of a sent one.
            () = sleep_until((received + limit).into()), if coming => {
                slot.close();
                return Err(if sent == 0 { Failure::NoToken } else { Failure::TimedOut });
            }
        };
        if let Some(lease) = lease {
            sent += 1;
            let server = lease.server;
            front.send(server, batch, slot, ticket, (Some(lease), options.ballot));
            tried.push(server);
        }
    }
}

/// Sends a batch to one server.
pub async fn one<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    server: ServerId,
) -> Result<(), Failure> {
    let ticket = slot.open(Mode::Race);
    front.send(server, batch, slot, ticket, (None, None));
    match poll_fn(|cx| slot.poll_decided(cx)).await {
        Err(Failure::ServerError) => {
            slot.say(&slot.take_server_error());
            Ok(())
        }
        other => other,
    }
}

/// Sends a batch to all these servers, in the same order as every other such batch; the replies are
/// in the slot ([`Slot::each_reply`]).
pub async fn all<D: Dialect>(
    front: &Front<D>,
    slot: &Arc<Slot>,
    batch: &Batch<'_>,
    servers: &[ServerId],
) {
    let ticket = slot.open(Mode::Gather);
    // No await in between: the order of batches is the same on every link.
    for &server in servers {
        front.send(server, batch, slot, ticket, (None, None));
    }
    // Never an error: each server's failure is in its own place.
    let _ = poll_fn(|cx| slot.poll_decided(cx)).await;
}
