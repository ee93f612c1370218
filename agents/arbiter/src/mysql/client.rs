//! A client's connection: logged in, then command after command.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use policy::Refused;
use tokio::sync::mpsc;

use super::classify::{classify, Class, Effect};
use super::contest::Piece;
use super::login::{log_in, Login};
use super::packet::{self, Message, Packet, PAYLOAD_MAX};
use super::passthrough::Passthrough;
use super::replicated::Replicated;
use super::reply::{Shape, AUTOCOMMIT};
use super::server_pool::ServerPool;
use super::types::{Beginning, NotOpen, Outcome, Route, Verdict};
use crate::collision_avoidance::Stamp;
use crate::conn::Conn;
use crate::stream::Stream;

/// Longest name of a database [bytes]: 64 characters.
const NAME_BYTES_MAX: usize = 4 * 64;

/// Whether more commands may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    Close,
}

/// Serves a client until it goes.
pub async fn serve(pool: Arc<ServerPool>, stream: Stream) {
    let mut conn = Conn::new(stream);
    let Some(Login { hello, sequence }) = log_in(&pool, &mut conn).await else {
        return;
    };
    let start = Beginning {
        key: hello.key,
        database: hello.database,
        stamp: None,
    };
    let mut client = Client {
        pool,
        conn,
        session: Session::NotYet(start),
        is_judged: false,
    };
    if client.welcome(sequence).await == After::Next {
        while client.next_command().await == After::Next {}
    }
    let Client { conn, session, .. } = client;
    drop(conn);
    session.close().await;
}

fn not_open(sequence: u8, reason: NotOpen) -> Packet {
    let error = |code, state, text| packet::error(sequence, code, state, text);
    match reason {
        NotOpen::Refused(refusal) => Packet::new(sequence, refusal.payload()),
        NotOpen::Policy(Refused::NoServer) => error(1158, "08S01", "arbiter: no server is alive"),
        NotOpen::Policy(Refused::QueueFull) => error(
            1040,
            "08004",
            "arbiter: too many connections wait for a server",
        ),
        NotOpen::TimedOut => error(1040, "08004", "arbiter: no server came free in time"),
    }
}

/// The servers of a client's session.
enum Session {
    /// Not chosen yet.
    NotYet(Beginning),
    One(Box<Passthrough>),
    Many(Box<Replicated>),
}

impl Session {
    async fn open(pool: &Arc<ServerPool>, start: Beginning) -> Result<Self, NotOpen> {
        let pool = Arc::clone(pool);
        // No read's: that a server would be a probe says nothing of a session's whole life.
        Ok(match pool.tier.replicas() {
            r if r > 1 => Self::Many(Box::new(Replicated::open(pool, start, r).await?)),
            _ => Self::One(Box::new(Passthrough::open(pool, start).await?)),
        })
    }

    /// Takes in servers that come and lets go those that die, while the client is silent.
    async fn tend(&mut self) -> Infallible {
        match self {
            Self::NotYet(_) => std::future::pending().await,
            Self::One(solo) => loop {
                solo.lose().await;
            },
            Self::Many(held) => held.tend().await,
        }
    }

    /// As its replies said last; at first what the login says.
    fn status(&self) -> u16 {
        match self {
            Self::NotYet(_) => AUTOCOMMIT,
            Self::One(solo) => solo.status,
            Self::Many(held) => held.status,
        }
    }

    async fn close(self) {
        match self {
            Self::One(solo) => solo.close().await,
            // Each of its links does that by itself.
            Self::NotYet(_) | Self::Many(_) => {}
        }
    }
}

struct Client {
    pool: Arc<ServerPool>,
    conn: Conn,
    session: Session,
    /// True if a stamp was looked for.
    is_judged: bool,
}

/// The kind of a command.
enum Plan {
    Quit,
    Ping,
    Answer(Packet),
    Close(Packet),
    Send(Shape, Route),
}

