//! Listeners: a port for clients, shared by all threads, and the admin API's.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that the kernel queues until they are accepted (cut to its own limit).
const BACKLOG: u32 = 4096;

/// Opens one listener per thread at the same address.
pub fn for_clients(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>> {
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
