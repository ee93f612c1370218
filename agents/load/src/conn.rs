//! One connection and the request on it, if there is one. A request is never sent twice.

use std::io::{self, Read, Write};

use memchr::memmem::Finder;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;

use crate::answer::{Answer, Lack};
use crate::outcome::Outcome;
use crate::protocol::mysql::{Login, Step};
use crate::protocol::{Progress, Reader, Summary};
use crate::record::Record;
use crate::target::Target;
use crate::tls::{describe, Tls};

#[derive(Debug)]
enum State {
    Connecting,
    ShakingHands,
    LoggingIn(Login),
    Answering,
    Idle,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Took {
    /// More has to come.
    Nothing,
    /// The request has ended; whether the connection can be used again.
    Ended(Outcome, bool),
    /// Logged in: it takes requests.
    LoggedIn,
    /// Something is to be written.
    Write,
    /// Broken while it was idle.
    Gone,
}

/// A connection and its request.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    lack: Option<Lack>,
    state: State,
    reader: Reader,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Number of its target.
    pub target: usize,
    /// The arrival that it is for.
    pub place: usize,
    /// Time at which its request was sent.
    pub sent_ns: i64,
    /// Deadline of its request.
    pub limit_ns: i64,
    /// Another at each change of what it does.
    pub stamp: u64,
}

