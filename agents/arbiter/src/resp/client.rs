//! A client's connection. Its pipeline is split into runs of commands of one class; each run is a
//! batch, answered before the next is sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use policy::ServerId;
use tokio::net::TcpStream;
use tokio::sync::watch;
use wire::arbiter::CompareMode;

use super::classify::{classify, Class};
use super::command::{arguments, with_lengths, Commands, Found};
use super::dedicated::{self, Entry, Own};
use super::hold::Manners;
use super::reply::Replies;
use super::Front;
use crate::kv::client::{self, End};
use crate::kv::front::Batch;
use crate::kv::queue::Until;
use crate::kv::{round, Failure, BATCH_MAX};
use crate::stream;

struct Client {
    wire: client::Client<Replies>,
    commands: Commands,
    run: Run,
    manners: Manners,
    /// Round that covers its writes; see `read_your_writes`.
    written: u64,
    /// Scratch: replicas that may lack those writes.
    lacking: Vec<ServerId>,
    /// The arbiter's number of it.
    number: u64,
    /// A dedicated connection for the command in its buffer.
    entry: Option<Entry>,
    /// The dedicated connection that it had.
    own: Own,
}

/// Commands of one class at the start of the buffer.
#[derive(Debug, Clone, Copy)]
struct Run {
    class: Class,
    bytes: usize,
    commands: u32,
}

const NO_RUN: Run = Run { class: Class::Read, bytes: 0, commands: 0 };

/// Serves a client until it disconnects, violates the protocol, or the arbiter stops.
pub async fn serve(front: Arc<Front>, stream: TcpStream, mut stop: watch::Receiver<bool>) {
    let mut client = Client {
        number: front.tier.next_client(),
        wire: client::Client::new(front, stream),
        commands: Commands::default(),
        run: NO_RUN,
        manners: Manners::default(),
        entry: None,
        own: Own::default(),
        written: 0,
        lacking: Vec::new(),
    };
    while client.wire.more(&mut stop).await {
        let after = client.answer().await;
        if after == Err(End::Gone) || client.wire.write().await.is_err() {
            return;
        }
        match after {
            Ok(()) => {}
            Err(End::Linger) => return client.wire.socket.linger().await,
            Err(End::Pin) => match client.pinned().await {
                dedicated::After::Freed => {}
                dedicated::After::Linger => return client.wire.socket.linger().await,
                dedicated::After::Gone => return,
            },
            Err(End::Close | End::Gone) => return,
        }
    }
}

impl Client {
    /// Serves all complete commands in the buffer.
    async fn answer(&mut self) -> Result<(), End> {
        loop {
            let rest = &self.wire.socket.buffer[self.run.bytes..];
            match self.commands.next(rest) {
                Ok(Some(Found::Lengths(length))) => self.command(length).await?,
                Ok(Some(Found::Inline(length))) => self.inline(length).await?,
                Ok(Some(Found::Nothing(length))) => {
                    self.end_run().await?;
                    self.wire.socket.buffer.advance(length);
                }
                Ok(None) => return self.end_run().await,
                Err(refused) => {
                    self.wire.front.tier.counters.received.inc();
                    self.wire.front.tier.counters.failed.inc();
                    self.end_run().await?;
                    self.wire.slot.say(format!("-ERR {refused}\r\n").as_bytes());
                    return Err(End::Linger);
                }
            }
        }
    }

    /// Adds the command behind the run, `length` bytes long, to it, or serves the run first.
    async fn command(&mut self, length: usize) -> Result<(), End> {
        let mut class = classify(&self.wire.socket.buffer[self.run.bytes..self.run.bytes + length]);
        if class == Class::Loose && self.wire.front.tier.comparing.mode() == CompareMode::Off {
            class = Class::Read;
        }
        if class != self.run.class || self.run.commands >= BATCH_MAX {
            self.end_run().await?;
        }
        if matches!(class, Class::Read | Class::Loose | Class::Write | Class::Ask) {
            self.run.class = class;
            self.run.bytes += length;
            self.run.commands += 1;
            return Ok(());
        }
        self.end_run().await?;
        self.special(class, length).await
    }

    async fn inline(&mut self, length: usize) -> Result<(), End> {
        self.end_run().await?;
        // As if it had come with lengths.
        let command = with_lengths(&self.wire.socket.buffer[..length]);
        let rest = self.wire.socket.buffer.split_off(length);
        self.wire.socket.buffer = BytesMut::from(&command[..]);
        self.wire.socket.buffer.extend_from_slice(&rest);
        self.command(command.len()).await
    }

    /// Serves a command at the start of the buffer that is neither read nor write.
    async fn special(&mut self, class: Class, length: usize) -> Result<(), End> {
        if class == Class::Pin {
            return self.pin(length);
        }
        self.wire.front.tier.counters.received.inc();
        let command = &self.wire.socket.buffer[..length];
        match class {
            Class::NoSubcommand => {
                let reply = no_subcommand(arguments(command).nth(1).unwrap_or_default());
                self.wire.slot.say(reply.as_bytes());
            }
            Class::Hello => return self.hello(length).await,
            Class::Name => {
                self.manners.name = arguments(command).nth(2).map(<[u8]>::to_vec);
                self.wire.slot.say(b"+OK\r\n");
            }
            Class::Id => {
                let number = format!(":{}\r\n", self.number);
                self.wire.slot.say(number.as_bytes());
            }
            Class::OwnName => self.wire.slot.say(&self.manners.own_name()),
            Class::Refuse => {
                let refusal = b"-ERR not offered by the arbiter: ask the server itself\r\n";
                self.refuse(length, refusal);
                return Ok(());
            }
            _ => self.wire.slot.say(b"+OK\r\n"),
        }
        self.wire.front.tier.counters.answered.inc();
        self.wire.socket.buffer.advance(length);
        if class == Class::Quit {
            return Err(End::Close);
        }
        Ok(())
    }

