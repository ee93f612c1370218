//! `forwarder epoll|uring LISTEN SERVER...`: memcached `get`s and `set`s passed on over one connection
//! a server, by lengths alone: no policy, no checks, no limits, no errors but the end. What it is
//! quicker by than a proxy is all that a proxy could still gain. `make bench` uses it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{bail, Context, Result};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use tokio::sync::Notify;

const READ_BYTES: usize = 64 * 1024;
const CLIENTS_MOST: usize = 1024;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [how, listen, servers @ ..] = &words[..] else {
        bail!("expected epoll|uring LISTEN SERVER...");
    };
    let listen: SocketAddr = listen.parse().context("LISTEN")?;
    let servers = servers
        .iter()
        .map(|server| server.parse())
        .collect::<Result<Vec<SocketAddr>, _>>()
        .context("SERVER")?;
    match how.as_str() {
        "epoll" => epoll(listen, &servers),
        "uring" => tokio_uring::start(uring(listen, servers)),
        _ => bail!("expected epoll or uring; came {how}"),
    }
}

/// How many requests these bytes are; kvload sends them whole, a `set` by itself.
fn requests(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"set ") {
        return 1;
    }
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// The length of the reply that these bytes begin with, once its first line is there.
fn reply_bytes(bytes: &[u8]) -> Option<usize> {
    let line = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    if !bytes.starts_with(b"VALUE ") {
        return Some(line);
    }
    let size = bytes[..line - 2].rsplit(|&byte| byte == b' ').next()?;
    let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
    Some(line + size + b"\r\nEND\r\n".len())
}

/// The whole replies that `input` begins with, each to be passed to `to`; they are taken out of it.
fn take_replies(input: &mut Vec<u8>, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut begin = 0;
    while let Some(length) = reply_bytes(&input[begin..]) {
        if begin + length > input.len() {
            break;
        }
        to(&input[begin..begin + length])?;
        begin += length;
    }
    input.drain(..begin);
    Ok(())
}

/// A server's connection: what is to be sent, and whose reply comes next (None: nobody's).
struct Link {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    waiting: VecDeque<Option<usize>>,
}

fn epoll(listen: SocketAddr, servers: &[SocketAddr]) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(listen)?;
    let first = 1 + servers.len();
    poll.registry()
        .register(&mut listener, Token(0), Interest::READABLE)?;
    let mut links = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let stream = std::net::TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry()
            .register(&mut stream, Token(1 + number), Interest::READABLE)?;
        links.push(Link {
            stream,
            out: Vec::new(),
            input: Vec::new(),
            waiting: VecDeque::new(),
        });
    }
    let mut clients: Vec<TcpStream> = Vec::new();
    let mut events = Events::with_capacity(CLIENTS_MOST);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token().0 {
                0 => {
                    while let Some((mut stream, _)) = ready(listener.accept())? {
                        if clients.len() == CLIENTS_MOST {
                            bail!("expected at most {CLIENTS_MOST} clients");
                        }
                        stream.set_nodelay(true)?;
                        let token = Token(first + clients.len());
                        poll.registry()
                            .register(&mut stream, token, Interest::READABLE)?;
                        clients.push(stream);
                    }
                }
                token if token < first => {
                    let link = &mut links[token - 1];
                    while let Some(read) = ready(link.stream.read(&mut buffer))? {
                        if read == 0 {
                            bail!("a server closed its connection");
                        }
                        link.input.extend_from_slice(&buffer[..read]);
                        let waiting = &mut link.waiting;
                        take_replies(&mut link.input, |reply| {
                            match waiting.pop_front().context("a reply to nobody")? {
                                Some(client) => Ok(clients[client].write_all(reply)?),
                                None => Ok(()),
                            }
                        })?;
                        if read < buffer.len() {
                            break;
                        }
                    }
                }
                token => {
                    let client = token - first;
                    let read = ready(clients[client].read(&mut buffer))?.unwrap_or(0);
                    let (bytes, own) = (&buffer[..read], client % links.len());
                    let for_all = bytes.starts_with(b"set ");
                    for (number, link) in links.iter_mut().enumerate() {
                        if number == own || for_all {
                            link.out.extend_from_slice(bytes);
                            let whose = (number == own).then_some(client);
                            let more = std::iter::repeat(whose).take(requests(bytes));
                            link.waiting.extend(more);
                        }
                    }
                }
            }
        }
        for link in links.iter_mut().filter(|link| !link.out.is_empty()) {
            link.stream.write_all(&link.out)?;
            link.out.clear();
        }
    }
}

