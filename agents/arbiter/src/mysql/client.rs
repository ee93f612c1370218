//! A client's connection: logged in, then command after command.

use std::sync::Arc;
use std::time::Instant;

use policy::Refused;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::classify::{classify, Class, Does, Effect, Left};
use super::contest::Piece;
use super::login::{log_in, Login};
use super::packet::{self, Message, Packet, PAYLOAD_MAX};
use super::reply::Shape;
use super::server_pool::ServerPool;
use super::session::{Served, Session};
use super::statements::Statements;
use super::types::{Beginning, NotOpen, Outcome, Request, Route, Statement, Verdict};
use crate::collision_avoidance::Stamp;
use crate::conn::Conn;

/// Longest name of a database [bytes]: 64 characters.
const NAME_BYTES_MAX: usize = 4 * 64;

/// Fate of a connection after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    Close,
}

/// Serves a client until it goes.
pub async fn serve(pool: Arc<ServerPool>, stream: TcpStream) {
    let mut conn = Conn::new(stream);
    let Some(Login { response, sequence }) = log_in(&pool, &mut conn).await else {
        return;
    };
    let start = Beginning { key: response.key, database: response.database, stamp: None };
    let mut client = Client {
        session: Session::new(Arc::clone(&pool), start),
        statements: Statements::default(),
        pool,
        conn,
        is_judged: false,
        may_be_misread: response.key.may_be_misread(),
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
        NotOpen::NoPrimary(none) => {
            error(1290, "HY000", &format!("arbiter: {none}; it was not executed"))
        }
        NotOpen::TooMuchState => error(
            1105,
            "HY000",
            "arbiter: the session has too many settings to be taken to another server; connect again",
        ),
        NotOpen::TimedOut => error(1040, "08004", "arbiter: no server came free in time"),
    }
}

struct Client {
    pool: Arc<ServerPool>,
    conn: Conn,
    session: Session,
    statements: Statements,
    /// True once a stamp was looked for.
    is_judged: bool,
    /// True if the arbiter may misread the ends of texts in its character set.
    may_be_misread: bool,
}

/// Treatment of a command.
enum Plan {
    Quit,
    Ping,
    Answer(Packet),
    Close(Packet),
    /// No reply is due.
    Nothing,
    Send(Sending),
}

/// A command for servers.
struct Sending {
    shape: Shape,
    route: Route,
    statement: Statement,
    does: Does,
    /// A packet that is sent instead.
    instead: Option<Packet>,
}

impl Sending {
    fn new(shape: Shape, route: Route) -> Self {
        Self { shape, route, statement: Statement::None, does: Does::Nothing, instead: None }
    }
}

impl Plan {
    fn send(shape: Shape, route: Route) -> Self {
        Self::Send(Sending::new(shape, route))
    }
}

impl Client {
    /// Ends the connection phase.
    async fn welcome(&mut self, sequence: u8) -> After {
        // Otherwise the first statement may say which servers to avoid.
        if !self.pool.tier.config().avoid_collisions {
            let opened = tokio::select! {
                opened = self.session.open(None) => opened,
                // It must wait for our word; so it has gone.
                () = self.conn.spoken() => return After::Close,
            };
            if let Err(reason) = opened {
                let error = not_open(sequence, reason);
                return self.answer(&error, After::Close).await;
            }
        }
        let limit = self.pool.tier.config().request_timeout();
        let welcome = packet::ok(sequence, self.session.status());
        match self.conn.write(welcome.bytes(), limit).await {
            Ok(()) => After::Next,
            Err(_) => After::Close,
        }
    }

