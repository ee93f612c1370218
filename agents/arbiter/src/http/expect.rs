//! `Expect: 100-continue`: the server decides about the body (RFC 9110, 10.1.1).
//!
//! The server first gets the head alone. When it wants the body its token is returned, because it
//! then waits for the client; the token is requested again when the body has arrived.

use std::time::Duration;

use policy::ServerId;
use tokio::time::{timeout_at, Instant};

use super::direct::{cut, reach, Ended, Exchange};
use super::exchange::{reply_head, Failure, Link, INTERIM_MAX};
use super::refusal::{refusal_of, Refusal};
use super::relay::Sent;
use super::upload::Upload;
use crate::tier::{Lease, Wanted};

/// Time after which a silent server is taken not to support `Expect`.
const WAIT_MAX: Duration = Duration::from_secs(1);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Asks a server whether it wants the body, and sends it if so. Returns at the first head that is
/// not about that.
pub async fn ask(exchange: &mut Exchange<'_>, mut upload: Upload) -> Result<Sent, Ended> {
    let front = exchange.front;
    let mut tried = Vec::new();
    let reaching = reach(front, exchange.request, exchange.deadline, &mut tried);
    let reached = exchange.client.conn.while_here(reaching).await;
    let reached = reached.ok_or(Ended::Gone)?;
    let (lease, mut link) = reached.map_err(|refusal| Ended::Refused(refusal, true))?;
    let flight = front.tier.sent(lease.server);
    match wants_body(exchange, &mut link).await {
        Ok(true) => {}
        Ok(false) => {
            return Ok(Sent {
                server: lease.server,
                lease: Some(lease),
                link,
                flight,
                is_cut: true,
                unread_body: true,
            })
        }
        Err(ExpectError::Ended(ended)) => return Err(ended),
        Err(ExpectError::Failed(failure)) => {
            flight.bad();
            return Err(Ended::Refused(failure.refusal(), true));
        }
    }
    let server = lease.server;
    drop((flight, lease));
    let filled = upload.fill(front, exchange.client).await;
    filled.map_err(|why| cut(why, None))?;
    exchange.deadline = Instant::now() + front.tier.config().request_timeout();
    let _place = match upload.is_whole() {
        true => None,
        false => Some(exchange.upload_place().await?),
    };
    let lease = acquire(exchange, server).await?;
    exchange.send(lease, link, &mut upload, &[]).await
}

enum ExpectError {
    Ended(Ended),
    Failed(Failure),
}

/// Sends the head; false if the server has sent its final reply.
async fn wants_body(exchange: &mut Exchange<'_>, link: &mut Link) -> Result<bool, ExpectError> {
    let limit = exchange.front.tier.config().request_timeout();
    let head = &exchange.request.forward;
    let written = link.conn.write(head, limit).await;
    written.map_err(|_| ExpectError::Failed(Failure::Silent))?;
    let until = (Instant::now() + WAIT_MAX).min(exchange.deadline);
    for _ in 0..INTERIM_MAX {
        let head = reply_head(&mut link.conn, exchange.request.is_head, until, &mut exchange.reply);
        let head = exchange.client.conn.while_here(head).await;
        match head.ok_or(ExpectError::Ended(Ended::Gone))? {
            Ok(()) if exchange.reply.status >= 200 => return Ok(false),
            Ok(()) => exchange.pass_interim().await.map_err(ExpectError::Ended)?,
            Err(Failure::TimedOut) => {
                let result = exchange.client.conn.write(CONTINUE, limit).await;
                result.map_err(|_| ExpectError::Ended(Ended::Gone))?;
                return Ok(true);
            }
            Err(failure) => return Err(ExpectError::Failed(failure)),
        }
        if exchange.reply.status == 100 {
            return Ok(true);
        }
    }
    Err(ExpectError::Failed(Failure::Broken))
}

/// Takes a token of this server.
async fn acquire(exchange: &mut Exchange<'_>, server: ServerId) -> Result<Lease, Ended> {
    let tier = &exchange.front.tier;
    let all = 0..tier.servers().len();
    let others: Vec<ServerId> = all.filter(|&other| other != server).collect();
    let refused = |refusal: Refusal| Ended::Refused(refusal, false);
    let mut leases =
        tier.acquire(Wanted::One, &others).map_err(|why| refused(refusal_of(why, true)))?;
    let waiting = timeout_at(exchange.deadline, leases.next());
    let lease = exchange.client.conn.while_here(waiting).await;
    match lease.ok_or(Ended::Gone)? {
        Ok(Some(lease)) => Ok(lease),
        _ => Err(refused(Refusal::new(503, "no server came free in time"))),
    }
}
