//! The memcached arbiter: text commands and meta commands.
//!
//! The tier is one cache that every server holds as a whole. Reads go to r servers, the first good
//! reply wins; writes go to all servers, in the same order, and the client gets the answer of the
//! first one in the file that is alive (the *reference*). A replica may miss a key but must not hold
//! an old value: where a server answers a write otherwise than the reference, the key is deleted
//! there, and a server that may have missed a write is emptied before it is used again. CAS values
//! are of one server, so that what deals in them is decided by the reference alone, and deleted
//! elsewhere.
//!
//! | module | what |
//! |---|---|
//! | `command` | where a command ends, what it is, what is refused |
//! | `reply` | where a server's reply ends |
//! | `client` | a client's connection |
//! | `miss` | what one server lacks and another has |

pub mod client;
pub mod command;
mod miss;
pub mod reply;

use std::time::Duration;

use policy::ServerId;
use tokio::time::{sleep, timeout};

use crate::conn::Conn;
use crate::kv;

/// State that all clients share.
pub type Front = kv::front::Front<reply::Replies>;

/// Between two emptyings of a server that is back: what was still on its way to it on an old
/// connection arrives meanwhile.
const SETTLE: Duration = Duration::from_millis(500);

/// Empties the server; true when it is empty. It may have missed writes while it was away.
pub async fn probe(front: &Front, server: ServerId) -> bool {
    let limit = front.tier.config().connect_timeout();
    let emptied = async {
        let stream = front.tier.dial(server).await;
        let mut conn = Conn::new(stream.ok()?);
        empty(&mut conn, limit).await?;
        sleep(SETTLE).await;
        empty(&mut conn, limit).await
    };
    matches!(timeout(3 * limit + SETTLE, emptied).await, Ok(Some(())))
}

async fn empty(conn: &mut Conn, limit: Duration) -> Option<()> {
    const DONE: &[u8] = b"OK\r\n";
    conn.write(b"flush_all\r\n", limit).await.ok()?;
    while conn.buffer.len() < DONE.len() {
        if conn.fill().await.ok()? == 0 {
            return None;
        }
    }
    (conn.buffer.split() == DONE).then_some(())
}
