//! A read at r > 1: sent to r servers, the first complete good reply wins (sPARE section 4.1.2).
//!
//! The replicas run in the client's task, each with its own lease, until one has won. Then the
//! others move to a separate task, which reads their replies to the end without delaying the
//! client, returns their connections and then their tokens. Replies are held until they are
//! complete, so a server that dies in mid-reply has not won. A reply that exceeds the buffer, or
//! for which there is no memory, wins and is streamed. A status about the server and not about the
//! request (5xx, 408, 421, 425, 429) does not win while another replica may. A replica that gets
//! its token after the answer is not sent. A replica that broke off before its reply is replaced by
//! another. A client that goes away ends all of them.
//!
//! With comparison (`comparing`) each reply casts a vote. In the mode `count` the losers that have
//! their server are sent and read to their end, without delaying the client. In the mode `refuse` a
//! good reply is held until a majority of `r` gave the same; if the servers do not agree, others
//! are asked, and then the client gets an error. A reply that is too large to be held is refused
//! too.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::task::{Context, Poll};

use policy::ServerId;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::direct::READ_TRIES;
use super::exchange::Failure;
use super::head::RequestHead;
use super::refusal::{refusal_of, Refusal};
use super::relay::{pass_on, pass_whole, Reply};
use super::replica::{replica, End, Good, Large, Race};
use super::Front;
use crate::collision_avoidance::Stamp;
use crate::comparing::majority_of;
use crate::delayed::Delayed;
use crate::tier::{Lease, Leases, Wanted};
use crate::voting::ReplyVote;

type Replying = Pin<Box<dyn Future<Output = End> + Send>>;

/// A replica under way.
struct Replica {
    replying: Replying,
    /// True for an additional probe of an ejected server.
    probes: bool,
}

