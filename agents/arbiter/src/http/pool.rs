//! Idle connections to the servers, the last used first; bounded per server.
//!
//! A server may close an idle connection at the moment of its next use. A read is then sent once
//! more. Other requests cannot be repeated, so they use only connections that were idle for less
//! than a second, which is well within the time that servers keep connections; and none of a server
//! that closed one sooner.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;

use policy::ServerId;
use tokio::sync::Notify;

use crate::conn::Conn;
use crate::lock;

/// Most idle connections per server.
const IDLE_MAX: usize = 256;
/// Idle for so many sweeps, one a second, a connection is closed.
const IDLE_SWEEPS_MAX: u32 = 60;
/// Idle for so many sweeps, a connection has no buffer.
const BUFFER_SWEEPS: u32 = 2;

/// A server that closes what has been idle for no more sweeps than this is hasty.
const HASTY_SWEEPS: u32 = 2;
/// How many sweeps that is remembered for.
const HASTY_FOR: u32 = 60;

/// How long a connection may have been idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// As long as it is kept.
    Any,
    /// Less than a sweep, and of a server that is not hasty.
    Fresh,
}

/// The idle connections of one thread.
pub struct Pool {
    idle: Vec<Mutex<Vec<Idle>>>,
    /// Told of each connection that comes back.
    returned: Vec<Notify>,
    /// For so many sweeps more each server is known to be hasty.
    hasty: Vec<AtomicU32>,
}

struct Idle {
    conn: Conn,
    /// Since it came back.
    sweeps: u32,
}

impl Pool {
    /// An empty pool.
    pub fn new(servers: usize) -> Self {
        Self {
            idle: (0..servers).map(|_| Mutex::default()).collect(),
            returned: (0..servers).map(|_| Notify::new()).collect(),
            hasty: (0..servers).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// A connection that is open and silent.
    pub fn take(&self, server: ServerId, age: Age) -> Option<Conn> {
        if age == Age::Fresh && self.hasty[server].load(Relaxed) > 0 {
            return None;
        }
        let mut idle = lock(&self.idle[server]);
        let is_wanted = |idle: &Idle| age == Age::Any || idle.sweeps == 0;
        while idle.last().is_some_and(is_wanted) {
            let Some(mut candidate) = idle.pop() else {
                break;
            };
            if candidate.conn.is_silent() {
                return Some(candidate.conn);
            }
            self.closed(server, &candidate);
        }
        None
    }

    /// The server closed a fresh connection just when it was used again.
    pub fn closed_in_use(&self, server: ServerId) {
        self.hasty[server].store(HASTY_FOR, Relaxed);
    }

    /// An idle connection is of no more use.
    fn closed(&self, server: ServerId, idle: &Idle) {
        if idle.sweeps <= HASTY_SWEEPS {
            self.hasty[server].store(HASTY_FOR, Relaxed);
        }
    }

    /// Keeps a connection on which nothing is outstanding.
    pub fn put(&self, server: ServerId, conn: Conn) {
        let mut idle = lock(&self.idle[server]);
        if idle.len() >= IDLE_MAX {
            // The oldest goes: others may be too old for what is no read.
            idle.remove(0);
        }
        idle.push(Idle { conn, sweeps: 0 });
        drop(idle);
        self.returned[server].notify_one();
    }

    /// Ready when a connection may be there to be taken; another may be faster.
    pub async fn returned(&self, server: ServerId) {
        self.returned[server].notified().await;
    }

    /// Closes all of a server's.
    pub fn clear(&self, server: ServerId) {
        lock(&self.idle[server]).clear();
    }

    /// Closes those that the servers have closed, and the old ones; the others give back the
    /// buffers that they have not needed for a while.
    pub fn sweep(&self) {
        for (server, idle) in self.idle.iter().enumerate() {
            let hasty = self.hasty[server].load(Relaxed);
            self.hasty[server].store(hasty.saturating_sub(1), Relaxed);
            lock(idle).retain_mut(|idle| {
                idle.sweeps += 1;
                if idle.sweeps >= BUFFER_SWEEPS {
                    idle.conn.release_buffer();
                }
                let is_usable = idle.conn.is_silent();
                if !is_usable {
                    self.closed(server, idle);
                }
                idle.sweeps <= IDLE_SWEEPS_MAX && is_usable
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn what_is_fresh_has_room_where_the_old_fill_the_pool() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pool = Pool::new(1);
        let mut held = vec![];
        for _ in 0..=IDLE_MAX {
            let stream = TcpStream::connect(address).await.unwrap();
            held.push(listener.accept().await.unwrap());
            if held.len() > IDLE_MAX {
                pool.sweep();
                assert!(pool.take(0, Age::Fresh).is_none(), "all are old");
            }
            pool.put(0, Conn::new(stream));
        }
        assert!(pool.take(0, Age::Fresh).is_some());
        assert!(pool.take(0, Age::Fresh).is_none());
        for _ in 1..IDLE_MAX {
            assert!(pool.take(0, Age::Any).is_some());
        }
        assert!(pool.take(0, Age::Any).is_none());
    }
}
