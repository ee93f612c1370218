//! A client's connection. Its pipeline is split into runs of commands of one class; each run is a
//! batch, answered before the next is sent.

use std::sync::Arc;
use std::time::Instant;

use bytes::Buf;
use policy::ServerId;
use tokio::net::TcpStream;
use tokio::sync::watch;
use wire::arbiter::CompareMode;

use super::command::{self, Class, Command};
use super::miss;
use super::reply::Replies;
use super::Front;
use crate::kv::client::{self, End};
use crate::kv::front::Batch;
use crate::kv::queue::Until;
use crate::kv::slot::Slot;
use crate::kv::{round, Failure, BATCH_MAX};

/// A no-op whose reply ends a batch with an unknown number of replies.
const FENCE: &[u8] = b"mn\r\n";
/// Replies to a conditional write that changed nothing.
const UNCHANGED: [&[u8]; 9] =
    [b"NOT_STORED", b"EXISTS", b"NOT_FOUND", b"END", b"NS", b"EX", b"NF", b"EN", b"CLIENT_ERROR"];

struct Client {
    wire: client::Client<Replies>,
    run: Run,
    /// Scratch: the servers that are alive.
    alive: Vec<ServerId>,
    /// The server that returned the last CAS value.
    cas_of: Option<ServerId>,
    /// Bytes behind the run that contain no line end.
    looked_at: usize,
}

/// Commands of one class at the start of the buffer.
#[derive(Debug, Clone, Copy)]
struct Run {
    class: Class,
    bytes: usize,
    commands: u32,
    /// Commands that always have a reply.
    loud: u32,
    /// The client's own no-ops.
    fences: usize,
    /// True if servers with equal items may reply differently.
    is_loose: bool,
}

const NO_RUN: Run =
    Run { class: Class::Fence, bytes: 0, commands: 0, loud: 0, fences: 0, is_loose: false };

/// Serves a client until it disconnects, violates the protocol, or the arbiter stops.
pub async fn serve(front: Arc<Front>, stream: TcpStream, mut stop: watch::Receiver<bool>) {
    let mut client = Client {
        wire: client::Client::new(front, stream),
        run: NO_RUN,
        alive: vec![],
        cas_of: None,
        looked_at: 0,
    };
    while client.wire.more(&mut stop).await {
        let after = client.answer().await;
        if after == Err(End::Gone) || client.wire.write().await.is_err() {
            return;
        }
        match after {
            Ok(()) => {}
            Err(End::Linger) => return client.wire.socket.linger().await,
            Err(End::Close | End::Gone | End::Pin) => return,
        }
    }
}

impl Client {
    /// Serves all complete commands in the buffer.
    async fn answer(&mut self) -> Result<(), End> {
        loop {
            let rest = &self.wire.socket.buffer[self.run.bytes..];
            match command::next_after(rest, &mut self.looked_at) {
                Ok(Some(command)) => self.command(command).await?,
                Ok(None) => return self.end_run().await,
                Err(refused) => {
                    let ended = self.end_run().await;
                    self.refuse(refused.0);
                    return ended.and(Err(End::Linger));
                }
            }
        }
    }

    fn refuse(&self, reply: &str) {
        self.wire.front.tier.counters.received.inc();
        self.wire.front.tier.counters.failed.inc();
        self.wire.slot.say(reply.as_bytes());
    }

    /// Adds the command behind the run to it, or serves the run first.
    async fn command(&mut self, command: Command) -> Result<(), End> {
        let joins = match (self.run.class, command.class) {
            (_, Class::Decided) => self.run.commands == 0,
            (Class::Fence, _) | (_, Class::Fence) => true,
            (before, now) => before == now,
        };
        let joins = joins && !self.is_apart(&command);
        if !joins || self.run.commands >= BATCH_MAX {
            self.end_run().await?;
        }
        match command.class {
            Class::Quit | Class::Refused(_) => {
                self.end_run().await?;
                self.wire.socket.buffer.advance(command.length);
                let Class::Refused(reply) = command.class else {
                    return Err(End::Close);
                };
                self.refuse(reply);
                Ok(())
            }
            _ => {
                self.run.add(&command);
                if command.class == Class::Decided {
                    return self.end_run().await;
                }
                Ok(())
            }
        }
    }