/// Serves one read with up to `r` replicas.
pub async fn run(
    front: &Arc<Front>,
    client: &mut Client,
    request: &RequestHead,
    r: usize,
) -> After {
    let leases = match front.tier.acquire_for(request.stamp, Wanted::Copies(r), &[]) {
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
        holder: client.holder(),
        stamp: (front.tier.config().avoid_collisions).then(|| front.tier.next_stamp()),
        answered: AtomicBool::new(false),
        ballot: ReplyVote::open(&front.tier),
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
        probe_said: None,
        held: SmallVec::new(),
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
                let begun = (reply.body, reply.memory);
                return pass_on(front, client, request, sent, head, begun).await;
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

/// Starts replicas as servers become free, and waits for the first good reply.
struct Referee {
    race: Arc<Race>,
    /// Replicas that were asked for.
    wanted: usize,
    leases: Leases,
    delayed: Option<Delayed>,
    used: SmallVec<[ServerId; 4]>,
    running: SmallVec<[Replica; 4]>,
    best: Option<Reply>,
    /// Reply of a probe, used if `best` has none.
    probe_said: Option<Reply>,
    /// Good replies that too few others agree with.
    held: SmallVec<[Good; 2]>,
    failure: Option<Failure>,
}

enum Step {
    Lease(Option<Lease>),
    /// The end of a replica, and whether it was a probe.
    End(End, bool),
    /// One more replica is due.
    OneMore,
}

impl Referee {
    /// Waits for the winner; none if no replica can win any more. Cancel-safe.
    async fn decide(&mut self) -> Option<Outcome> {
        while self.is_under_way() || self.asks_another() {
            match poll_fn(|context| self.step(context)).await {
                Step::Lease(Some(lease)) => self.start(lease),
                Step::OneMore => {
                    if let Some(lease) = self.leases.one_more(&self.used) {
                        self.start(lease);
                    }
                }
                Step::End(End::Good(good), _) => {
                    if let Some(reply) = self.elect(good) {
                        return Some(Outcome::Reply(reply));
                    }
                }
                Step::End(End::Large(large), _) => return Some(Outcome::Large(large)),
                // A server that is out takes nobody's place.
                Step::End(End::Lost { reply, .. }, true) => {
                    self.probe_said = reply.or(self.probe_said.take());
                }
                Step::End(End::Lost { failure, reply }, false) => self.lost(failure, reply),
                Step::Lease(None) | Step::End(End::TooLate, _) => {}
            }
        }
        None
    }

    fn is_under_way(&self) -> bool {
        !self.running.is_empty() || self.leases.to_come() > 0
    }

    /// True if one more server could be asked because the replies do not agree.
    fn asks_another(&mut self) -> bool {
        let has_tries = self.used.len() < self.wanted + READ_TRIES - 1;
        if self.held.is_empty() || !has_tries {
            return false;
        }
        let Race { front, request, .. } = &*self.race;
        let copies = Wanted::Copies(1);
        let leases = front.tier.acquire_for(request.stamp, copies, &self.used);
        leases.map(|leases| self.leases = leases).is_ok()
    }

    /// The reply that wins by this one: itself, if replies are not held; one of the held, if enough
    /// agree.
    fn elect(&mut self, good: Good) -> Option<Reply> {
        if !self.race.refuses() {
            return Some(good.reply);
        }
        let same = |other: &&Good| other.digest == good.digest;
        let agree = 1 + self.held.iter().filter(same).count();
        // One that is not compared agrees with nobody.
        if good.digest.is_some() && agree >= majority_of(self.wanted) {
            let counters = &self.race.front.tier.server_counters[good.reply.server];
            counters.wins.inc();
            return Some(good.reply);
        }
        self.held.push(good);
        None
    }

    /// The reason for passing none of the held replies on.
    fn disagreement(&self) -> Failure {
        let differ = |two: &[Good]| two[0].digest != two[1].digest;
        if self.held.windows(2).any(differ) {
            Failure::Disagreed
        } else if self.failure == Some(Failure::TimedOut) {
            Failure::Undecided
        } else {
            Failure::Alone
        }
    }

    fn start(&mut self, lease: Lease) {
        self.used.push(lease.server);
        let probes = lease.probes;
        let race = Arc::clone(&self.race);
        if let Some(above) = race.request.stamp {
            race.front.tier.holds(above, lease.server);
        }
        let stamp =
            race.stamp.map(|request| Stamp { request, replica: self.used.len() as u16 - 1 });
        let replying = Box::pin(replica(race, lease, stamp));
        self.running.push(Replica { replying, probes });
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        if self.leases.to_come() > 0 {
            if let Poll::Ready(lease) = pin!(self.leases.next()).poll(context) {
                return Poll::Ready(Step::Lease(lease));
            }
        }
        for place in 0..self.running.len() {
            let Replica { replying, probes } = &mut self.running[place];
            let probes = *probes;
            if let Poll::Ready(end) = replying.as_mut().poll(context) {
                drop(self.running.swap_remove(place));
                return Poll::Ready(Step::End(end, probes));
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
        let is_last = self.running.iter().all(|it| it.probes) && self.best.is_none();
        let has_tries = self.used.len() < self.wanted + READ_TRIES - 1;
        let was_sent = failure != Failure::Connect;
        let again = may_be_retried && (!was_sent || (is_last && has_tries));
        if again && self.leases.to_come() == 0 {
            let Race { front, request, .. } = &*self.race;
            let copies = Wanted::Copies(1);
            if let Ok(leases) = front.tier.acquire_for(request.stamp, copies, &self.used) {
                self.leases = leases;
            }
        }
    }

    /// Ends the race after the client disconnected: nothing is drained, the servers' connections
    /// close.
    fn give_up(self) -> After {
        self.race.answered.store(true, SeqCst);
        After::Abort
    }

    /// Ends the race with the client's reply; none for `decided` means a time-out. A later reply is
    /// drained.
    fn end(mut self, decided: Option<Option<Outcome>>) -> Outcome {
        self.race.answered.store(true, SeqCst);
        if !self.running.is_empty() {
            tokio::spawn(drain(std::mem::take(&mut self.running)));
        }
        let failure = match decided {
            Some(Some(outcome)) => {
                // Replicas that wait for a token now never need it.
                let not_sent = self.leases.to_come() as u64;
                let counters = &self.race.front.tier.counters;
                counters.replicas_not_needed.add(not_sent);
                return outcome;
            }
            Some(None) if !self.held.is_empty() => self.disagreement(),
            Some(None) => self.failure.unwrap_or(Failure::TimedOut),
            None if !self.held.is_empty() => Failure::Undecided,
            None => Failure::TimedOut,
        };
        if !self.held.is_empty() || (failure == Failure::TooLarge && self.best.is_none()) {
            if let Some(ballot) = &self.race.ballot {
                ballot.refused();
            }
            return Outcome::Refusal(failure.refusal());
        }
        match self.best.or(self.probe_said) {
            Some(reply) => Outcome::Reply(reply),
            None if self.used.is_empty() => {
                Outcome::Refusal(Refusal::new(503, "no server came free in time"))
            }
            None => Outcome::Refusal(failure.refusal()),
        }
    }
}

/// Drains the losers, each up to its own deadline.
async fn drain(mut running: SmallVec<[Replica; 4]>) {
    poll_fn(|context| {
        running.retain(|replica| replica.replying.as_mut().poll(context).is_pending());
        if running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
