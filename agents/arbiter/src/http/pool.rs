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

/// Maximum idle connections per server.
const IDLE_MAX: usize = 256;
/// Idle sweeps, one a second, after which a connection is closed.
const IDLE_SWEEPS_MAX: u32 = 60;
/// Idle sweeps after which a connection has no buffer.
const BUFFER_SWEEPS: u32 = 2;

/// A server that closes connections after at most this many idle sweeps is hasty.
const HASTY_SWEEPS: u32 = 2;
/// Sweeps for which a server is remembered as hasty.
const HASTY_FOR: u32 = 60;

/// Accepted idle time of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Any.
    Any,
    /// Less than a sweep, and of a server that is not hasty.
    Fresh,
}

/// The idle connections of one thread.
pub struct Pool {
    idle: Vec<Mutex<Vec<Idle>>>,
    /// Notified of each connection that returns.
    returned: Vec<Notify>,
    /// Remaining sweeps for which each server is hasty.
    hasty: Vec<AtomicU32>,
}

struct Idle {
    conn: Conn,
    /// Sweeps since it returned.
    sweeps: u32,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(servers: usize) -> Self {
        Self {
            idle: (0..servers).map(|_| Mutex::default()).collect(),
            returned: (0..servers).map(|_| Notify::new()).collect(),
            hasty: (0..servers).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Takes an open and silent connection.
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

    /// Records that the server closed a fresh connection at its reuse.
    pub fn closed_in_use(&self, server: ServerId) {
        self.hasty[server].store(HASTY_FOR, Relaxed);
    }

    /// Records that an idle connection is unusable.
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

    /// Waits until a connection may have returned; another task may take it first.
    pub async fn returned(&self, server: ServerId) {
        self.returned[server].notified().await;
    }

    /// Closes all connections of a server.
    pub fn clear(&self, server: ServerId) {
        lock(&self.idle[server]).clear();
    }

    /// Closes connections that the servers have closed, and old ones; releases unused buffers of
    /// the others.
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