impl Client {
    /// Ends the connection phase.
    async fn welcome(&mut self, sequence: u8) -> After {
        // Otherwise the first statement may say which servers to avoid.
        if !self.pool.tier.config().avoid_collisions {
            if let Session::NotYet(start) = &self.session {
                let opened = tokio::select! {
                    opened = Session::open(&self.pool, start.clone()) => opened,
                    // It must wait for our word; so it has gone.
                    () = self.conn.spoken() => return After::Close,
                };
                match opened {
                    Ok(session) => self.session = session,
                    Err(reason) => {
                        let error = not_open(sequence, reason);
                        return self.answer(&error, After::Close).await;
                    }
                }
            }
        }
        let limit = self.pool.tier.config().request_timeout();
        let welcome = packet::ok(sequence, self.session.status());
        match self.conn.write(welcome.bytes(), limit).await {
            Ok(()) => After::Next,
            Err(_) => After::Close,
        }
    }

    /// Looks for a stamp in the first statement, and chooses the servers where that was left to it.
    async fn judge(&mut self, packet: &Packet) -> Result<(), NotOpen> {
        let stamp = Stamp::of_statement(packet.payload());
        if stamp.is_some() {
            self.pool.tier.siblings.counters.sessions.inc();
        }
        match (&mut self.session, stamp) {
            (Session::NotYet(start), _) => {
                start.stamp = stamp;
                self.session = Session::open(&self.pool, start.clone()).await?;
            }
            (Session::One(solo), Some(stamp)) => solo.stamped(stamp),
            (Session::Many(held), Some(stamp)) => held.stamped(stamp),
            (_, None) => {}
        }
        Ok(())
    }

    async fn next_command(&mut self) -> After {
        let bytes_max = self.pool.account().packet_bytes_max;
        let read = tokio::select! {
            biased;
            read = packet::read_message(&mut self.conn, bytes_max) => read,
            never = self.session.tend() => match never {},
        };
        let packet = match read {
            Ok(Some(Message::Whole(packet))) => packet,
            Ok(Some(Message::TooLarge(sequence))) => {
                let text = "arbiter: Got a packet bigger than 'mysql.packet_bytes_max' bytes";
                let error = packet::error(sequence, 1153, "08S01", text);
                return self.answer(&error, After::Close).await;
            }
            _ => return After::Close,
        };
        let plan = plan(&packet, self.pool.may_misread());
        if !matches!(plan, Plan::Quit) {
            self.pool.tier.counters.received.inc();
        }
        match plan {
            Plan::Quit => After::Close,
            // Drivers believe what it says of autocommit and transactions.
            Plan::Ping => {
                let pong = packet::ok(1, self.session.status());
                self.answer(&pong, After::Next).await
            }
            Plan::Answer(answer) => self.answer(&answer, After::Next).await,
            Plan::Close(answer) => self.answer(&answer, After::Close).await,
            Plan::Send(shape, route) => {
                let received = Instant::now();
                let after = self.send(&packet, shape, &route, received).await;
                self.pool.tier.request_ended(received);
                after
            }
        }
    }

    async fn send(
        &mut self,
        packet: &Packet,
        shape: Shape,
        route: &Route,
        received: Instant,
    ) -> After {
        if !std::mem::replace(&mut self.is_judged, true) {
            if let Err(reason) = self.judge(packet).await {
                let error = not_open(packet.next_sequence(), reason);
                return self.answer(&error, After::Close).await;
            }
        }
        let deadline = (received + self.pool.tier.config().request_timeout()).into();
        let client = &mut self.conn;
        let outcome = match &mut self.session {
            Session::NotYet(_) => Outcome::Gone,
            Session::One(solo) => solo.serve(packet, shape, route, client, deadline).await,
            Session::Many(held) => {
                let serving = held.serve(packet, shape, route, deadline);
                match client.while_here(serving).await {
                    Some(Verdict::Nothing) => Outcome::Served,
                    Some(Verdict::Reply { packets, rest }) => self.relay(&packets, rest).await,
                    Some(Verdict::Gone) => Outcome::Gone,
                    Some(Verdict::TimedOut) => Outcome::TimedOut,
                    None => Outcome::Cut,
                }
            }
        };
        let sequence = packet.next_sequence();
        let counters = &self.pool.tier.counters;
        match outcome {
            Outcome::Served => {
                counters.answered.inc();
                After::Next
            }
            Outcome::Cut => {
                counters.failed.inc();
                After::Close
            }
            Outcome::Unsent => {
                let text = "arbiter: no token came free in time; this was not sent, and the \
                            session goes on";
                let error = packet::error(sequence, 1969, "70100", text);
                self.answer(&error, After::Next).await
            }
            Outcome::Gone => {
                let text = "arbiter: the connection to the server is lost; connect again";
                let error = packet::error(sequence, 1053, "08S01", text);
                self.answer(&error, After::Close).await
            }
            Outcome::TimedOut => {
                let text = "arbiter: no server replied in time; connect again";
                let error = packet::error(sequence, 1969, "70100", text);
                self.answer(&error, After::Close).await
            }
        }
    }

