//! A request to one server, up to the first head of its reply that is not for the arbiter.
//!
//! If a server cannot be reached, the next one is tried, each at most once; the same if it breaks
//! off before its reply and the request is a read. Other requests are not sent twice. A client that
//! goes away ends its request: the server's connection is closed.

use policy::ServerId;
use tokio::time::{timeout_at, Instant};

use super::answer::Client;
use super::exchange::{ask, open, reply_head, Failure, Link, Question};
use super::head::{RequestHead, ResponseHead};
use super::pool::Age;
use super::refusal::{refusal_of, Refusal};
use super::relay::Sent;
use super::upload::{Broken, Streaming, Upload};
use super::Front;
use crate::min_rate::MinRate;
use crate::tier::{Flight, Lease, UploadPlace, Wanted};

/// Maximum servers that are tried for a read, one after the other.
pub const READ_TRIES: usize = 3;

/// One request of a client and its reply.
pub struct Exchange<'a> {
    pub front: &'a Front,
    pub client: &'a mut Client,
    pub request: &'a RequestHead,
    pub deadline: Instant,
    pub reply: ResponseHead,
}

/// Reason for having no reply to pass on.
pub enum Ended {
    /// The client disconnected.
    Gone,
    /// The arbiter's refusal, and true if the body was not read to the end.
    Refused(Refusal, bool),
}

impl Exchange<'_> {
    /// Sends a request with a complete body, and waits for the first head of the reply.
    pub async fn ask_whole(&mut self, body: &[u8]) -> Result<Sent, Ended> {
        let question =
            Question { request: self.request, body, stamp: None, deadline: self.deadline };
        let asking = ask_somebody(self.front, &question, &mut self.reply);
        let result = self.client.conn.while_here(asking).await;
        let result = result.ok_or(Ended::Gone)?;
        result.map_err(|refusal| Ended::Refused(refusal, false))
    }

    /// As `ask_whole`, with a body that is streamed.
    pub async fn ask_streaming(&mut self, mut upload: Upload) -> Result<Sent, Ended> {
        let _place = self.upload_place().await?;
        let (request, mut tried) = (self.request, Vec::new());
        let reaching = reach(self.front, request, self.deadline, &mut tried);
        let reached = self.client.conn.while_here(reaching).await;
        let reached = reached.ok_or(Ended::Gone)?;
        let (lease, link) = reached.map_err(|refusal| Ended::Refused(refusal, true))?;
        self.send(lease, link, &mut upload, &request.forward).await
    }

    /// Waits for a place for a streamed body.
    pub async fn upload_place(&mut self) -> Result<UploadPlace, Ended> {
        let waiting = timeout_at(self.deadline, self.front.tier.upload_place());
        let place = self.client.conn.while_here(waiting).await;
        place.ok_or(Ended::Gone)?.map_err(|_| {
            let reason = "too many uploads are on their way to servers";
            Ended::Refused(Refusal::new(503, reason), true)
        })
    }

    /// Sends head and body to a server, and waits for the first head of the reply.
    pub async fn send(
        &mut self,
        lease: Lease,
        mut link: Link,
        upload: &mut Upload,
        head: &[u8],
    ) -> Result<Sent, Ended> {
        let flight = self.front.tier.sent(lease.server);
        let config = self.front.tier.config();
        let limit = config.request_timeout();
        let streaming = Streaming {
            limit,
            pace: MinRate::of_sender(config),
            by: Instant::now() + config.streaming_max(),
        };
        let sent = upload.send(self.client, &mut link, head, streaming).await;
        let takes_all = match sent {
            Ok(all) => all,
            Err(why) => return Err(cut(why, Some(&flight))),
        };
        let unread_body = !upload.is_whole();
        // The time that a request may take begins when it is complete.
        self.deadline = Instant::now() + limit;
        let head = reply_head(&mut link.conn, self.request.is_head, self.deadline, &mut self.reply);
        match self.client.conn.while_here(head).await {
            None => Err(Ended::Gone),
            Some(Err(failure)) => {
                flight.bad();
                Err(Ended::Refused(failure.refusal(), unread_body))
            }
            Some(Ok(())) => Ok(Sent {
                server: lease.server,
                lease: Some(lease),
                link,
                flight,
                is_cut: !takes_all,
                unread_body,
            }),
        }
    }

    /// Passes interim replies on until the head of the final one.
    pub async fn final_head(&mut self, sent: &mut Sent) -> Result<(), Ended> {
        let mut interim = 0;
        while self.reply.status < 200 {
            interim += 1;
            let failed = if interim > super::exchange::INTERIM_MAX {
                Some(Failure::Broken)
            } else {
                self.pass_interim().await?;
                let head = reply_head(
                    &mut sent.link.conn,
                    self.request.is_head,
                    self.deadline,
                    &mut self.reply,
                );
                let head = self.client.conn.while_here(head).await;
                head.ok_or(Ended::Gone)?.err()
            };
            if let Some(failure) = failed {
                sent.flight.bad();
                return Err(Ended::Refused(failure.refusal(), sent.unread_body));
            }
        }
        Ok(())
    }

    /// Passes an interim reply on; a client of HTTP/1.0 gets none.
    pub async fn pass_interim(&mut self) -> Result<(), Ended> {
        if self.request.minor == 0 {
            return Ok(());
        }
        let limit = self.front.tier.config().request_timeout();
        let head = &self.reply.forward;
        let written = self.client.conn.write_both(head, b"\r\n", limit).await;
        written.map_err(|_| Ended::Gone)
    }
}