    /// True if a read must be sent alone, because only it, or only those before it, can be
    /// compared.
    fn is_apart(&self, command: &Command) -> bool {
        let are_reads = (self.run.class, command.class) == (Class::Read, Class::Read);
        are_reads
            && self.run.is_loose != command.is_loose
            && self.wire.front.tier.comparing.mode() != CompareMode::Off
    }

    /// Sends the run and waits for its replies.
    async fn end_run(&mut self) -> Result<(), End> {
        let run = std::mem::replace(&mut self.run, NO_RUN);
        if run.commands == 0 {
            return Ok(());
        }
        let counters = &self.wire.front.tier.counters;
        counters.received.add(u64::from(run.commands));
        let commands = u64::from(run.commands) - run.fences as u64;
        match run.class {
            Class::Write | Class::Decided => counters.writes.add(commands),
            class => {
                counters.reads.add(commands);
                if class == Class::Reference {
                    counters.reads_of_one.add(commands);
                }
            }
        }
        let received = Instant::now();
        let answered = match run.class {
            Class::Read | Class::Fence => self.read(run, received).await,
            Class::Write => self.write_all(run).await,
            _ => self.ask_reference(run).await,
        };
        self.wire.socket.buffer.advance(run.bytes);
        let tier = &self.wire.front.tier;
        tier.requests_ended(received, run.commands);
        let counters = &tier.counters;
        match answered {
            Ok(()) => counters.answered.add(u64::from(run.commands)),
            Err(failure) => {
                counters.failed.add(u64::from(run.commands));
                let fate = match run.class {
                    Class::Write | Class::Decided => failure.fate(),
                    _ => "",
                };
                let error = format!("SERVER_ERROR arbiter: {failure}{fate}\r\n");
                self.wire.slot.say(error.repeat(run.loud.max(1) as usize).as_bytes());
                if run.loud < run.commands {
                    // Silence would have meant success.
                    return Err(End::Linger);
                }
            }
        }
        self.wire.write_much().await
    }

    /// Sends reads to r servers; misses of the first may be asked of another.
    async fn read(&self, run: Run, received: Instant) -> Result<(), Failure> {
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        let batch = run.batch(&self.wire.socket.buffer);
        let before = slot.output_len();
        round::race(front, slot, &batch, &[], received).await?;
        let asks = front.tier.config().asks_misses() && run.is_counted();
        if asks && front.tier.comparing.mode() == CompareMode::Off {
            self.ask_misses(&batch, before, received).await;
        }
        Ok(())
    }

    /// Asks another server for the misses in the output from a position on.
    async fn ask_misses(&self, batch: &Batch<'_>, before: usize, received: Instant) {
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        let has_miss = |reply: &[u8]| miss::has_miss(batch.bytes, reply);
        let Some(winner) = slot.winner().filter(|_| slot.output_from(before, has_miss)) else {
            return;
        };
        let reply = slot.cut_output(before);
        let result = round::elsewhere(front, slot, batch, &[winner], received).await;
        let other = slot.cut_output(before);
        match result {
            Ok(()) => slot.say(&miss::merged(batch.bytes, &reply, &other)),
            Err(_) => slot.say(&reply),
        }
    }

    /// Sends writes to all servers; the client gets the reference's reply.
    async fn write_all(&mut self, run: Run) -> Result<(), Failure> {
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        front.tier.alive(&mut self.alive);
        let batch = run.batch(&self.wire.socket.buffer);
        round::all(front, slot, &batch, &self.alive).await;
        let mut reference: Option<Vec<u8>> = None;
        let mut failure = Failure::NoServer;
        let mut apart = vec![];
        slot.each_reply(|server, reply| match (reply, &reference) {
            (Ok(reply), None) => reference = Some(reply.to_vec()),
            (Ok(reply), Some(expected)) if reply != expected => apart.push(server),
            (Ok(_), Some(_)) => {}
            (Err(why), _) => {
                failure = failure.or_worse(why);
                front.give_up(server);
            }
        });
        if !apart.is_empty() {
            delete_keys(front, slot, batch.bytes, &apart).await;
        }
        let reply = reference.ok_or(failure)?;
        slot.say(&reply);
        Ok(())
    }