impl Conn {
    /// Begins to connect.
    pub fn connect(
        endpoint: &Target,
        tls: Option<&Tls>,
        (target, place): (usize, usize),
        now_ns: i64,
        stamp: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            tls: tls.map(Tls::begin).transpose().map_err(io::Error::other)?,
            lack: None,
            stream: TcpStream::connect(endpoint.address)?,
            state: State::Connecting,
            reader: Reader::new(endpoint.protocol),
            input: vec![],
            output: vec![],
            written: 0,
            target,
            place,
            sent_ns: now_ns,
            limit_ns: i64::MAX,
            stamp,
        })
    }

    /// Registers its socket for all events of its life.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interests = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut self.stream, token, interests)
    }

    /// True if it is not made yet, or not logged in.
    pub fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting)
    }

    /// The result of connecting; none while it goes on.
    pub fn connected(&mut self) -> Option<io::Result<()>> {
        if let Ok(Some(error)) | Err(error) = self.stream.take_error() {
            return Some(Err(error));
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.state = match self.tls {
                    Some(_) => State::ShakingHands,
                    None => State::LoggingIn(Login::default()),
                };
                Some(self.stream.set_nodelay(true))
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// True if the server has to let it in first.
    pub fn must_log_in(&self) -> bool {
        self.tls.is_some() || matches!(self.reader, Reader::Mysql(_))
    }

    /// Begins with another request.
    pub fn take_on(&mut self, place: usize, sent_ns: i64) {
        self.place = place;
        self.sent_ns = sent_ns;
    }

    /// Puts a request's bytes where `write` takes them.
    pub fn ask(&mut self, request: &[u8], reader: Reader, limit_ns: i64, stamp: u64) {
        self.state = State::Answering;
        self.reader = reader;
        self.input.clear();
        self.output.clear();
        self.written = 0;
        match &mut self.tls {
            // Memory takes all of it.
            Some(tls) => drop(tls.writer().write_all(request)),
            None => self.output.extend(request),
        }
        self.limit_ns = limit_ns;
        self.stamp = stamp;
    }

    /// Becomes idle.
    pub fn keep_idle(&mut self, stamp: u64) {
        self.state = State::Idle;
        self.input.clear();
        self.stamp = stamp;
    }

    /// True if a part of the request waits for the kernel to take it.
    pub fn is_unsent(&self) -> bool {
        let waits = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        waits || self.written < self.output.len()
    }

    /// Writes what the kernel takes.
    pub fn write(&mut self) -> io::Result<()> {
        while self.is_unsent() {
            let result = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.stream),
                None => self.stream.write(&self.output[self.written..]),
            };
            match result {
                Ok(_) if self.tls.is_some() => {}
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Outcome of a request whose connection broke.
    pub fn failure(&self) -> Outcome {
        match self.state {
            State::Connecting | State::ShakingHands | State::LoggingIn(_) => {
                Outcome::ConnectionError
            }
            _ => Outcome::AbortedConnection,
        }
    }

    /// Record of its request, which has ended.
    pub fn record(&self, outcome: Outcome, done_ns: i64) -> Record {
        let summary = match self.state {
            State::Connecting | State::ShakingHands | State::LoggingIn(_) => Summary::default(),
            _ => self.reader.summary(),
        };
        Record {
            status: summary.status,
            bytes: summary.bytes,
            lack: self.lack,
            ..Record::unsent(self.place, outcome, self.sent_ns, Some(done_ns))
        }
    }

    /// The answer to an operation over HTTP, once it is whole.
    pub fn answer(&self) -> Option<Answer<'_>> {
        self.reader.answer(&self.input)
    }

    /// An idle connection has nothing to read but its end.
    pub fn is_silent(&self) -> bool {
        let peek = self.stream.peek(&mut [0]);
        peek.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Takes what has come. `ends`: the server has said that no more will come, and no event will
    /// say it again.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        ends: bool,
        target: &Target,
        needle: &Finder<'_>,
    ) -> Took {
        loop {
            let ended = match self.receive(scratch) {
                Ok(ended) => ended,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Took::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if matches!(self.state, State::Idle) => return Took::Gone,
                Err(_) => return Took::Ended(self.failure(), false),
            };
            match self.take(ended, ends, target, needle) {
                Took::Nothing => {}
                taken => return taken,
            }
        }
    }

    /// Appends what has come to the input; whether the server has ended.
    fn receive(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        let count = self.stream.read(scratch)?;
        let Some(tls) = &mut self.tls else {
            self.input.extend(&scratch[..count]);
            return Ok(count == 0);
        };
        let (mut rest, mut ended) = (&scratch[..count], count == 0);
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    self.lack = Some(Lack::Tls(describe(&error)));
                    // The server is told why, if it still listens.
                    let _ = tls.write_tls(&mut self.stream);
                    return Err(io::Error::other(error));
                }
            };
            let begin = self.input.len();
            self.input.resize(begin + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut self.input[begin..])?;
            ended |= state.peer_has_closed();
        }
        self.write()?;
        Ok(ended)
    }

    fn take(&mut self, ended: bool, ends: bool, target: &Target, needle: &Finder<'_>) -> Took {
        let shakes_hands = self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        match &mut self.state {
            // Tickets of later sessions may come at any time.
            State::Idle if self.tls.is_some() && !ended && self.input.is_empty() => Took::Nothing,
            State::Idle => Took::Gone,
            State::Connecting => Took::Nothing,
            State::ShakingHands if ended => Took::Ended(Outcome::ConnectionError, false),
            State::ShakingHands if shakes_hands => Took::Nothing,
            State::ShakingHands => Took::LoggedIn,
            State::LoggingIn(login) => match login.read(&self.input, &target.account) {
                Step::More if ended => Took::Ended(Outcome::ConnectionError, false),
                Step::More => Took::Nothing,
                Step::Send(bytes) => {
                    self.output = bytes;
                    self.written = 0;
                    Took::Write
                }
                Step::Done => Took::LoggedIn,
                Step::Refused => Took::Ended(Outcome::BadStatus, false),
                Step::Garbled => Took::Ended(Outcome::BadContent, false),
            },
            State::Answering => match self.reader.read(&self.input, ended, needle) {
                Progress::More => Took::Nothing,
                Progress::Whole { outcome, keep } => {
                    Took::Ended(outcome, keep && !ended && !ends && !self.is_unsent())
                }
                Progress::Cut => Took::Ended(Outcome::AbortedConnection, false),
                Progress::Garbled => Took::Ended(Outcome::BadContent, false),
            },
        }
    }
}
