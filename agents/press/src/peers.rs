//! Kept connections between nodes. Of two nodes the later one in the list connects to the earlier
//! one, while both want the connection.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::codec::{decode, encode, hello, hello_of, HELLO_BYTES};
use crate::core::link::LinkId;
use crate::core::message::Message;
use crate::engine::Engine;

/// Pause between two tries to connect to a node.
const DIAL_EVERY: Duration = Duration::from_millis(100);

/// Time-out of a connection and its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that are written at once, about.
const WRITE_BYTES: usize = 256 << 10;

/// Accepts connections of other nodes, for ever.
pub async fn listen(engine: Rc<Engine>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                spawn_local(answer(Rc::clone(&engine), stream));
            }
            Err(error) => {
                tracing::error!("a node could not be let in: {error}");
                tokio::time::sleep(DIAL_EVERY).await;
            }
        }
    }
}

/// Keeps a connection to node `peer`, for ever.
pub async fn dial(engine: Rc<Engine>, peer: usize) {
    loop {
        let is_wanted = engine.look(|node| node.admits(peer) && node.link(peer).is_none());
        if is_wanted {
            // It is not there, or does not want us: it is looked for again.
            if let Ok(Ok(stream)) =
                tokio::time::timeout(HELLO_TIMEOUT, connect(&engine, peer)).await
            {
                up(&engine, peer, stream);
            }
        }
        tokio::time::sleep(DIAL_EVERY).await;
    }
}

async fn connect(engine: &Engine, peer: usize) -> Result<TcpStream> {
    let peers = &engine.config.peers;
    let socket = match peers[peer].address {
        std::net::SocketAddr::V4(_) => TcpSocket::new_v4()?,
        std::net::SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // From its own address, by which the other knows it.
    let mut own = peers[engine.config.me].address;
    own.set_port(0);
    socket.bind(own)?;
    let mut stream = socket.connect(peers[peer].address).await?;
    send_hello(engine, &mut stream).await?;
    match receive_hello(engine, &mut stream).await? == peer {
        true => Ok(stream),
        false => bail!("expected node {peer}"),
    }
}

async fn answer(engine: Rc<Engine>, mut stream: TcpStream) {
    let handshake = tokio::time::timeout(HELLO_TIMEOUT, receive_hello(&engine, &mut stream)).await;
    let Ok(Ok(peer)) = handshake else { return };
    let is_its =
        stream.peer_addr().is_ok_and(|from| from.ip() == engine.config.peers[peer].address.ip());
    let is_admitted = is_its && engine.look(|node| node.admits(peer));
    if is_admitted && send_hello(&engine, &mut stream).await.is_ok() {
        up(&engine, peer, stream);
    }
}

async fn send_hello(engine: &Engine, stream: &mut TcpStream) -> Result<()> {
    let words = hello(engine.config.cluster(), engine.config.me);
    Ok(stream.write_all(&words).await?)
}

/// Returns the node at the other end, which is of this cluster.
async fn receive_hello(engine: &Engine, stream: &mut TcpStream) -> Result<usize> {
    let mut words = [0; HELLO_BYTES];
    stream.read_exact(&mut words).await?;
    let peer = hello_of(&words, engine.config.cluster());
    let is_other = |&peer: &usize| peer < engine.config.peers.len() && peer != engine.config.me;
    peer.filter(is_other).context("expected a node of this cluster")
}

fn up(engine: &Rc<Engine>, peer: usize, stream: TcpStream) {
    engine.link_up(peer, |id| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let task = spawn_local(carry(Rc::clone(engine), id, stream, receiver));
        (sender, task.abort_handle())
    });
}

async fn carry(
    engine: Rc<Engine>,
    id: LinkId,
    stream: TcpStream,
    messages: mpsc::UnboundedReceiver<Message>,
) {
    // Small messages do not wait for others.
    let end = match stream.set_nodelay(true) {
        Ok(()) => both_ways(&engine, id, stream, messages).await,
        Err(error) => Err(error.into()),
    };
    let cause = end.map_or_else(|error| format!("{error:#}"), |()| "by the other node".to_owned());
    engine.link_down(id, &cause);
}

async fn both_ways(
    engine: &Rc<Engine>,
    id: LinkId,
    stream: TcpStream,
    messages: mpsc::UnboundedReceiver<Message>,
) -> Result<()> {
    let (reader, writer) = stream.into_split();
    tokio::select! {
        ended = read(engine, id, reader) => ended,
        ended = write(writer, messages) => ended,
    }
}

async fn read(engine: &Rc<Engine>, id: LinkId, mut reader: OwnedReadHalf) -> Result<()> {
    let mut bytes = BytesMut::with_capacity(64 << 10);
    loop {
        while let Some(message) = decode(&mut bytes)? {
            engine.message(id, message);
        }
        if reader.read_buf(&mut bytes).await? == 0 {
            return match bytes.is_empty() {
                true => Ok(()),
                false => bail!("in the middle of a message"),
            };
        }
    }
}

/// The window of the link bounds what is in `messages`.
async fn write(
    mut writer: OwnedWriteHalf,
    mut messages: mpsc::UnboundedReceiver<Message>,
) -> Result<()> {
    let mut bytes = BytesMut::new();
    while let Some(message) = messages.recv().await {
        encode(&message, &mut bytes);
        while bytes.len() < WRITE_BYTES {
            let Ok(message) = messages.try_recv() else {
                break;
            };
            encode(&message, &mut bytes);
        }
        writer.write_all(&bytes).await?;
        bytes.clear();
    }
    Ok(())
}
