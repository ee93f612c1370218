//! The HTTP/1.1 arbiter.
//!
//! | module | content |
//! |---|---|
//! | `head` | request and response heads: parsed, checked, rewritten |
//! | `fields` | the meaning of a head's fields, and the ones that are passed on |
//! | `body` | the end of a body: length, chunks, end of connection |
//! | `pool` | idle connections to the servers |
//! | `exchange` | one request sent to one server, up to the reply's head |
//! | `single_server` | one server: the reply is streamed |
//! | `direct` | the exchange with one server, up to the reply's head |
//! | `upload` | a request's body, read before a server is asked for |
//! | `expect` | `Expect: 100-continue`: the server decides about the body |
//! | `target` | the request's target, its host, its `Max-Forwards` |
//! | `race` | r servers: the first complete good reply wins, the losers are drained |
//! | `replica` | one of these replicas, to the end of its reply |
//! | `digest` | the digest of a reply, for the comparison with others |
//! | `relay` | a reply's way to the client |
//! | `waiting` | the part of a reply that its client has not taken yet |
//! | `answer` | the end of an exchange |
//! | `client` | a client's connection: request after request |
//! | `refusal` | the arbiter's own error replies |

mod answer;
pub mod body;
pub mod client;
mod digest;
mod direct;
mod exchange;
mod expect;
mod fields;
pub mod head;
pub mod pool;
mod race;
mod refusal;
mod relay;
mod replica;
mod single_server;
pub mod target;
mod upload;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use crate::tier::Tier;

/// Time between two sweeps of idle connections.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// State that the clients of a thread share.
pub struct Front {
    /// The servers.
    pub tier: Arc<Tier>,
    /// Idle connections to them.
    pub pool: pool::Pool,
}

impl Front {
    /// Creates the front of a tier.
    pub fn new(tier: Arc<Tier>) -> Arc<Self> {
        let pool = pool::Pool::new(tier.servers().len());
        Arc::new(Self { tier, pool })
    }

    /// Closes dead idle connections, and those to servers that are out of use, for ever.
    ///
    /// A server may have as many workers as connections that are kept to it: with its queue full it
    /// takes no other, not even a probe's, until these are closed.
    pub async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            for (server, standing) in self.tier.standings().iter().enumerate() {
                if !standing.alive {
                    self.pool.clear(server);
                }
            }
            self.pool.sweep();
        }
    }
}
