//! Idle connections to the servers, the last used first; bounded per server.

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

/// The idle connections of one thread.
pub struct Pool {
    idle: Vec<Mutex<Vec<Idle>>>,
    /// Told of each connection that comes back.
    returned: Vec<Notify>,
}

struct Idle {
    conn: Conn,
    generation: u64,
    /// Since it came back.
    sweeps: u32,
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
                sweeps: 0,
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
                idle.sweeps += 1;
                if idle.sweeps >= BUFFER_SWEEPS {
                    idle.conn.release_buffer();
                }
                idle.sweeps <= IDLE_SWEEPS_MAX && idle.is_usable(generation)
            });
        }
    }
}

impl Idle {
    fn is_usable(&mut self, generation: u64) -> bool {
        self.generation == generation && self.conn.is_silent()
    }
}
