//! Listening, accepting, stopping.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch, Semaphore};
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::tier::Tier;
use crate::{admin, health, http, mysql};

/// Most client connections at a time; further ones wait in the kernel's queue.
const CLIENTS_MAX: usize = 20_000;
/// After this long without a file descriptor or memory for it, accepting is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An arbiter whose ports are bound.
pub struct Arbiter {
    config: Config,
    clients: TcpListener,
    admin: TcpListener,
}

impl Arbiter {
    /// Binds both ports.
    ///
    /// # Errors
    /// When a port is taken or not ours.
    pub async fn bind(config: Config) -> Result<Self> {
        let clients = listen(config.listen, "listen").await?;
        let admin = listen(config.admin, "admin").await?;
        Ok(Self {
            config,
            clients,
            admin,
        })
    }

    /// Where clients connect.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn client_address(&self) -> Result<SocketAddr> {
        Ok(self.clients.local_addr()?)
    }

    /// Where the admin API is.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn admin_address(&self) -> Result<SocketAddr> {
        Ok(self.admin.local_addr()?)
    }

    /// Serves until `stop`, then lets requests under way finish, for at most a request's time-out.
    ///
    /// # Errors
    /// When the admin listener breaks.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let grace = self.config.request_timeout();
        let (tier, downs) = Tier::new(self.config);
        let (stopping, stopped) = watch::channel(false);
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        let mut until = stopped.clone();
        let admin = tokio::spawn(admin::serve(self.admin, Arc::clone(&tier), async move {
            // An error means that the sender is gone, which is a stop as well.
            let _ = until.changed().await;
        }));
        let front = Front::new(&tier, downs);
        tokio::select! {
            () = accept(self.clients, &tier, front, stopped, alive) => {}
            () = stop => {}
        }
        stopping.send_replace(true);
        // Ends when the last client's task has dropped its sender.
        let _ = timeout(grace, all_gone.recv()).await;
        admin.abort();
        match admin.await {
            Ok(served) => served.context("the admin API broke"),
            Err(_) => Ok(()),
        }
    }
}

async fn listen(address: SocketAddr, key: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener
        .with_context(|| format!("{key} = \"{address}\": cannot listen there; is the port taken?"))
}

/// The protocol's own shared state.
#[derive(Clone)]
enum Front {
    Http(Arc<http::Front>),
    Mysql(Arc<mysql::hub::Hub>),
}

impl Front {
    /// Also starts what keeps it going: probes of dead servers, the sweeping of idle connections.
    fn new(tier: &Arc<Tier>, downs: mpsc::UnboundedReceiver<policy::ServerId>) -> Self {
        let front = match tier.config().mysql.clone() {
            None => Self::Http(http::Front::new(Arc::clone(tier))),
            Some(account) => Self::Mysql(mysql::hub::Hub::new(Arc::clone(tier), account)),
        };
        let prober = front.clone();
        let probe = move |server| {
            let prober = prober.clone();
            async move {
                match prober {
                    Self::Http(front) => front.probe(server).await,
                    Self::Mysql(hub) => hub.probe(server).await,
                }
            }
        };
        tokio::spawn(health::run(Arc::clone(tier), downs, probe));
        match front.clone() {
            Self::Http(front) => tokio::spawn(front.sweep()),
            Self::Mysql(hub) => tokio::spawn(hub.sweep()),
        };
        front
    }

    async fn serve(self, stream: TcpStream, stop: watch::Receiver<bool>) {
        match self {
            Self::Http(front) => http::client::serve(front, stream, stop).await,
            // A session has no end that the arbiter could choose: it goes on until the client
            // quits.
            Self::Mysql(hub) => mysql::client::serve(hub, stream).await,
        }
    }
}

/// Accepts clients for ever.
async fn accept(
    listener: TcpListener,
    tier: &Arc<Tier>,
    front: Front,
    stop: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (tier, front) = (Arc::clone(tier), front.clone());
        let (stop, alive) = (stop.clone(), alive.clone());
        tokio::spawn(async move {
            tier.counters.client_accepted.inc();
            tier.counters.client_open.inc();
            front.serve(stream, stop).await;
            tier.counters.client_open.dec();
            drop((place, alive));
        });
    }
}