    /// Looks for a stamp in the first statement, and chooses the servers if that was deferred to
    /// it.
    async fn judge(&mut self, packet: &Packet) -> Result<(), NotOpen> {
        let stamp = Stamp::of_statement(packet.payload());
        if stamp.is_some() {
            self.pool.tier.siblings.counters.sessions.inc();
        }
        self.session.open(stamp).await
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
        let plan = self.plan(&packet);
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
            Plan::Nothing => After::Next,
            Plan::Send(sending) => {
                let received = Instant::now();
                let (counters, does) = (&self.pool.tier.counters, sending.does);
                match does {
                    Does::Reads => counters.reads.inc(),
                    Does::Writes => counters.writes.inc(),
                    Does::Nothing => {}
                }
                let request = Request {
                    packet: sending.instead.as_ref().unwrap_or(&packet),
                    shape: sending.shape,
                    route: &sending.route,
                    statement: sending.statement,
                };
                let after = self.send(request, received).await;
                self.pool.tier.request_ended(received);
                if does == Does::Reads && self.session.was_writer() {
                    self.pool.tier.counters.reads_of_one.inc();
                }
                after
            }
        }
    }

    async fn send(&mut self, request: Request<'_>, received: Instant) -> After {
        let sequence = request.packet.next_sequence();
        if !std::mem::replace(&mut self.is_judged, true) {
            if let Err(reason) = self.judge(request.packet).await {
                let error = not_open(sequence, reason);
                return self.answer(&error, After::Close).await;
            }
        }
        let deadline = (received + self.pool.tier.config().request_timeout()).into();
        let served = self.session.serve(request, &mut self.conn, deadline).await;
        let outcome = match served {
            Ok(Served::Passed(outcome)) => {
                if let Statement::Prepare(id) = request.statement {
                    self.statements.prepared(id, &self.session.prepared());
                }
                outcome
            }
            Ok(Served::Reply(Verdict::Nothing)) => Outcome::Served,
            Ok(Served::Reply(Verdict::Reply { packets, rest })) => {
                if let Statement::Prepare(id) = request.statement {
                    let first = packets.get(packet::HEADER..).unwrap_or_default();
                    self.statements.prepared(id, first);
                }
                self.relay(&packets, rest).await
            }
            Ok(Served::Reply(Verdict::Gone)) => Outcome::Gone,
            Ok(Served::Reply(Verdict::TimedOut)) => Outcome::TimedOut,
            Err(reason) => {
                let error = not_open(sequence, reason);
                return self.answer(&error, After::Next).await;
            }
        };
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

    /// Sends a reply of the arbiter's own.
    async fn answer(&mut self, answer: &Packet, after: After) -> After {
        let counters = &self.pool.tier.counters;
        let is_error = answer.payload().first() == Some(&0xff);
        if is_error {
            counters.failed.inc()
        } else {
            counters.answered.inc()
        }
        match self.conn.write(answer.bytes(), self.pool.tier.config().request_timeout()).await {
            Ok(()) => after,
            Err(_) => After::Close,
        }
    }
}

impl Client {
    /// Plans a command.
    fn plan(&mut self, packet: &Packet) -> Plan {
        let sequence = packet.next_sequence();
        let refuse = |text: &str| Plan::Answer(packet::error(sequence, 1047, "08S01", text));
        if packet.sequence() != 0 {
            return Plan::Close(packet::error(1, 1156, "08S01", "Got packets out of order"));
        }
        let Some((&command, body)) = packet.payload().split_first() else {
            return refuse("arbiter: an empty command");
        };
        match command {
            0x01 => Plan::Quit,
            0x02 if body.len() > NAME_BYTES_MAX => refuse("arbiter: a database's name is too long"),
            0x02 => Plan::send(Shape::Results, Route::Session(Effect::Use(body.to_vec()))),
            0x03 => match self.route(packet, body) {
                Ok((route, does)) => {
                    Plan::Send(Sending { does, ..Sending::new(Shape::Results, route) })
                }
                Err(refusal) => Plan::Answer(refusal),
            },
            0x04 => Plan::send(Shape::Rows, Route::One),
            0x09 => Plan::send(Shape::Single, Route::One),
            0x0e => Plan::Ping,
            0x11 => refuse("arbiter: COM_CHANGE_USER is not supported; open another connection"),
            0x16 => self.prepare(packet, body),
            0x17..=0x1a | 0x1c => self.prepared(packet, command),
            0x1b => Plan::send(Shape::Single, Route::Session(Effect::Sticky)),
            0x1f => {
                self.statements.clear();
                Plan::send(Shape::Results, Route::Session(Effect::Reset))
            }
            other => refuse(&format!("arbiter: command {other:#04x} is not supported")),
        }
    }

