//! A node's sockets and tasks, on the thread that calls.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use tokio::task::spawn_local;

use crate::config::Config;
use crate::core::membership::Membership;
use crate::engine::Engine;
use crate::{admin, clients, peers};

/// Connections that the kernel keeps until they are accepted, of nodes and operators.
const BACKLOG: u32 = 128;

/// Serves until `end` is ready. Clients are let in once the cluster serves.
pub async fn run(config: Config, end: impl std::future::Future<Output = ()>) -> Result<()> {
    let own = config.peers[config.me].address;
    let nodes = port(own, "--peers", BACKLOG)?;
    let operators = port(config.admin, "--admin", BACKLOG)?;
    let datagrams = UdpSocket::bind(own).await;
    let datagrams = datagrams.with_context(|| format!("--peers: cannot have UDP port {own}"))?;
    let (me, count) = (config.me, config.peers.len());
    let engine = Engine::new(config, datagrams);
    spawn_local(peers::listen(Rc::clone(&engine), nodes));
    spawn_local(admin::listen(Rc::clone(&engine), operators));
    for peer in (0..count).filter(|&peer| peer < me) {
        spawn_local(peers::dial(Rc::clone(&engine), peer));
    }
    if engine.look(|node| matches!(node.membership(), Membership::Monitored(_))) {
        spawn_local(Rc::clone(&engine).monitor());
    }
    spawn_local(Rc::clone(&engine).clock());
    tokio::select! {
        served = serve(&engine) => served,
        () = end => Ok(()),
    }
}

async fn serve(engine: &Rc<Engine>) -> Result<()> {
    engine.room().await;
    let listener = port(engine.config.listen, "--listen", clients::BACKLOG)?;
    let names: Vec<&str> = engine.config.peers.iter().map(|peer| peer.name.as_str()).collect();
    tracing::info!("serves at {}, one of {}", engine.config.listen, names.join(", "));
    clients::listen(Rc::clone(engine), listener).await;
    Ok(())
}

fn port(address: SocketAddr, option: &str, backlog: u32) -> Result<TcpListener> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(backlog)
    };
    bound().with_context(|| format!("{option} {address}: cannot listen there; is the port taken?"))
}
