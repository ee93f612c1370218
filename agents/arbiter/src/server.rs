//! Listening, accepting, stopping.
//!
//! Each thread has a `current_thread` runtime, a listener on the shared port (SO_REUSEPORT) and its
//! own server connections; the tier is one for all, so that every choice sees every request.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch, Semaphore};
use tokio::time::{sleep, timeout};
use wire::arbiter::Protocol;

use crate::config::{Config, Mysql};
use crate::tier::{Down, Tier};
use crate::traced::Trace;
use crate::{admin, health, http, listen, memcached, mysql, resp, roles, stream, tcp};

/// Maximum client connections; further ones wait in the kernel's queue.
const CLIENTS_MAX: usize = 20_000;
/// Descriptors for neither clients nor servers: listeners, admin API, files.
const DESCRIPTORS_OWN: usize = 64;
/// Share of the other descriptors for servers, one in this number, where connections to them are
/// shared.
const SERVERS_SHARE: usize = 8;
/// Pause of accepting after a lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An arbiter whose ports are bound.
pub struct Arbiter {
    tier: Arc<Tier>,
    /// Servers that die.
    downs: mpsc::UnboundedReceiver<Down>,
    /// One per thread, all at the same address; the kernel distributes connections.
    clients: Vec<TcpListener>,
    admin: TcpListener,
    admin_acceptor: Option<mtls::TlsAcceptor>,
    clients_max: usize,
}

/// Clients that may be connected, so that descriptors remain for servers.
fn clients_max(config: &Config, descriptors: usize) -> usize {
    let free = descriptors.saturating_sub(DESCRIPTORS_OWN.min(descriptors / 2));
    let clients = match config.protocol {
        // Each has its own.
        Protocol::Tcp => free / 2,
        Protocol::Mysql => free / (1 + config.replicas),
        Protocol::Http | Protocol::Redis | Protocol::Memcached => free - free / SERVERS_SHARE,
    };
    clients.clamp(1, CLIENTS_MAX)
}

impl Arbiter {
    /// Binds both ports.
    ///
    /// # Errors
    /// When a port is taken or not ours, or the trace cannot be written.
    pub async fn bind(config: Config) -> Result<Self> {
        let clients = listen::for_clients(config.listen, config.threads)?;
        let admin = listen::port(config.admin, "admin", false)?;
        let trace = begin_trace(&config)?;
        let admin_acceptor = config.admin_acceptor()?;
        let (tier, downs) = Tier::new(config, trace);
        Ok(Self { clients_max: CLIENTS_MAX, tier, downs, clients, admin, admin_acceptor })
    }

    /// Reserves descriptors for connections to servers, of this total.
    pub fn within_descriptors(mut self, descriptors: usize) -> Self {
        self.clients_max = clients_max(self.tier.config(), descriptors);
        self
    }

    /// The address for clients.
    pub fn client_address(&self) -> Result<SocketAddr> {
        Ok(self.clients[0].local_addr()?)
    }

    /// The address of the admin API.
    pub fn admin_address(&self) -> Result<SocketAddr> {
        Ok(self.admin.local_addr()?)
    }

    /// Serves until `stop`, then lets requests under way finish, for at most the request time-out.
    /// The caller's runtime serves the first thread and the admin API.
    ///
    /// # Errors
    /// When a thread cannot be started, or panics.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let (tier, downs) = (self.tier, self.downs);
        let shared = Shared::new(&tier);
        let (stopping, stopped) = watch::channel(false);
        let routes = admin::router(Arc::clone(&tier));
        let admin = tokio::spawn(mtls::serve(self.admin, self.admin_acceptor, routes));
        let acceptor =
            Acceptor { tier, shared, places: Arc::new(Semaphore::new(self.clients_max)), stopped };
        let mut listeners = self.clients.into_iter();
        let own = listeners.next().context("an arbiter without a listener")?;
        let threads = listeners
            .enumerate()
            .map(|(number, listener)| acceptor.clone().open_thread(number + 2, listener))
            .collect::<Result<Vec<_>>>();
        let tier_of_trace = Arc::clone(&acceptor.tier);
        let front = Front::new(&acceptor.tier, &acceptor.shared);
        front.probe_dead(&acceptor.tier, downs);
        let started = threads.is_ok();
        tokio::join!(acceptor.open(own, front), async {
            if started {
                stop.await;
            }
            stopping.send_replace(true);
        });
        let joined = tokio::task::spawn_blocking(|| join(threads?)).await?;
        tier_of_trace.end_trace();
        admin.abort();
        joined
    }
}

fn begin_trace(config: &Config) -> Result<Option<Trace>> {
    let Some(path) = &config.trace else {
        return Ok(None);
    };
    let trace = Trace::create(path, config.trace_lines_max)
        .with_context(|| format!("trace = {path:?}: cannot be written"))?;
    Ok(Some(trace))
}

fn join(threads: Vec<JoinHandle<()>>) -> Result<()> {
    for thread in threads {
        if thread.join().is_err() {
            bail!("a thread of the arbiter panicked");
        }
    }
    Ok(())
}

