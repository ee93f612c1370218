//! Servers: in tasks, and on a thread of its own. A connection with what was read of it and not yet used,
//! and where HTTP messages end on it.

use std::future::Future;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Stops listening at once. Until a process that is being started runs its own program it has copies
/// of all descriptors: a listener that is only closed keeps its address until then.
pub fn stop_listening(listener: &impl AsFd) {
    // An error is a listener that has stopped.
    let _ = SockRef::from(listener).shutdown(Shutdown::Both);
}

/// A server whose connections have a task each. Dropping it kills it: all of them close at once, and
/// another can listen at its address.
pub struct Served {
    /// The address that it listens at.
    pub address: SocketAddr,
    listener: Arc<TcpListener>,
    task: AbortHandle,
}

impl Served {
    /// Talks so on each connection, at any port of loopback.
    pub fn start<F>(talk: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), talk)
    }

    /// Starts a server where one may have been before.
    pub fn start_at<F>(address: SocketAddr, talk: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let listen = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(1024)?;
            std::io::Result::Ok((listener.local_addr()?, Arc::new(listener)))
        };
        let (address, listener) = listen().expect("an address to listen at");
        let own = Arc::clone(&listener);
        let serving = async move {
            let mut connections = JoinSet::new();
            loop {
                match own.accept().await {
                    Ok((stream, _)) => drop(connections.spawn(talk(stream))),
                    // No descriptor is free, say. A server that went away would be another case.
                    Err(error) => {
                        eprintln!("testkit: {address}: cannot accept: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        let task = tokio::spawn(serving).abort_handle();
        Self { address, listener, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        stop_listening(&self.listener);
        self.task.abort();
    }
}

/// A server on a thread of its own. Dropping it kills it: all its connections close at once, and
/// another can listen at its address.
pub struct Threaded {
    /// The address that it listens at.
    pub address: SocketAddr,
    listener: std::net::TcpListener,
    kill: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    /// Starts what `serve` makes of a listener at this address; port 0 finds one.
    ///
    /// # Errors
    /// When the address is taken or no thread can be started.
    pub fn start<F: Future<Output = ()>>(
        address: SocketAddr,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Sets SO_REUSEADDR, so that a server can come back at once.
        let listener = std::net::TcpListener::bind(address);
        let listener = listener.with_context(|| format!("{address}: cannot listen"))?;
        listener.set_nonblocking(true)?;
        let (address, own) = (listener.local_addr()?, listener.try_clone()?);
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::Builder::new().spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(own) else {
                    return eprintln!("testkit: a server cannot listen");
                };
                tokio::select! {
                    () = serve(listener) => {}
                    // An error is a dropped server: the same.
                    _ = killed => {}
                }
            });
        })?;
        Ok(Self { address, listener, kill: Some(kill), thread: Some(thread) })
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        drop(self.kill.take());
        stop_listening(&self.listener);
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed.
            let _ = thread.join();
        }
    }
}

/// A connection with a read buffer.
pub struct Buffered {
    /// The stream to write to; reading from it misses the bytes in the buffer.
    pub stream: TcpStream,
    input: Vec<u8>,
    used: usize,
}

impl Buffered {
    /// Nothing was read yet.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, input: Vec::new(), used: 0 }
    }

    /// True if everything that was read is used.
    pub fn is_empty(&self) -> bool {
        self.used == self.input.len()
    }

    /// A message's head with the empty line; none where the connection ends before.
    pub async fn head(&mut self) -> Option<String> {
        let head = self.until(b"\r\n\r\n").await?;
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    /// The body that the head announces; none where it has no length, or breaks off.
    pub async fn body(&mut self, head: &str) -> Option<Vec<u8>> {
        if field(head, "transfer-encoding").is_none() {
            let length = field(head, "content-length")?.parse().ok()?;
            return self.take(length).await;
        }
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = usize::from_str_radix(std::str::from_utf8(&line).ok()?, 16).ok()?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Some(body);
            }
            body.append(&mut self.take(size).await?);
            self.line().await?.is_empty().then_some(())?;
        }
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = self.until(b"\r\n").await?;
        line.truncate(line.len() - 2);
        Some(line)
    }

    /// All bytes up to and with `end`; none where the connection ends before.
    pub async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(place) = find(&self.input[self.used..], end) {
                return self.take(place + end.len()).await;
            }
            self.more().await.then_some(())?;
        }
    }

    /// Takes so many bytes; none where the connection ends before.
    pub async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.input.len() - self.used < length {
            self.more().await.then_some(())?;
        }
        let bytes = self.input[self.used..self.used + length].to_vec();
        self.used += length;
        Some(bytes)
    }

    /// All bytes up to the connection's end.
    pub async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        self.input.split_off(std::mem::take(&mut self.used))
    }

    /// Reads more; false at the connection's end.
    pub async fn more(&mut self) -> bool {
        self.input.drain(..self.used);
        self.used = 0;
        self.input.reserve(16 * 1024);
        self.stream.read_buf(&mut self.input).await.unwrap_or(0) > 0
    }
}

/// A field's value in a message's head.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// True if the head says where its body ends.
pub fn is_framed(head: &str) -> bool {
    field(head, "transfer-encoding").is_some() || field(head, "content-length").is_some()
}

/// The place at which `pattern` begins in `bytes`.
pub fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::process::Command;

    use tokio::runtime::Builder;

    use super::*;

    /// Carries `scene` out while programs are started one after the other.
    fn while_programs_start(scene: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let scene = scope.spawn(scene);
            while !scene.is_finished() {
                assert!(Command::new("true").status().unwrap().success());
            }
            scene.join().unwrap();
        });
    }

    #[test]
    fn a_threaded_server_leaves_its_address_at_once() {
        while_programs_start(|| {
            let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
            for _ in 0..1_000 {
                address = Threaded::start(address, |_| pending()).unwrap().address;
            }
        });
    }

    #[test]
    fn a_server_of_tasks_leaves_its_address_at_once() {
        while_programs_start(|| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
                for _ in 0..1_000 {
                    address = Served::start_at(address, |_| ready(())).address;
                }
            });
        });
    }
}
