//! A client's connection: logged in, then command after command.

use std::sync::Arc;
use std::time::Instant;

use policy::Refused;
use tokio::net::TcpStream;

use super::classify::{classify, Class, Effect};
use super::held::{Held, NotOpen, Route, Verdict};
use super::hub::Hub;
use super::login::{log_in, Login};
use super::packet::{self, Packet, PAYLOAD_MAX};
use super::reply::Shape;
use crate::conn::Conn;

/// Whether more commands may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    Close,
}

/// Serves a client until it goes.
pub async fn serve(hub: Arc<Hub>, stream: TcpStream) {
    let mut conn = Conn::new(stream);
    let Some(login) = log_in(&hub, &mut conn).await else {
        return;
    };
    let Login { hello, sequence } = login;
    let opened = tokio::select! {
        opened = Held::open(Arc::clone(&hub), hello.key, hello.database) => opened,
        // It must wait for our word; so it has gone.
        () = conn.spoken() => return,
    };
    let limit = hub.tier.config().request_timeout();
    let (held, packet) = match opened {
        Ok(held) => (Some(held), packet::ok(sequence)),
        Err(reason) => {
            hub.tier.counters.failed.inc();
            (None, not_open(sequence, reason))
        }
    };
    let written = conn.write(packet.bytes(), limit).await;
    if let (Some(held), Ok(())) = (held, written) {
        let mut client = Client { hub, conn, held };
        while client.next_command().await == After::Next {}
    }
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

struct Client {
    hub: Arc<Hub>,
    conn: Conn,
    held: Held,
}

/// What a command asks for.
enum Plan {
    Quit,
    Answer(Packet),
    Close(Packet),
    Send(Shape, Route),
}

impl Client {
    async fn next_command(&mut self) -> After {
        let read = tokio::select! {
            read = packet::read(&mut self.conn) => read,
            never = self.held.tend() => match never {},
        };
        let Ok(Some(packet)) = read else {
            return After::Close;
        };
        let plan = plan(&packet, self.hub.may_misread());
        if !matches!(plan, Plan::Quit) {
            self.hub.tier.counters.received.inc();
        }
        match plan {
            Plan::Quit => After::Close,
            Plan::Answer(answer) => self.answer(&answer, After::Next).await,
            Plan::Close(answer) => self.answer(&answer, After::Close).await,
            Plan::Send(shape, route) => {
                let received = Instant::now();
                let verdict = self.held.serve(&packet, shape, &route).await;
                let after = self.relay(verdict).await;
                self.hub.tier.request_ended(received);
                after
            }
        }
    }

    async fn relay(&mut self, verdict: Verdict) -> After {
        let counters = &self.hub.tier.counters;
        let limit = self.hub.tier.config().request_timeout();
        match verdict {
            Verdict::Nothing => {
                counters.answered.inc();
                After::Next
            }
            Verdict::Reply { packets, rest } => {
                let mut written = self.conn.write(&packets, limit).await.is_ok();
                if let Some(mut rest) = rest {
                    while let (true, Some(piece)) = (written, rest.recv().await) {
                        // A piece that is an error: the reply broke off, and so must ours.
                        written = match piece {
                            Ok(piece) => self.conn.write(&piece, limit).await.is_ok(),
                            Err(()) => false,
                        };
                    }
                }
                if written {
                    counters.answered.inc()
                } else {
                    counters.failed.inc()
                }
                if written {
                    After::Next
                } else {
                    After::Close
                }
            }
            Verdict::Gone => {
                let text = "arbiter: the connection to the server is lost; connect again";
                self.fail(&packet::error(1, 1053, "08S01", text)).await
            }
            Verdict::TimedOut => {
                let text = "arbiter: no server replied in time; connect again";
                self.fail(&packet::error(1, 1969, "70100", text)).await
            }
        }
    }

    /// The session cannot go on.
    async fn fail(&mut self, error: &Packet) -> After {
        self.hub.tier.counters.failed.inc();
        let limit = self.hub.tier.config().request_timeout();
        // Closed in any case.
        let _ = self.conn.write(error.bytes(), limit).await;
        After::Close
    }

    /// The arbiter's own answer.
    async fn answer(&mut self, answer: &Packet, after: After) -> After {
        let counters = &self.hub.tier.counters;
        let is_error = answer.payload().first() == Some(&0xff);
        if is_error {
            counters.failed.inc()
        } else {
            counters.answered.inc()
        }
        match self
            .conn
            .write(answer.bytes(), self.hub.tier.config().request_timeout())
            .await
        {
            Ok(()) => after,
            Err(_) => After::Close,
        }
    }
}

/// What to do with a command. `may_misread`: clone nothing, our reading of texts may be wrong.
fn plan(packet: &Packet, may_misread: bool) -> Plan {
    let refuse = |text: &str| Plan::Answer(packet::error(1, 1047, "08S01", text));
    if packet.sequence() != 0 {
        return Plan::Close(packet::error(1, 1156, "08S01", "Got packets out of order"));
    }
    if packet.payload().len() >= PAYLOAD_MAX {
        let text = "arbiter: packets of 16 MiB and more are not supported";
        return Plan::Close(packet::error(1, 1153, "08S01", text));
    }
    let Some((&command, body)) = packet.payload().split_first() else {
        return refuse("arbiter: an empty command");
    };
    match command {
        0x01 => Plan::Quit,
        0x02 => Plan::Send(Shape::Results, Route::Session(Effect::Use(body.to_vec()))),
        0x03 => match classify(body) {
            Class::Refuse(text) => refuse(&format!("arbiter: {text}")),
            _ if may_misread => Plan::Send(Shape::Results, Route::Pin),
            Class::Read => Plan::Send(Shape::Results, Route::Race),
            Class::One => Plan::Send(Shape::Results, Route::One),
            Class::Session(effect) => Plan::Send(Shape::Results, Route::Session(effect)),
            Class::Pin => Plan::Send(Shape::Results, Route::Pin),
        },
        0x04 => Plan::Send(Shape::Rows, Route::One),
        0x09 => Plan::Send(Shape::Single, Route::One),
        0x0e => Plan::Answer(packet::ok(1)),
        0x11 => refuse("arbiter: COM_CHANGE_USER is not supported; open another connection"),
        0x16 => Plan::Send(Shape::Prepared, Route::Pin),
        0x17 | 0x1a => Plan::Send(Shape::Results, Route::Pin),
        0x18 | 0x19 => Plan::Send(Shape::Nothing, Route::Pin),
        0x1b => Plan::Send(Shape::Single, Route::Session(Effect::Sticky)),
        0x1c => Plan::Send(Shape::Rows, Route::Pin),
        0x1f => Plan::Send(Shape::Results, Route::Session(Effect::Reset)),
        other => refuse(&format!("arbiter: command {other:#04x} is not supported")),
    }
}
