//! A client with a connection of its own to the primary: bytes pass through as they are, until one
//! of the two closes. So transactions, blocking commands, subscriptions and pushes are Redis' own.

use std::io;

use bytes::BytesMut;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::time::timeout;

use super::reply::Replies;
use super::{Front, PRIMARY};
use crate::conn::Conn;
use crate::kv::socket::Socket;
use crate::kv::Dialect;

const COPY_SIZE: usize = 16 * 1024;

/// What the client's own connection has to be told first.
#[derive(Debug, Default)]
pub struct Manners {
    /// It speaks RESP3.
    pub resp3: bool,
    /// Its name.
    pub name: Option<Vec<u8>>,
}

/// Serves the client to its end. The command that pinned it is in its buffer.
pub async fn serve(front: &Front, mut client: Socket, manners: Manners) {
    let counters = &front.tier.counters;
    counters.received.inc();
    let limit = front.tier.config().request_timeout();
    let Ok(mut server) = reach(front, &manners).await else {
        counters.failed.inc();
        // The client may be gone; there is nobody else to tell.
        let _ = client
            .write(b"-ERR arbiter: the primary could not be reached\r\n", limit)
            .await;
        return client.linger().await;
    };
    counters.answered.inc();
    if server.write(&client.buffer, limit).await.is_err() {
        return;
    }
    client.buffer = BytesMut::new();
    let mut server = server.into_stream();
    // An error is an end as well; both connections close then.
    let _ =
        copy_bidirectional_with_sizes(&mut client.stream, &mut server, COPY_SIZE, COPY_SIZE).await;
}

async fn reach(front: &Front, manners: &Manners) -> io::Result<Conn> {
    let config = front.tier.config();
    let stream = front.tier.connect(PRIMARY).await;
    let mut conn = Conn::new(stream.ok_or(io::ErrorKind::ConnectionRefused)?);
    let greet = async {
        if manners.resp3 {
            tell(&mut conn, Replies::greeting(1), config.request_timeout()).await?;
        }
        if let Some(name) = &manners.name {
            let mut command = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$".to_vec();
            command.extend_from_slice(format!("{}\r\n", name.len()).as_bytes());
            command.extend_from_slice(name);
            command.extend_from_slice(b"\r\n");
            tell(&mut conn, &command, config.request_timeout()).await?;
        }
        io::Result::Ok(())
    };
    match timeout(config.request_timeout(), greet).await {
        Ok(Ok(())) => Ok(conn),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a command of the arbiter's own and takes its reply away; an error there is the server's
/// business with the client (a password is wanted, say), who hears it again.
async fn tell(conn: &mut Conn, command: &[u8], limit: std::time::Duration) -> io::Result<()> {
    conn.write(command, limit).await?;
    let mut replies = Replies::default();
    loop {
        let followed = replies.follow(&conn.buffer);
        let followed = followed.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let _ = conn.buffer.split_to(followed.used);
        if followed.reply.is_some() {
            return Ok(());
        }
        if conn.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