    async fn relay(&mut self, packets: &[u8], rest: Option<mpsc::Receiver<Piece>>) -> Outcome {
        let limit = self.pool.tier.config().request_timeout();
        let mut written = self.conn.write(packets, limit).await.is_ok();
        if let Some(mut rest) = rest {
            while written {
                // A piece that is an error: the reply broke off, and so must ours.
                written = match self.conn.while_here(rest.recv()).await {
                    Some(Some(Ok(piece))) => self.conn.write(&piece, limit).await.is_ok(),
                    Some(None) => break,
                    Some(Some(Err(()))) | None => false,
                };
            }
        }
        if written {
            Outcome::Served
        } else {
            Outcome::Cut
        }
    }

    /// The arbiter's own answer.
    async fn answer(&mut self, answer: &Packet, after: After) -> After {
        let counters = &self.pool.tier.counters;
        let is_error = answer.payload().first() == Some(&0xff);
        if is_error {
            counters.failed.inc()
        } else {
            counters.answered.inc()
        }
        match self
            .conn
            .write(answer.bytes(), self.pool.tier.config().request_timeout())
            .await
        {
            Ok(()) => after,
            Err(_) => After::Close,
        }
    }
}

/// What to do with a command. `may_misread`: clone nothing, our reading of texts may be wrong.
fn plan(packet: &Packet, may_misread: bool) -> Plan {
    let sequence = packet.next_sequence();
    let refuse = |text: &str| Plan::Answer(packet::error(sequence, 1047, "08S01", text));
    if packet.sequence() != 0 {
        return Plan::Close(packet::error(1, 1156, "08S01", "Got packets out of order"));
    }
    let Some((&command, body)) = packet.payload().split_first() else {
        return refuse("arbiter: an empty command");
    };
    // Of several packets only the first is read here: such a text is not judged.
    let may_misread = may_misread || packet.payload().len() == PAYLOAD_MAX;
    match command {
        0x01 => Plan::Quit,
        0x02 if body.len() > NAME_BYTES_MAX => refuse("arbiter: a database's name is too long"),
        0x02 => Plan::Send(Shape::Results, Route::Session(Effect::Use(body.to_vec()))),
        0x03 => match classify(body) {
            Class::Refuse(text) => {
                let text = format!("arbiter: {text}");
                Plan::Answer(packet::error(sequence, 1148, "42000", &text))
            }
            Class::Lock => Plan::Send(Shape::Results, Route::Lock),
            _ if may_misread => Plan::Send(Shape::Results, Route::Pin),
            Class::Read => Plan::Send(Shape::Results, Route::Race),
            Class::One => Plan::Send(Shape::Results, Route::One),
            Class::Session(effect) => Plan::Send(Shape::Results, Route::Session(effect)),
            Class::Pin => Plan::Send(Shape::Results, Route::Pin),
        },
        0x04 => Plan::Send(Shape::Rows, Route::One),
        0x09 => Plan::Send(Shape::Single, Route::One),
        0x0e => Plan::Ping,
        0x11 => refuse("arbiter: COM_CHANGE_USER is not supported; open another connection"),
        0x16 if classify(body) == Class::Lock => Plan::Send(Shape::Prepared, Route::Lock),
        0x16 => Plan::Send(Shape::Prepared, Route::Pin),
        0x17 | 0x1a => Plan::Send(Shape::Results, Route::Pin),
        0x18 | 0x19 => Plan::Send(Shape::Nothing, Route::Pin),
        0x1b => Plan::Send(Shape::Single, Route::Session(Effect::Sticky)),
        0x1c => Plan::Send(Shape::Rows, Route::Pin),
        0x1f => Plan::Send(Shape::Results, Route::Session(Effect::Reset)),
        other => refuse(&format!("arbiter: command {other:#04x} is not supported")),
    }
}