    /// Route and effect of a statement, or the reason for refusing it.
    fn route(&self, packet: &Packet, sql: &[u8]) -> Result<(Route, Does), Packet> {
        let refuse =
            |code, state, text: &str| Err(packet::error(packet.next_sequence(), code, state, text));
        let class = classify(sql);
        if let Class::Refuse(text) = class {
            return refuse(1148, "42000", &format!("arbiter: {text}"));
        }
        let has_primary = self.pool.account().primary.is_some();
        if matches!(class, Class::Write(_)) && !has_primary && self.pool.tier.servers().len() > 1 {
            let text = "arbiter: it is not known which server may be written to, so that this was \
                        not sent: set mysql.primary";
            return refuse(1290, "HY000", text);
        }
        // Of several packets only the first is read here: such a text is not judged.
        let is_misread =
            self.may_be_misread || self.pool.may_misread() || packet.payload().len() == PAYLOAD_MAX;
        let does = class.does();
        let route = match class {
            Class::Lock | Class::Write(Left::Locks) => Route::Lock,
            _ if is_misread => Route::Pin,
            Class::Read => Route::Race,
            Class::One => Route::One,
            Class::InsertId => Route::Left,
            Class::Write(Left::Nothing) | Class::LockingRead if has_primary => Route::Write,
            Class::Session(effect) => Route::Session(effect),
            Class::Write(_) | Class::LockingRead | Class::Pin | Class::Refuse(_) => Route::Pin,
        };
        Ok((route, does))
    }

    /// Plans a preparation: all servers prepare it; the text decides about the execution.
    fn prepare(&mut self, packet: &Packet, sql: &[u8]) -> Plan {
        let (route, does) = match self.route(packet, sql) {
            // With parameters its text does not say what it does.
            Ok((Route::Session(_), _)) if sql.contains(&b'?') => (Route::Pin, Does::Nothing),
            Ok(found) => found,
            Err(refusal) => return Plan::Answer(refusal),
        };
        let Some(id) = self.statements.add(route, does, sql) else {
            let text = "arbiter: this client has too many prepared statements";
            let error = packet::error(packet.next_sequence(), 1461, "42000", text);
            return Plan::Answer(error);
        };
        Plan::Send(Sending {
            statement: Statement::Prepare(id),
            ..Sending::new(Shape::Prepared, Route::Session(Effect::Prepare(id)))
        })
    }

    /// Plans a command about a prepared statement.
    fn prepared(&mut self, packet: &Packet, command: u8) -> Plan {
        let Some(id) = self.statements.named(packet) else {
            if matches!(command, 0x18 | 0x19) {
                return Plan::Nothing;
            }
            let text = "arbiter: Unknown prepared statement handler";
            let error = packet::error(packet.next_sequence(), 1243, "HY000", text);
            return Plan::Answer(error);
        };
        let (shape, route, instead) = match command {
            0x17 => match self.statements.execute(id, packet) {
                Some((route, instead)) => (Shape::Results, route, instead),
                None => {
                    let text = "arbiter: Incorrect arguments to mysqld_stmt_execute";
                    let error = packet::error(packet.next_sequence(), 1210, "HY000", text);
                    return Plan::Answer(error);
                }
            },
            // A part of a parameter, for one server.
            0x18 => (Shape::Nothing, Route::Pin, None),
            0x19 => {
                self.statements.close(id);
                let sending = Sending::new(Shape::Nothing, Route::Session(Effect::Close(id)));
                return Plan::Send(Sending { statement: Statement::Close(id), ..sending });
            }
            // Forgets such parts, and a cursor: both have pinned.
            0x1a => (Shape::Results, Route::One, None),
            _ => (Shape::Rows, Route::Pin, None),
        };
        let statement = match route {
            Route::Session(_) => Statement::None,
            _ => Statement::Use(id),
        };
        let does = match command {
            0x17 => self.statements.does(id),
            _ => Does::Nothing,
        };
        Plan::Send(Sending { statement, does, instead, ..Sending::new(shape, route) })
    }
}
