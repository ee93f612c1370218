//! A client with its own connection to the primary: its commands pass one by one, the server's
//! bytes as they arrive, until one of the two closes, the connection is `idle` for too long, or
//! nothing holds the client there any more (`hold`). So Redis itself handles transactions, blocking
//! commands, subscriptions and pushes.
//!
//! A client that is free again keeps its connection for a moment, because it often begins another
//! transaction.
//!
//! The arbiter refuses the same commands as of other clients. Replies are not held here, so the
//! error must come from the server to have the right place: the server gets a command that it does
//! not know instead.
//!
//! Where the primary is detected, the connection ends with it, and its client is told so, unless a
//! reply has been passed on in part.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::io::{split, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout, Instant};

use super::classify::{classify, is_refused_always};
use super::command::{with_lengths, Commands, Found};
use super::dedicated_quota::Place;
use super::hold::Manners;
use super::idle::Idle;
use super::reply::Replies;
use super::Front;
use crate::conn::Conn;
use crate::kv::socket::{arrive, Socket};
use crate::kv::Dialect;
use crate::lock;
use crate::memory::{Held, UNCOUNTED};
use crate::min_rate::MinRate;
use crate::stream;
use crate::tier::Pinned;

/// Command that the server gets in place of a refused one.
const NO_COMMAND: &[u8] = b"*1\r\n$26\r\nNOT_OFFERED_BY_THE_ARBITER\r\n";
/// Time for which a client is heard after its server's last bytes, as by `linger`.
const LINGER: Duration = Duration::from_secs(1);

/// Error for a client whose connection ends with the primary.
const PRIMARY_LOST: &[u8] =
    b"-ERR arbiter: the primary of this connection is lost; commands without \
    a reply may have been executed\r\n";

/// Time for which a freed client keeps its connection.
const KEPT: Duration = Duration::from_secs(1);

/// A client's right to a dedicated connection, with the connection if it has one.
pub struct Entry {
    place: Place,
    kept: Option<Kept>,
}

/// A connection without any state left.
struct Kept {
    stream: TcpStream,
    server: ServerId,
    manners: Manners,
    since: Instant,
}

impl From<Place> for Entry {
    fn from(place: Place) -> Self {
        Self { place, kept: None }
    }
}

impl Kept {
    /// The stream, if it is open, to the primary, and the client's protocol settings are unchanged.
    fn usable(self, primary: ServerId, manners: &Manners) -> Option<TcpStream> {
        let is_same = self.server == primary && self.manners == *manners;
        (is_same && stream::is_silent(&self.stream)).then_some(self.stream)
    }
}

/// The connection that a freed client keeps for a moment.
#[derive(Default)]
pub struct Own(Arc<Mutex<Keeping>>);

#[derive(Default)]
struct Keeping {
    entry: Option<Entry>,
    /// True while a task watches its age.
    is_watched: bool,
}

impl Own {
    /// Takes the connection.
    pub fn take(&self) -> Option<Entry> {
        lock(&self.0).entry.take()
    }

    fn keep(&self, place: Place, kept: Kept) {
        let mut keeping = lock(&self.0);
        keeping.entry = Some(Entry { place, kept: Some(kept) });
        if std::mem::replace(&mut keeping.is_watched, true) {
            return;
        }
        let kept = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(KEPT).await;
                let Some(kept) = kept.upgrade() else { return };
                if lock(&kept).is_over() {
                    return;
                }
            }
        });
    }
}

impl Keeping {
    /// Drops what is too old; true if there is nothing left to watch.
    fn is_over(&mut self) -> bool {
        let is_old = |entry: &mut Entry| {
            let kept = entry.kept.as_ref();
            kept.map_or(true, |kept| kept.since.elapsed() >= KEPT)
        };
        self.entry.take_if(is_old);
        self.is_watched = self.entry.is_some();
        !self.is_watched
    }
}

/// End of the passing between a client and its server.
enum Ended {
    /// Nothing holds the client any more.
    Freed,
    /// One of the two closed its connection, or was idle for too long.
    Closed,
    /// The server is not the primary any more.
    PrimaryLost,
}

/// Result of serving a client with a dedicated connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It shares connections again.
    Freed,
    /// All replies are written, but it may still be sending.
    Linger,
    /// It disconnected, or must be disconnected.
    Gone,
}

