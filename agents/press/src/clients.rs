//! Clients: one request at a time on each connection. A node that takes no requests, or has its
//! maximum of clients, does not answer at all: new clients wait in the kernel's queue, and when
//! that is full their calls are not answered (Broadwell 2004, section 4.1). The third configuration
//! answers 503 instead.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::core::message::Key;
use crate::core::node::{Answer, Source};
use crate::engine::{Engine, Response};
use crate::http::{media_type, next, Reply, Request};

/// Clients that wait in the kernel: few, so that others learn soon that the node is busy.
pub const BACKLOG: u32 = 128;

/// Time-out of a connection without a request, or with half of one.
const IDLE: Duration = Duration::from_secs(60);
/// Pause after an error of the system, such as too many open files.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Lets clients in, for ever.
pub async fn listen(engine: Rc<Engine>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(engine.config.connections));
    loop {
        if !engine.sheds() {
            engine.room().await;
        }
        let place = match engine.sheds() {
            true => Arc::clone(&places).try_acquire_owned().ok(),
            false => Arc::clone(&places).acquire_owned().await.ok(),
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let engine = Rc::clone(&engine);
                spawn_local(async move {
                    let _ = stream.set_nodelay(true); // it only makes replies quicker
                    match &place {
                        Some(_) => serve(&engine, stream).await,
                        None => refuse(stream).await,
                    }
                });
            }
            Err(error) => {
                tracing::error!("a client could not be let in: {error}");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

async fn refuse(mut stream: TcpStream) {
    let mut bytes = BytesMut::new();
    // A connection that is closed with a request unread is reset, and the answer lost.
    let request = timeout(IDLE, next(&mut stream, &mut bytes)).await;
    if let Ok(Ok(Some(_))) = request {
        let _ = timeout(IDLE, busy().write(&mut stream, false, false)).await;
    }
}

async fn serve(engine: &Rc<Engine>, mut stream: TcpStream) {
    let mut bytes = BytesMut::with_capacity(1 << 10);
    loop {
        let Ok(request) = timeout(IDLE, next(&mut stream, &mut bytes)).await else {
            return;
        };
        let (reply, is_head, is_kept) = match request {
            Ok(None) => return,
            Ok(Some(request)) => {
                let Some(reply) = answer(engine, &request, &stream).await else {
                    return;
                };
                (reply, request.is_head, request.is_kept)
            }
            Err(refusal) => {
                let (status, text) = refusal.status();
                (Reply::text(status, text), false, false)
            }
        };
        let result = timeout(IDLE, reply.write(&mut stream, is_head, is_kept)).await;
        if !is_kept || !matches!(result, Ok(Ok(()))) {
            return;
        }
    }
}

/// Returns the reply; none when the client has gone.
async fn answer(engine: &Rc<Engine>, request: &Request, stream: &TcpStream) -> Option<Reply> {
    let Some(key) = request.key() else {
        return Some(missing());
    };
    if !engine.is_ready() {
        if engine.sheds() {
            return Some(busy());
        }
        tokio::select! {
            () = engine.room() => {}
            () = hang_up(stream) => return None,
        }
    }
    let answer = match engine.request(&key) {
        Response::Now(answer) => answer,
        Response::Later(ticket, answer) => tokio::select! {
            answer = answer => answer.ok()?,
            () = hang_up(stream) => {
                engine.withdraw(ticket, &key);
                return None;
            }
        },
    };
    Some(reply(&key, answer))
}

/// Waits until the client has gone; for ever if it has sent its next request already.
async fn hang_up(stream: &TcpStream) {
    match stream.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

fn reply(key: &Key, answer: Answer) -> Reply {
    match answer {
        Answer::Page(page, source) => Reply {
            status: "200 OK",
            media_type: media_type(key),
            fields: match source {
                Source::Local => "X-Press-Source: local\r\n",
                Source::Peer => "X-Press-Source: peer\r\n",
                Source::Disk => "X-Press-Source: disk\r\n",
            },
            body: page.body,
        },
        Answer::Missing => missing(),
        Answer::Failed => {
            let text =
                Bytes::from_static(b"the file could not be read; the server's log says why\n");
            Reply::text("500 Internal Server Error", text)
        }
    }
}

fn missing() -> Reply {
    Reply::text("404 Not Found", "no such page\n")
}

fn busy() -> Reply {
    Reply::text("503 Service Unavailable", "busy: try again later\n")
}
