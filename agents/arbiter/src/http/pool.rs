//! Idle connections to the servers, the last used first; bounded per server.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use policy::ServerId;
use tokio::sync::Notify;

use crate::conn::Conn;
use crate::lock;

/// Most idle connections per server.
const IDLE_MAX: usize = 256;
/// Idle for longer, a connection is closed.
const IDLE_AGE_MAX: Duration = Duration::from_secs(60);

/// Idle for longer, a connection has no buffer.
const BUFFER_KEPT: Duration = Duration::from_secs(1);

/// See the module.
pub struct Pool {
    idle: Vec<Mutex<Vec<Idle>>>,
    /// Told of each connection that comes back.
    returned: Vec<Notify>,
}

struct Idle {
    conn: Conn,
    generation: u64,
    since: Instant,
}

impl Pool {
    /// An empty pool.
    pub fn new(servers: usize) -> Self {
        Self {
            idle: (0..servers).map(|_| Mutex::default()).collect(),
            returned: (0..servers).map(|_| Notify::new()).collect(),
        }
    }

    /// A connection of this generation that is open and silent.
    pub fn take(&self, server: ServerId, generation: u64) -> Option<Conn> {
        let mut idle = lock(&self.idle[server]);
        while let Some(mut candidate) = idle.pop() {
            if candidate.is_usable(generation) {
                return Some(candidate.conn);
            }
        }
        None
    }

    /// Keeps a connection on which nothing is outstanding.
    pub fn put(&self, server: ServerId, conn: Conn, generation: u64) {
        let mut idle = lock(&self.idle[server]);
        if idle.len() < IDLE_MAX {
            idle.push(Idle {
                conn,
                generation,
                since: Instant::now(),
            });
            drop(idle);
            self.returned[server].notify_one();
        }
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
    pub fn sweep(&self, generation: impl Fn(ServerId) -> u64) {
        for (server, idle) in self.idle.iter().enumerate() {
            let generation = generation(server);
            lock(idle).retain_mut(|idle| {
                if idle.since.elapsed() > BUFFER_KEPT {
                    idle.conn.release_buffer();
                }
                idle.is_usable(generation)
            });
        }
    }
}

impl Idle {
    fn is_usable(&mut self, generation: u64) -> bool {
        let is_young = self.since.elapsed() < IDLE_AGE_MAX;
        is_young && self.generation == generation && self.conn.is_silent()
    }
}