/// Serves the client while it has state. The command that pinned it is in its buffer.
pub async fn serve(
    front: &Front,
    client: &mut Socket,
    manners: &mut Manners,
    own: &Own,
    entry: Entry,
) -> After {
    let counters = &front.tier.counters;
    counters.received.inc();
    let limit = front.tier.config().request_timeout();
    let Entry { place, kept } = entry;
    let refuse = |why: String| {
        counters.failed.inc();
        format!("-ERR arbiter: {why}\r\n")
    };
    let primary = match front.tier.primary.get() {
        Ok(primary) => primary,
        Err(none) => {
            // The client may be gone; there is nobody else to tell.
            let _ = client.write(refuse(none.to_string()).as_bytes(), limit).await;
            return After::Linger;
        }
    };
    let reached = match kept.and_then(|kept| kept.usable(primary, manners)) {
        Some(stream) => Ok(stream),
        None => reach(front, primary, manners).await.map(Conn::into_stream),
    };
    let Ok(mut server) = reached else {
        front.tier.primary.doubt();
        let error = refuse("the primary could not be reached".to_owned());
        let _ = client.write(error.as_bytes(), limit).await;
        return After::Linger;
    };
    counters.answered.inc();
    let pinned = Pinned::new(&front.tier);
    let idle = Idle::new(front.tier.config().pinned_idle(), std::mem::take(manners));
    let (client_reads, client_writes) = split(&mut client.stream);
    let (server_reads, server_writes) = split(&mut server);
    let mut up = Up {
        from: client_reads,
        to: server_writes,
        buffer: std::mem::take(&mut client.buffer),
        commands: Commands::default(),
        held: Held::new(&front.tier.memory),
        pace: MinRate::of_sender(front.tier.config()),
        front,
        idle: &idle,
        pinned: &pinned,
    };
    let ended = {
        let mut going_up = pin!(up.go_on());
        let farewell = if front.tier.primary.is_detected() { PRIMARY_LOST } else { b"" };
        let mut down = pin!(go_down(server_reads, client_writes, &idle, farewell));
        // An error is an end as well; both connections close then.
        tokio::select! {
            ended = &mut going_up => {
                if ended.is_ok() {
                    let _ = down.await;
                }
                Ended::Closed
            }
            _ = &mut down => {
                // Closed at once, what the client still says could destroy what it was told.
                let _ = timeout(LINGER, going_up).await;
                Ended::Closed
            }
            () = front.tier.primary.lost(primary) => Ended::PrimaryLost,
            () = idle.freed() => Ended::Freed,
        }
    };
    client.buffer = up.buffer;
    match ended {
        Ended::Freed => {}
        Ended::Closed => return After::Gone,
        Ended::PrimaryLost => {
            if idle.can_be_told() {
                // As above: there is nobody else to tell.
                let _ = client.write(PRIMARY_LOST, limit).await;
            }
            return After::Linger;
        }
    }
    *manners = idle.into_manners();
    let kept =
        Kept { stream: server, server: primary, manners: manners.clone(), since: Instant::now() };
    own.keep(place, kept);
    After::Freed
}

/// Passes the server's bytes to the client until the server closes or the connection is idle for
/// too long, also by a client that takes nothing. A client that waits then gets `farewell`.
async fn go_down(
    mut from: ReadHalf<&mut TcpStream>,
    mut to: WriteHalf<&mut TcpStream>,
    idle: &Idle,
    farewell: &[u8],
) -> io::Result<()> {
    let mut over = pin!(idle.over());
    let mut replies = BytesMut::new();
    loop {
        let passed = replies.len();
        let read = tokio::select! {
            biased;
            read = arrive(&mut from, &mut replies) => read,
            () = &mut over => return to.shutdown().await,
        };
        if !matches!(read, Ok(1..)) {
            if idle.can_be_told() {
                timeout(idle.limit(), to.write_all(farewell)).await??;
            }
            read?;
            return to.shutdown().await;
        }
        idle.passing();
        timeout(idle.limit(), to.write_all(&replies[passed..])).await??;
        idle.note_replies(&mut replies);
        if replies.is_empty() {
            // An idle connection holds none.
            replies = BytesMut::new();
        }
    }
}