/// Ends a request whose body does not reach the server.
pub fn cut(why: Broken, flight: Option<&Flight>) -> Ended {
    match why {
        Broken::Gone => Ended::Gone,
        Broken::Refused(refusal) => Ended::Refused(refusal, true),
        Broken::Server(failure) => {
            if let Some(flight) = flight {
                flight.bad();
            }
            Ended::Refused(failure.refusal(), true)
        }
    }
}

/// Sends the request to a server, and for a read to another if that one fails before its reply.
async fn ask_somebody(
    front: &Front,
    question: &Question<'_>,
    reply: &mut ResponseHead,
) -> Result<Sent, Refusal> {
    let (request, mut tried) = (question.request, Vec::new());
    let mut failure: Option<Failure> = None;
    loop {
        let reached = reach(front, request, question.deadline, &mut tried).await;
        let (lease, mut link) = match (reached, failure) {
            (Ok(reached), _) => reached,
            (Err(_), Some(failure)) => return Err(failure.refusal()),
            (Err(refusal), None) => return Err(refusal),
        };
        let server = lease.server;
        let flight = front.tier.sent(server);
        // A request that may take for ever takes no place of work.
        let lease = Some(lease).filter(|_| !request.streams);
        let why = match ask(front, server, &mut link, question, reply).await {
            Ok(takes_all) => {
                return Ok(Sent {
                    server,
                    lease,
                    link,
                    flight,
                    is_cut: !takes_all,
                    unread_body: false,
                })
            }
            Err(why) => why,
        };
        if why != Failure::Local && !(request.streams && why == Failure::TimedOut) {
            flight.bad();
        }
        tried.push(server);
        if !request.is_read || !why.may_be_retried() || tried.len() >= READ_TRIES {
            return Err(why.refusal());
        }
        failure = Some(why);
    }
}

/// Takes a server and a connection to it; adds unreachable ones to `tried`.
pub async fn reach(
    front: &Front,
    request: &RequestHead,
    deadline: Instant,
    tried: &mut Vec<ServerId>,
) -> Result<(Lease, Link), Refusal> {
    let limit = front.tier.config().request_timeout();
    let deadline = match request.streams {
        true => deadline.min(Instant::now() + limit),
        false => deadline,
    };
    loop {
        let mut leases = match front.tier.acquire_for(request.stamp, Wanted::One, tried) {
            Ok(leases) => leases,
            Err(refused) => return Err(refusal_of(refused, !tried.is_empty())),
        };
        let Ok(Some(lease)) = timeout_at(deadline, leases.next()).await else {
            return Err(Refusal::new(503, "no server came free in time"));
        };
        if let Some(stamp) = request.stamp {
            front.tier.holds(stamp, lease.server);
        }
        // A non-read on a connection that the server is just closing could not be sent again.
        let age = if request.is_read { Age::Any } else { Age::Fresh };
        match open(front, lease.server, Some(age), deadline).await {
            Ok(link) => return Ok((lease, link)),
            Err(Failure::Local) => return Err(Failure::Local.refusal()),
            Err(_) => tried.push(lease.server),
        }
    }
}