/// Creates a single-threaded runtime, driven by its `block_on`.
pub fn thread_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// State for accepting clients in every thread.
#[derive(Clone)]
struct Acceptor {
    tier: Arc<Tier>,
    shared: Shared,
    /// Places of all threads together.
    places: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Acceptor {
    /// Starts a thread with its own runtime that accepts on `listener`.
    fn open_thread(self, number: usize, listener: TcpListener) -> Result<JoinHandle<()>> {
        // A socket belongs to the runtime that it was registered with.
        let listener = listener.into_std()?;
        let runtime = thread_runtime().context("cannot start a runtime")?;
        let serve = move || {
            runtime.block_on(async {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let front = Front::new(&self.tier, &self.shared);
                        self.open(listener, front).await;
                    }
                    Err(error) => tracing::error!("thread {number} cannot listen: {error}"),
                }
            });
        };
        std::thread::Builder::new()
            .name(format!("arbiter-{number}"))
            .spawn(serve)
            .context("cannot start a thread")
    }

    /// Serves clients until the stop; then the present ones, for at most the request time-out.
    async fn open(self, listener: TcpListener, front: Front) {
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = self.accept(&listener, front, alive) => {}
            // An error means that the sender is gone, which is a stop as well.
            _ = stopped.changed() => {}
        }
        drop(listener);
        // Ends when the last client's task has dropped its sender.
        let _ = timeout(self.tier.config().request_timeout(), all_gone.recv()).await;
    }

    /// Accepts clients for ever.
    async fn accept(&self, listener: &TcpListener, front: Front, alive: mpsc::Sender<()>) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream::without_delay(stream),
                Err(_) => {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (tier, front) = (Arc::clone(&self.tier), front.clone());
            let (stopped, alive) = (self.stopped.clone(), alive.clone());
            tokio::spawn(async move {
                tier.counters.client_accepted.inc();
                tier.meter.connection(tier.now());
                tier.counters.client_open.inc();
                front.serve(stream, stopped).await;
                tier.counters.client_open.dec();
                drop((place, alive));
            });
        }
    }
}

/// The protocol, with the state that all threads share.
#[derive(Clone)]
enum Shared {
    Http,
    Mysql(Mysql),
    Redis(Arc<resp::State>),
    Memcached,
    Tcp,
}

impl Shared {
    /// Creates it by the configuration, and starts its background tasks.
    fn new(tier: &Arc<Tier>) -> Self {
        let config = tier.config();
        match (config.protocol, &config.mysql) {
            (Protocol::Redis, _) => {
                let state = resp::State::new(config);
                state.watch(tier);
                Self::Redis(state)
            }
            (Protocol::Memcached, _) => Self::Memcached,
            (Protocol::Tcp, _) => Self::Tcp,
            (_, None) => Self::Http,
            (_, Some(account)) => {
                if tier.primary.is_detected() {
                    let tier = Arc::clone(tier);
                    let pool = mysql::server_pool::ServerPool::new(tier, account.clone());
                    roles::watch_all(&pool);
                }
                Self::Mysql(account.clone())
            }
        }
    }
}

/// The protocol's state of one thread.
#[derive(Clone)]
enum Front {
    Http(Arc<http::Front>),
    Mysql(Arc<mysql::server_pool::ServerPool>),
    Redis(Arc<resp::Front>),
    Memcached(Arc<memcached::Front>),
    Tcp(Arc<Tier>),
}

impl Front {
    /// Creates it, and starts the sweeping of its idle connections.
    fn new(tier: &Arc<Tier>, shared: &Shared) -> Self {
        let tier = Arc::clone(tier);
        match shared {
            Shared::Redis(state) => Self::Redis(resp::Front::new(tier, Arc::clone(state))),
            Shared::Memcached => Self::Memcached(memcached::Front::new(tier, Arc::new(()))),
            Shared::Tcp => Self::Tcp(tier),
            Shared::Http => {
                let front = http::Front::new(tier);
                tokio::spawn(Arc::clone(&front).sweep());
                Self::Http(front)
            }
            Shared::Mysql(account) => {
                let pool = mysql::server_pool::ServerPool::new(tier, account.clone());
                tokio::spawn(Arc::clone(&pool).sweep());
                Self::Mysql(pool)
            }
        }
    }

    /// Probes dead servers for all threads until they are back, and checks living ones.
    fn probe_dead(&self, tier: &Arc<Tier>, downs: mpsc::UnboundedReceiver<Down>) {
        let prober = self.clone();
        let probe = move |server| {
            let prober = prober.clone();
            async move {
                match prober {
                    Self::Http(front) => front.tier.is_reachable(server).await,
                    Self::Tcp(tier) => tier.is_reachable(server).await,
                    Self::Mysql(pool) => pool.probe(server).await,
                    Self::Redis(front) => resp::probe(&front, server).await,
                    Self::Memcached(front) => memcached::probe(&front, server).await,
                }
            }
        };
        tokio::spawn(health::watch(Arc::clone(tier), probe.clone()));
        tokio::spawn(health::run(Arc::clone(tier), downs, probe));
    }

    async fn serve(self, stream: TcpStream, stop: watch::Receiver<bool>) {
        match self {
            Self::Http(front) => http::client::serve(front, stream, stop).await,
            // A session has no end that the arbiter could choose: it goes on until the client
            // quits.
            Self::Mysql(pool) => mysql::client::serve(pool, stream).await,
            Self::Redis(front) => resp::client::serve(front, stream, stop).await,
            Self::Memcached(front) => memcached::client::serve(front, stream, stop).await,
            Self::Tcp(tier) => tcp::serve(tier, stream).await,
        }
    }
}