/// Passes the client's commands to the server.
struct Up<'a> {
    from: ReadHalf<&'a mut TcpStream>,
    to: WriteHalf<&'a mut TcpStream>,
    buffer: BytesMut,
    commands: Commands,
    /// Memory of `buffer`.
    held: Held,
    pace: MinRate,
    front: &'a Front,
    idle: &'a Idle,
    pinned: &'a Pinned,
}

impl Up<'_> {
    async fn go_on(&mut self) -> io::Result<()> {
        loop {
            self.pass_all().await?;
            if self.buffer.is_empty() {
                // A large command leaves no large buffer.
                self.buffer = BytesMut::new();
            }
            if !self.held.cover(self.buffer.len()) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            if self.read_on().await? == 0 {
                return self.to.shutdown().await;
            }
            self.idle.note_input();
        }
    }

    /// Reads more; a large incomplete command must arrive at a minimum rate while memory is scarce.
    async fn read_on(&mut self) -> io::Result<usize> {
        if self.buffer.len() <= UNCOUNTED {
            self.pace.begin();
            return arrive(&mut self.from, &mut self.buffer).await;
        }
        loop {
            let since = Instant::now();
            let reading = arrive(&mut self.from, &mut self.buffer);
            let read = timeout(self.pace.left(), reading).await;
            let bytes = match &read {
                Ok(Ok(bytes)) => *bytes,
                _ => 0,
            };
            let keeps = self.pace.keeps(bytes, since.elapsed());
            if !keeps && self.front.tier.memory.is_scarce() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if let Ok(read) = read {
                return read;
            }
        }
    }

    /// Notes a command; true if it is refused.
    fn asks(&self, command: &[u8]) -> bool {
        // The command in its place has a reply as well.
        self.idle.note_command(command);
        self.pinned.asks();
        let class = classify(command);
        super::count(&self.front.tier.counters, class, 1, true);
        is_refused_always(command, class)
    }

    /// Passes all complete commands on, in one write if none is refused.
    async fn pass_all(&mut self) -> io::Result<()> {
        let mut good = 0;
        loop {
            let rest = &self.buffer[good..];
            let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
            let (length, is_refused) = match self.commands.next(rest).map_err(broken)? {
                None => break,
                Some(Found::Nothing(length)) => (length, false),
                Some(Found::Lengths(length)) => (length, self.asks(&rest[..length])),
                Some(Found::Inline(length)) => (length, self.asks(&with_lengths(&rest[..length]))),
            };
            if is_refused {
                self.to.write_all(&self.buffer[..good]).await?;
                self.to.write_all(NO_COMMAND).await?;
                self.buffer.advance(good + length);
                good = 0;
            } else {
                good += length;
            }
        }
        self.to.write_all(&self.buffer[..good]).await?;
        self.buffer.advance(good);
        Ok(())
    }
}

async fn reach(front: &Front, primary: ServerId, manners: &Manners) -> io::Result<Conn> {
    let config = front.tier.config();
    let deadline = Instant::now() + config.request_timeout();
    let stream = front.tier.connect(primary, deadline).await;
    let mut conn = Conn::new(stream.map_err(|_| io::ErrorKind::ConnectionRefused)?);
    let greet = async {
        if manners.resp3 {
            tell(&mut conn, Replies::greeting(1), config.request_timeout()).await?;
        }
        if let Some(name) = &manners.name {
            let mut command = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$".to_vec();
            command.extend_from_slice(format!("{}\r\n", name.len()).as_bytes());
            command.extend_from_slice(name);
            command.extend_from_slice(b"\r\n");
            tell(&mut conn, &command, config.request_timeout()).await?;
        }
        io::Result::Ok(())
    };
    match timeout(config.request_timeout(), greet).await {
        Ok(Ok(())) => Ok(conn),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a command of the arbiter and discards its reply. The client gets an error (a required
/// password, say) at its own commands.
async fn tell(conn: &mut Conn, command: &[u8], limit: Duration) -> io::Result<()> {
    conn.write(command, limit).await?;
    let mut replies = Replies::default();
    loop {
        let followed = replies.follow(&conn.buffer);
        let followed = followed.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let _ = conn.buffer.split_to(followed.used);
        if followed.reply.is_some() {
            return Ok(());
        }
        if conn.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
