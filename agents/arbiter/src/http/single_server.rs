//! A client's request to one server: all that are not reads, and reads at r = 1. The reply is streamed.

use bytes::BytesMut;
use tokio::time::Instant;

use super::answer::{After, Client};
use super::body::Body;
use super::direct::{Ended, Exchange};
use super::head::RequestHead;
use super::relay::{pass_on, Sent};
use super::upload::Upload;
use super::{expect, Front};

/// Serves one request, whose body was read as far as it may be held.
pub async fn run(
    front: &Front,
    client: &mut Client,
    request: &RequestHead,
    upload: Upload,
    received: Instant,
) -> After {
    let config = front.tier.config();
    // A client that waits for news is no work, and may wait for long.
    let deadline = match request.streams {
        true => received + config.idle_timeout(),
        false => received + config.request_timeout(),
    };
    let mut exchange =
        Exchange { reply: std::mem::take(&mut client.reply), front, client, request, deadline };
    let result = if request.expects_continue {
        expect::ask(&mut exchange, upload).await
    } else if upload.is_whole() {
        exchange.ask_whole(&upload.held).await
    } else {
        exchange.ask_streaming(upload).await
    };
    pass(exchange, result).await
}

/// Passes the result of the request on.
async fn pass(mut exchange: Exchange<'_>, result: Result<Sent, Ended>) -> After {
    let result = match result {
        Ok(mut sent) => match exchange.final_head(&mut sent).await {
            Ok(()) => Ok(sent),
            Err(ended) => Err(ended),
        },
        ended => ended,
    };
    let Exchange { front, client, request, reply, .. } = exchange;
    match result {
        Ok(sent) => {
            let body = Body::new(reply.framing);
            let begun = (BytesMut::new(), None);
            pass_on(front, client, request, sent, (reply, body), begun).await
        }
        Err(Ended::Gone) => {
            client.reply = reply;
            front.tier.counters.failed.inc();
            After::Abort
        }
        Err(Ended::Refused(refusal, unread_body)) => {
            client.reply = reply;
            client.refuse(front, request, refusal, unread_body).await
        }
    }
}
