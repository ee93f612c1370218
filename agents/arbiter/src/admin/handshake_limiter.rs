//! Handshakes of the admin API, limited in number. With `[admin_tls]` only clients with a
//! certificate of its authority are admitted; others get a refused handshake. Without it, every
//! client is admitted.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Semaphore};
use tokio::time::{sleep, timeout};

use crate::tier::Tier;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Handshakes at a time; further connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 64;
/// After this long without a file descriptor, accepting is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A connection, by TLS or plain.
pub trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}
type Connection = Box<dyn Bytes>;

/// A listener of the connections whose handshake is done.
pub struct HandshakeLimiter {
    /// Those that are let in.
    met: mpsc::Receiver<Connection>,
}

impl HandshakeLimiter {
    /// Lets them in as the tier's keys say, which a reload may change.
    pub fn new(listener: TcpListener, tier: Arc<Tier>) -> Self {
        let (meets, met) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, tier, meets.clone()) => {}
                () = meets.closed() => {}
            }
        });
        Self { met }
    }
}

impl Listener for HandshakeLimiter {
    type Io = Connection;
    type Addr = ();

    async fn accept(&mut self) -> (Connection, ()) {
        match self.met.recv().await {
            Some(stream) => (stream, ()),
            None => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Shakes hands with many at a time: one that is slow holds nobody up.
async fn accept(listener: TcpListener, tier: Arc<Tier>, meets: mpsc::Sender<Connection>) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (tier, meets) = (Arc::clone(&tier), meets.clone());
        tokio::spawn(async move {
            if let Some(stream) = meet(&tier, stream).await {
                // At the end of the arbiter nobody is let in any more.
                let _ = meets.send(stream).await;
            }
            drop(place);
        });
    }
}

async fn meet(tier: &Tier, stream: TcpStream) -> Option<Connection> {
    // A socket that refuses the option still works; without it a reply of two writes is delayed.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = tier.tls.admin() else {
        return Some(Box::new(stream));
    };
    let shaken = timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await;
    Some(Box::new(shaken.ok()?.ok()?))
}
