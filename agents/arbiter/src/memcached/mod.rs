//! The memcached arbiter: text commands and meta commands.
//!
//! Every server holds the whole cache. Reads go to r servers, and the first good reply wins. Writes
//! go to all servers, in the same order, and the client gets the answer of the first living one in
//! the file (the *reference*). A replica may lack a key but must not hold an old value: if a server
//! answers a write differently from the reference, the key is deleted there, and a server that may
//! have missed a write is emptied before it is used again. CAS values belong to one server, so
//! commands with them are decided by the reference alone, and the key is deleted elsewhere.
//!
//! | module | content |
//! |---|---|
//! | `command` | the end and class of a command; refused commands |
//! | `reply` | the end of a server's reply |
//! | `client` | a client's connection |
//! | `miss` | keys that one server lacks and another has |

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

/// Time between two flushes of a server that is back, so that commands on old connections arrive
/// meanwhile.
const SETTLE: Duration = Duration::from_millis(500);

/// Flushes the server, which may have missed writes; true if it succeeded.
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