/// None where there is nothing yet.
fn ready<T>(done: std::io::Result<T>) -> Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A client's replies so far, and how many are still to come.
#[derive(Default)]
struct Replies {
    bytes: RefCell<Vec<u8>>,
    due: Cell<usize>,
    all: Notify,
}

/// As `Link`, between tasks.
#[derive(Default)]
struct Shared {
    out: RefCell<Vec<u8>>,
    waiting: RefCell<VecDeque<Option<Rc<Replies>>>>,
    more: Notify,
}

async fn uring(listen: SocketAddr, servers: Vec<SocketAddr>) -> Result<()> {
    let listener = tokio_uring::net::TcpListener::bind(listen)?;
    let mut links = Vec::new();
    for server in servers {
        let stream = Rc::new(tokio_uring::net::TcpStream::connect(server).await?);
        stream.set_nodelay(true)?;
        let link = Rc::new(Shared::default());
        tokio_uring::spawn(send(Rc::clone(&stream), Rc::clone(&link)));
        tokio_uring::spawn(receive(stream, Rc::clone(&link)));
        links.push(link);
    }
    for own in (0..links.len()).cycle() {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio_uring::spawn(serve(stream, links.clone(), own));
    }
    Ok(())
}

async fn send(stream: Rc<tokio_uring::net::TcpStream>, link: Rc<Shared>) -> Result<()> {
    loop {
        link.more.notified().await;
        let out = link.out.take();
        stream.write_all(out).await.0?;
    }
}

async fn receive(stream: Rc<tokio_uring::net::TcpStream>, link: Rc<Shared>) -> Result<()> {
    let (mut buffer, mut input) = (vec![0; READ_BYTES], Vec::new());
    loop {
        let (read, used) = stream.read(buffer).await;
        buffer = used;
        let read = read?;
        if read == 0 {
            bail!("a server closed its connection");
        }
        input.extend_from_slice(&buffer[..read]);
        take_replies(&mut input, |reply| {
            let whose = link.waiting.borrow_mut().pop_front();
            if let Some(replies) = whose.context("a reply to nobody")? {
                replies.bytes.borrow_mut().extend_from_slice(reply);
                replies.due.set(replies.due.get() - 1);
                if replies.due.get() == 0 {
                    replies.all.notify_one();
                }
            }
            Ok(())
        })?;
    }
}

async fn serve(
    stream: tokio_uring::net::TcpStream,
    links: Vec<Rc<Shared>>,
    own: usize,
) -> Result<()> {
    let (mut buffer, replies) = (vec![0; READ_BYTES], Rc::new(Replies::default()));
    loop {
        let (read, used) = stream.read(buffer).await;
        buffer = used;
        let read = read?;
        if read == 0 {
            return Ok(());
        }
        let bytes = &buffer[..read];
        let (count, for_all) = (requests(bytes), bytes.starts_with(b"set "));
        replies.due.set(count);
        for (number, link) in links.iter().enumerate() {
            if number == own || for_all {
                link.out.borrow_mut().extend_from_slice(bytes);
                let whose = (number == own).then(|| Rc::clone(&replies));
                let more = std::iter::repeat(whose).take(count);
                link.waiting.borrow_mut().extend(more);
                link.more.notify_one();
            }
        }
        replies.all.notified().await;
        stream.write_all(replies.bytes.take()).await.0?;
    }
}