    /// Serves it while it has a dedicated connection.
    async fn pinned(&mut self) -> dedicated::After {
        let Some(entry) = self.entry.take() else {
            return dedicated::After::Gone;
        };
        let (front, socket) = (&self.wire.front, &mut self.wire.socket);
        let after = dedicated::serve(front, socket, &mut self.manners, &self.own, entry).await;
        // It may have written there.
        if let Some(rounds) = &front.state.rounds {
            self.written = rounds.next();
        }
        after
    }

    /// Gives it a dedicated connection, if there is a place.
    fn pin(&mut self, length: usize) -> Result<(), End> {
        self.entry = self.own.take();
        if self.entry.is_some() {
            return Err(End::Pin);
        }
        let tier = &self.wire.front.tier;
        let quota = &self.wire.front.state.dedicated;
        let full = match quota.take(stream::peer_ip(&self.wire.socket.stream)) {
            Ok(place) => {
                self.entry = Some(place.into());
                return Err(End::Pin);
            }
            Err(full) => full,
        };
        tier.counters.received.inc();
        self.refuse(length, format!("-ERR arbiter: {full}\r\n").as_bytes());
        Ok(())
    }

    fn refuse(&mut self, length: usize, refusal: &[u8]) {
        self.wire.front.tier.counters.failed.inc();
        self.wire.slot.say(refusal);
        self.wire.socket.buffer.advance(length);
    }

    /// Changes the version of RESP, and so the links to use.
    async fn hello(&mut self, length: usize) -> Result<(), End> {
        let command = self.wire.socket.buffer.split_to(length);
        let resp3 = arguments(&command).nth(1) == Some(b"3");
        let batch = Batch {
            bytes: &command,
            fence: b"",
            until: Until::Replies(1),
            commands: 1,
            flavour: usize::from(resp3),
            is_comparable: false,
        };
        let before = self.wire.slot.output_len();
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        let answered = match front.tier.primary.get() {
            Ok(server) => round::one(front, slot, &batch, server).await,
            // Reads go on without a primary.
            Err(_) => round::elsewhere(front, slot, &batch, &[], Instant::now()).await,
        };
        if answered.is_ok() && self.wire.slot.output_at(before) != Some(b'-') {
            self.manners.resp3 = resp3;
        }
        self.account(Class::Hello, 1, answered);
        Ok(())
    }

    /// Sends the run and waits for its replies.
    async fn end_run(&mut self) -> Result<(), End> {
        let run = std::mem::replace(&mut self.run, NO_RUN);
        if run.commands == 0 {
            return Ok(());
        }
        let batch = Batch {
            bytes: &self.wire.socket.buffer[..run.bytes],
            fence: b"",
            until: Until::Replies(run.commands as usize),
            commands: u64::from(run.commands),
            flavour: usize::from(self.manners.resp3),
            is_comparable: run.class == Class::Read,
        };
        let tier = &self.wire.front.tier;
        tier.counters.received.add(batch.commands);
        super::count(&tier.counters, run.class, batch.commands, false);
        let received = Instant::now();
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        let answered = match (run.class, &front.state.rounds) {
            (Class::Read | Class::Loose, rounds) => {
                if let Some(rounds) = rounds {
                    rounds.lacking(self.written, &mut self.lacking);
                }
                round::race(front, slot, &batch, &self.lacking, received).await
            }
            (_, rounds) => {
                let answered = self.at_primary(&batch).await;
                // Also where there is no reply: it may have been executed.
                self.written = rounds.as_ref().map_or(0, |rounds| rounds.next());
                answered
            }
        };
        tier.requests_ended(received, run.commands);
        self.wire.socket.buffer.advance(run.bytes);
        self.account(run.class, run.commands, answered);
        self.wire.write_much().await
    }

    /// Sends commands to the primary, once.
    async fn at_primary(&self, batch: &Batch<'_>) -> Result<(), Failure> {
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        let primary = &front.tier.primary;
        let server = primary.get().map_err(Failure::NoPrimary)?;
        let before = slot.output_len();
        let answered = round::one(front, slot, batch, server).await;
        let is_replica = || slot.output_from(before, |reply| reply.starts_with(b"-READONLY "));
        if answered.is_err() || is_replica() {
            primary.doubt();
        }
        answered
    }

    /// Counts commands, and replies with an error for each that has none.
    fn account(&self, class: Class, commands: u32, answered: Result<(), Failure>) {
        let counters = &self.wire.front.tier.counters;
        match answered {
            Ok(()) => counters.answered.add(commands.into()),
            Err(failure) => {
                counters.failed.add(commands.into());
                let fate = match class {
                    Class::Write => failure.fate(),
                    _ => "",
                };
                let error = format!("-ERR arbiter: {failure}{fate}\r\n");
                self.wire.slot.say(error.repeat(commands as usize).as_bytes());
            }
        }
    }
}

/// Error for an unknown subcommand, as Redis writes it.
fn no_subcommand(word: &[u8]) -> String {
    let plain = |byte: &u8| {
        if byte.is_ascii_graphic() {
            *byte as char
        } else {
            '?'
        }
    };
    let word: String = word.iter().take(128).map(plain).collect();
    format!("-ERR unknown subcommand '{word}'. Try CLIENT HELP.\r\n")
}
