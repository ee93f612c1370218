//! A client's open connections to all servers, and who of them is suspected.
//!
//! Strategy 3 makes them anew with the lock held, as in the paper, so a client that loses its server
//! just then waits for it; the time is told as a part of the fail-over. Those that follow the naming
//! service open new connections first, and hold the lock only to put them in.

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
/// Pause after a failure of the naming service, and between two looks at the connections.
const PAUSE: Duration = Duration::from_millis(100);
/// Time-out of a connection in the background; the lock is not held meanwhile.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

const BEAT_EVERY: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A look that is later than this says something of this process, not of the server.
const LOOK_S_MAX: f64 = 0.02;
/// Suspected from here on: a heartbeat this late comes once in 10^8, if gaps are normal.
const PHI_MAX: f64 = 8.0;
/// A gap of the mean and less than about five of these is never suspect: 0.2 s. The kernel stops a
/// group that has used up its share of the processor, as neighbours make it, for the rest of 100 ms,
/// and of the next: at 0.02, which is 0.126 s, clients left a server that lived three times in 15
/// minutes. A frozen machine is noticed within the aim of 0.3 s all the same.
const DEVIATION_S_MIN: f64 = 0.034;

/// The open servers, the best first.
#[derive(Debug, Default)]
pub struct Open {
    servers: Vec<Server>,
    channels: HashMap<Server, Channel>,
    beats: HashMap<Server, tokio::task::AbortHandle>,
}

/// Open connections, shared with the tasks that keep them fresh.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Open>,
    suspects: watch::Sender<HashSet<Server>>,
    with_heartbeats: bool,
}

impl Connections {
    /// Creates an empty set.
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
    pub fn candidates(&self, open: &Open) -> Vec<Server> {
        let suspects = self.suspects.borrow();
        let mut servers: Vec<Server> = open.servers.clone();
        servers.retain(|server| open.channels.contains_key(server));
        servers.sort_by_key(|server| suspects.contains(server));
        servers
    }

    /// Returns once this server is suspected.
    pub async fn suspicion(&self, server: &Server) {
        let mut suspects = self.suspects.subscribe();
        // The sender is ours, and lives as long as we do.
        let _ = suspects.wait_for(|suspects| suspects.contains(server)).await;
    }

    /// Makes them anew every 1.5 s, for ever.
    pub async fn refresh(self: Arc<Self>, naming: Arc<Naming>) {
        loop {
            let mut open = self.open.lock().await;
            // The naming service may be away: then all stays as it is.
            if let Ok((servers, _)) = naming.servers().await {
                let channels = connect_all(open.missing(&servers)).await;
                self.renew(&mut open, servers);
                self.put_in(&mut open, channels);
            }
            drop(open);
            tokio::time::sleep(REFRESH_EVERY).await;
        }
    }

    /// Makes them anew whenever the naming service has changed, for ever.
    pub async fn follow(self: Arc<Self>, naming: Arc<Naming>) {
        loop {
            let followed = async {
                let (servers, revision) = naming.servers().await?;
                // A server that is gone is left at once; a machine that is away must not hold that up.
                self.renew(&mut *self.lock().await, servers.clone());
                tokio::select! {
                    changed = naming.changed(revision) => changed,
                    () = self.open_missing(&servers) => Ok(()),
                }
            };
            if followed.await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Opens what is not open, a connection that broke too, for ever.
    async fn open_missing(self: &Arc<Self>, servers: &[Server]) {
        loop {
            let missing = self.lock().await.missing(servers);
            let channels = connect_all(missing).await;
            self.put_in(&mut *self.lock().await, channels);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The list as the naming service has it; who is gone is open no more.
    fn renew(&self, open: &mut Open, servers: Vec<Server>) {
        let mut departures: HashSet<Server> = open.channels.keys().cloned().collect();
        departures.retain(|server| !servers.contains(server));
        for server in &departures {
            open.forget(server);
        }
        self.suspects.send_modify(|suspects| {
            suspects.retain(|server| servers.contains(server));
            suspects.extend(departures);
        });
        open.servers = servers;
    }

    /// Adds connections that the client has not opened itself meanwhile.
    fn put_in(self: &Arc<Self>, open: &mut Open, opened: Vec<(Server, Channel)>) {
        for (server, channel) in opened {
            if open.channel(&server).is_none() {
                self.keep(open, server, channel);
            }
        }
    }

    /// Replaces an open connection.
    pub fn keep(self: &Arc<Self>, open: &mut Open, server: Server, channel: Channel) {
        if self.with_heartbeats {
            let beats = tokio::spawn(Arc::clone(self).watch_beats(server.clone(), channel.clone()));
            let before = open.beats.insert(server.clone(), beats.abort_handle());
            before.inspect(tokio::task::AbortHandle::abort);
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
            let mut excused_s = 0.0;
            let is_beat = loop {
                let look_s = now_s();
                tokio::select! {
                    biased;
                    came = &mut beat => break came.is_ok(),
                    () = tokio::time::sleep(LOOK_EVERY) => {
                        // A client that was late itself has not read the replies of that time.
                        excused_s += (now_s() - look_s - LOOK_S_MAX).max(0.0);
                        if phi.phi(now_s() - excused_s) > PHI_MAX {
                            self.suspect(&server, true);
                        }
                    }
                }
            };
            if is_beat {
                phi.beat(now_s());
            }
            self.suspect(&server, !is_beat);
            tokio::time::sleep(BEAT_EVERY).await;
        }
    }

    fn suspect(&self, server: &Server, is_suspect: bool) {
        self.suspects.send_if_modified(|suspects| match is_suspect {
            true => suspects.insert(server.clone()),
            false => suspects.remove(server),
        });
    }
}

impl Open {
    /// Returns the servers without a connection.
    fn missing(&self, servers: &[Server]) -> Vec<Server> {
        let mut rest = servers.to_vec();
        rest.retain(|server| !self.channels.contains_key(server));
        rest
    }

    /// The connection to a server.
    pub fn channel(&self, server: &Server) -> Option<Channel> {
        self.channels.get(server).cloned()
    }

    /// Removes a connection.
    pub fn forget(&mut self, server: &Server) {
        self.channels.remove(server);
        if let Some(beats) = self.beats.remove(server) {
            beats.abort();
        }
    }
}

/// Connects to the servers that can be reached, all at the same time.
async fn connect_all(servers: Vec<Server>) -> Vec<(Server, Channel)> {
    let mut opening = JoinSet::new();
    for server in servers {
        opening.spawn(async move {
            let channel = connect(&server, CONNECT_LIMIT).await;
            channel.map(|channel| (server, channel))
        });
    }
    opening.join_all().await.into_iter().flatten().collect()
}

/// A new connection; none where it cannot be opened within the limit.
pub async fn connect(server: &Server, limit: Duration) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).ok()?;
    // The channel connects again by itself when it breaks.
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(limit);
    tokio::time::timeout(limit, endpoint.connect()).await.ok()?.ok()
}