    /// Sends commands to the reference, which alone can decide them. The others delete the keys
    /// that changed.
    async fn ask_reference(&mut self, run: Run) -> Result<(), Failure> {
        let (front, slot) = (&self.wire.front, &self.wire.slot);
        front.tier.alive(&mut self.alive);
        let (&reference, others) = self.alive.split_first().ok_or(Failure::NoServer)?;
        let batch = run.batch(&self.wire.socket.buffer);
        let compares = command::next(batch.bytes).is_ok_and(|command| {
            // The run is one command, and was parsed before.
            command.is_some_and(|command| command.compares)
        });
        if compares && self.cas_of.is_some_and(|server| server != reference) {
            // The value is of a server that is gone; here it means another item, or none.
            return Err(Failure::Foreign);
        }
        round::all(front, slot, &batch, &[reference]).await;
        let mut reply = Err(Failure::NoServer);
        slot.each_reply(|_, said| reply = said.map(<[u8]>::to_vec));
        self.cas_of = Some(reference);
        if run.class == Class::Decided {
            if reply.is_err() {
                front.give_up(reference);
            }
            let unchanged = |said: &Vec<u8>| UNCHANGED.iter().any(|word| said.starts_with(word));
            if !reply.as_ref().is_ok_and(unchanged) {
                delete_keys(front, slot, batch.bytes, others).await;
            }
        }
        slot.say(&reply?);
        Ok(())
    }
}

/// Deletes all keys that `commands` change on these servers; takes out a server that fails to.
async fn delete_keys(front: &Front, slot: &Arc<Slot>, commands: &[u8], servers: &[ServerId]) {
    let (mut bytes, mut keys) = (vec![], 0_u32);
    let mut rest = commands;
    while let Ok(Some(command)) = command::next(rest) {
        let words = rest[command.keys].split(|&byte| byte == b' ');
        for key in words.filter(|key| !key.is_empty()) {
            bytes.extend_from_slice(b"md ");
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(if command.is_base64 { b" b\r\n" } else { b"\r\n" });
            keys += 1;
        }
        rest = &rest[command.length..];
    }
    if keys == 0 {
        return;
    }
    let batch = Batch {
        bytes: &bytes,
        fence: b"",
        until: Until::Replies(keys as usize),
        commands: keys.into(),
        flavour: 0,
        is_comparable: false,
    };
    round::all(front, slot, &batch, servers).await;
    let done = |line: &[u8]| line.is_empty() || line.starts_with(b"HD") || line.starts_with(b"NF");
    slot.each_reply(|server, reply| {
        let deleted = reply.is_ok_and(|reply| reply.split(|&byte| byte == b'\n').all(done));
        if !deleted {
            front.give_up(server);
        }
    });
}

impl Run {
    fn add(&mut self, command: &Command) {
        if self.class == Class::Fence {
            self.class = command.class;
        }
        self.bytes += command.length;
        self.commands += 1;
        self.loud += u32::from(!command.is_quiet);
        self.fences += usize::from(command.class == Class::Fence);
        self.is_loose |= command.is_loose;
    }

    /// True if each command has a reply.
    fn is_counted(&self) -> bool {
        self.loud == self.commands && self.fences == 0
    }

    fn batch<'a>(&self, buffer: &'a [u8]) -> Batch<'a> {
        let is_counted = self.loud == self.commands;
        Batch {
            bytes: &buffer[..self.bytes],
            fence: if is_counted { b"" } else { FENCE },
            until: if is_counted {
                Until::Replies(self.commands as usize)
            } else {
                Until::Fences(self.fences + 1)
            },
            commands: self.commands.into(),
            flavour: 0,
            is_comparable: !self.is_loose,
        }
    }
}
