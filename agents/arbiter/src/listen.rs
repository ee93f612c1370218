//! Listeners for clients: a port, shared by all threads, or a unix socket.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use wire::arbiter::Address;

use crate::stream::Stream;

/// Connections that the kernel keeps until they are accepted (cut to its own limit).
const BACKLOG: u32 = 4096;

/// A listener of the thread whose runtime it is registered with.
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// On a unix socket.
    Unix(UnixListener),
}

/// A listener on its way to another thread.
pub enum Parked {
    /// On a port.
    Tcp(std::net::TcpListener),
    /// On a unix socket.
    Unix(StdUnixListener),
}

impl Listener {
    /// The next client.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Ok(Stream::tcp(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn address(&self) -> Result<Address> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.into()),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().context("a socket without a path")?;
                Ok(Address::Unix(path.display().to_string()))
            }
        }
    }

    /// Takes it out of this thread's runtime.
    ///
    /// # Errors
    /// Those of the system.
    pub fn park(self) -> Result<Parked> {
        Ok(match self {
            Self::Tcp(listener) => Parked::Tcp(listener.into_std()?),
            Self::Unix(listener) => Parked::Unix(listener.into_std()?),
        })
    }
}

impl Parked {
    /// Registers it with this thread's runtime.
    ///
    /// # Errors
    /// Those of the system.
    pub fn unpark(self) -> io::Result<Listener> {
        Ok(match self {
            Self::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener)?),
            Self::Unix(listener) => Listener::Unix(UnixListener::from_std(listener)?),
        })
    }
}

/// The file of a unix socket, removed when dropped.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it, or put another in its place, which then goes too.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One listener per thread, all at one address, and the file of the socket if there is one.
///
/// # Errors
/// When it is taken, or not ours.
pub fn for_clients(
    address: &Address,
    threads: usize,
) -> Result<(Vec<Listener>, Option<SocketFile>)> {
    match address {
        Address::Ip(address) => {
            let listeners = on_port(*address, threads)?;
            Ok((listeners.into_iter().map(Listener::Tcp).collect(), None))
        }
        Address::Unix(path) => {
            let (listeners, file) = on_path(Path::new(path), threads)
                .with_context(|| format!("listen = \"unix:{path}\": cannot listen there"))?;
            Ok((listeners, Some(file)))
        }
        Address::Name { .. } => bail!("listen = \"{address}\": expected IP:PORT or unix:/PATH"),
    }
}

fn on_port(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>> {
    if threads == 1 {
        return Ok(vec![port(address, "listen", false)?]);
    }
    // Sharing a port would also share it with another arbiter: that one is noticed here.
    drop(port(address, "listen", false)?);
    let first = port(address, "listen", true)?;
    let address = first.local_addr()?;
    let others = (1..threads).map(|_| port(address, "listen", true));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Listens on a port; `key` is for messages.
///
/// # Errors
/// When it is taken, or not ours.
pub fn port(address: SocketAddr, key: &str, is_shared: bool) -> Result<TcpListener> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(is_shared)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound()
        .with_context(|| format!("{key} = \"{address}\": cannot listen there; is the port taken?"))
}

/// All threads accept on the same socket. What an arbiter that was killed has left is taken away.
fn on_path(path: &Path, threads: usize) -> Result<(Vec<Listener>, SocketFile)> {
    let is_left_over = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    match StdUnixStream::connect(path) {
        Ok(_) => bail!("somebody listens there already"),
        Err(error) if is_left_over(&error) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let first = StdUnixListener::bind(path)?;
    let file = SocketFile(path.to_owned());
    first.set_nonblocking(true)?;
    let others = (1..threads).map(|_| first.try_clone());
    let all: Vec<_> = others.collect::<io::Result<_>>()?;
    let all = all.into_iter().chain([first]);
    let listeners = all.map(|listener| Parked::Unix(listener).unpark());
    Ok((listeners.collect::<io::Result<_>>()?, file))
}
