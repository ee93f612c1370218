//! A client's open connections to all servers, and who of them is suspected.
//!
//! Whoever makes them anew holds the lock meanwhile, as in the paper, so a client that loses its
//! server just then waits for it; the time is told as a part of the fail-over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{watch, Mutex, MutexGuard};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::api::lots_client::LotsClient;
use crate::api::Nothing;
use crate::core::phi::Phi;
use crate::core::Server;
use crate::naming::Naming;
use crate::now_s;

/// The paper's background refresh.
const REFRESH_EVERY: Duration = Duration::from_millis(1500);
/// After the naming service did not answer.
const PAUSE: Duration = Duration::from_millis(100);
/// For a connection in the background: a machine that is gone is not waited for with the lock held.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

const BEAT_EVERY: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Suspected from here on: a heartbeat this late comes once in 10^8, if gaps are normal.
const PHI_MAX: f64 = 8.0;
/// A busy processor delays heartbeats; a gap of less than about six of these is never suspect.
const DEVIATION_S_MIN: f64 = 0.02;

/// Who is open, the best first.
#[derive(Debug, Default)]
pub struct Open {
    servers: Vec<Server>,
    channels: HashMap<Server, Channel>,
    beats: HashMap<Server, tokio::task::AbortHandle>,
}

/// Connections that are shared with what keeps them fresh.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Open>,
    suspects: watch::Sender<HashSet<Server>>,
    with_heartbeats: bool,
}

impl Connections {
    /// None yet.
    #[must_use]
    pub fn new(with_heartbeats: bool) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            suspects: watch::Sender::new(HashSet::new()),
            with_heartbeats,
        })
    }

    /// The lock.
    pub async fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().await
    }

    /// The open connections in the order of the list; suspects come last.
    #[must_use]
    pub fn candidates(&self, open: &Open) -> Vec<Server> {
        let suspects = self.suspects.borrow();
        let mut found: Vec<Server> = open.servers.clone();
        found.retain(|one| open.channels.contains_key(one));
        found.sort_by_key(|one| suspects.contains(one));
        found
    }

    /// Returns once this server is suspected.
    pub async fn suspected(&self, server: &Server) {
        let mut suspects = self.suspects.subscribe();
        // The sender is ours, and lives as long as we do.
        let _ = suspects.wait_for(|found| found.contains(server)).await;
    }

    /// Makes them anew every 1.5 s, for ever.
    pub async fn refresh(self: Arc<Self>, naming: Arc<Naming>) {
        loop {
            // The naming service may be away: then all stays as it is.
            let _ = self.renew(&naming).await;
            tokio::time::sleep(REFRESH_EVERY).await;
        }
    }

    /// Makes them anew whenever the naming service has changed, for ever.
    pub async fn follow(self: Arc<Self>, naming: Arc<Naming>) {
        loop {
            let followed = async {
                let revision = self.renew(&naming).await?;
                naming.changed(revision).await
            };
            if followed.await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The list as the naming service has it, and a connection to each; its revision.
    async fn renew(self: &Arc<Self>, naming: &Naming) -> Result<i64, tonic::Status> {
        let mut open = self.open.lock().await;
        let (servers, revision) = naming.servers().await?;
        let mut gone: HashSet<Server> = open.channels.keys().cloned().collect();
        gone.retain(|one| !servers.contains(one));
        for server in &gone {
            open.forget(server);
        }
        self.suspects.send_modify(|found| {
            found.retain(|one| servers.contains(one));
            found.extend(gone);
        });
        let mut opening = JoinSet::new();
        for server in servers
            .iter()
            .filter(|one| !open.channels.contains_key(one))
        {
            let server = server.clone();
            opening.spawn(async move { (connect(&server, CONNECT_LIMIT).await, server) });
        }
        while let Some(Ok((channel, server))) = opening.join_next().await {
            if let Some(channel) = channel {
                self.keep(&mut open, server, channel);
            }
        }
        open.servers = servers;
        Ok(revision)
    }

    /// Has another open connection.
    pub fn keep(self: &Arc<Self>, open: &mut Open, server: Server, channel: Channel) {
        if self.with_heartbeats {
            let beats = tokio::spawn(Arc::clone(self).watch_beats(server.clone(), channel.clone()));
            open.beats.insert(server.clone(), beats.abort_handle());
        }
        if !open.servers.contains(&server) {
            open.servers.push(server.clone());
        }
        open.channels.insert(server, channel);
    }

    /// Sends heartbeats on the connection, and suspects the server by when they come back.
    async fn watch_beats(self: Arc<Self>, server: Server, channel: Channel) {
        let mut client = LotsClient::new(channel);
        let mut phi = Phi::new(DEVIATION_S_MIN);
        loop {
            let beat = client.beat(Nothing::default());
            tokio::pin!(beat);
            let came = loop {
                tokio::select! {
                    came = &mut beat => break came.is_ok(),
                    () = tokio::time::sleep(LOOK_EVERY) => {
                        if phi.phi(now_s()) > PHI_MAX {
                            self.suspect(&server, true);
                        }
                    }
                }
            };
            if came {
                phi.beat(now_s());
                self.suspect(&server, false);
            } else {
                self.suspect(&server, true);
            }
            tokio::time::sleep(BEAT_EVERY).await;
        }
    }

    fn suspect(&self, server: &Server, is_suspect: bool) {
        self.suspects.send_if_modified(|found| match is_suspect {
            true => found.insert(server.clone()),
            false => found.remove(server),
        });
    }
}

impl Open {
    /// The connection to a server.
    #[must_use]
    pub fn channel(&self, server: &Server) -> Option<Channel> {
        self.channels.get(server).cloned()
    }

    /// It is not to be used any more.
    pub fn forget(&mut self, server: &Server) {
        self.channels.remove(server);
        if let Some(beats) = self.beats.remove(server) {
            beats.abort();
        }
    }
}

/// A new connection; none where it cannot be opened within the limit.
pub async fn connect(server: &Server, limit: Duration) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).ok()?;
    let endpoint = endpoint.tcp_nodelay(true);
    tokio::time::timeout(limit, endpoint.connect())
        .await
        .ok()?
        .ok()
}
