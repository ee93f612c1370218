//! Invocations of clients: all ten methods or one, in an order in which each reply is known before.
//!
//! A client's car enters a lot, is moved, and leaves. Its level is told after each move, and the
//! order is such that a move that was made twice ends at another level. Lots differ by client and
//! round, so a reply that is another call's is seldom the expected one.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::api::lots_client::LotsClient;
use crate::api::{Car, Entry, Lot, Nothing, Number, Numbers};
use crate::server::{CLIENT, NUMBER, SERVER};
use crate::store::LOTS;

/// The operation that is invoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Calls {
    /// `GetLots`, the method that the paper measures.
    Reads,
    /// All ten methods in turn.
    All,
}

/// A method, as the service names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Method {
    EnterLot,
    ExitLot,
    #[serde(rename = "GetClientID")]
    GetClientId,
    GetOtherLotAvailability,
    GetLots,
    MoveUpLevel,
    MoveDownLevel,
    GetCurrentLevel,
    GetMaxLevel,
    GetMinLevel,
}

/// A round of `All`: no move is cut short at a lot's highest or lowest level.
const ROUND: [Method; 11] = [
    Method::EnterLot,
    Method::MoveUpLevel,
    Method::MoveUpLevel,
    Method::MoveDownLevel,
    Method::GetCurrentLevel,
    Method::GetMaxLevel,
    Method::GetMinLevel,
    Method::ExitLot,
    Method::GetOtherLotAvailability,
    Method::GetLots,
    Method::GetClientId,
];
/// Levels above the lowest before each call of a round, where the car is inside.
const RAISED: [Option<i32>; 11] =
    [None, Some(0), Some(1), Some(2), Some(1), Some(1), Some(1), Some(1), None, None, None];

impl Method {
    /// True where it changes nothing, so that it may be sent twice at a time.
    pub fn is_read(self) -> bool {
        !matches!(self, Self::EnterLot | Self::ExitLot | Self::MoveUpLevel | Self::MoveDownLevel)
    }
}

/// An invocation, and what a server says to it that has made each change before it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The lot that it names, or that the client's car is in.
    lot: i32,
    /// The reply.
    expected: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Nothing,
    Level(i32),
    Lots(Vec<i32>),
    /// A number that is not the client's own.
    OtherThanOwn,
}

/// A client's place in what it invokes.
#[derive(Debug)]
pub struct Visit {
    calls: Calls,
    client: usize,
    round: usize,
    place: usize,
}

impl Visit {
    /// The visits of this program's client `client`, at the start of a round.
    pub fn new(calls: Calls, client: usize) -> Self {
        Self { calls, client, round: 0, place: 0 }
    }

    /// The invocation that is due.
    pub fn call(&self) -> Call {
        let (lot, lowest, highest, _) = LOTS[(self.client + self.round) % LOTS.len()];
        let method = match self.calls {
            Calls::Reads => Method::GetLots,
            Calls::All => ROUND[self.place],
        };
        // A move's reply is the level after it, which is the one before the next call.
        let raised = |place: usize| lowest + RAISED[place].unwrap_or_default();
        let all = || LOTS.iter().map(|lot| lot.0);
        let expected = match method {
            Method::EnterLot => Expected::Lots(Vec::new()), // it has room
            Method::ExitLot => Expected::Nothing,
            Method::GetClientId => Expected::OtherThanOwn,
            Method::GetOtherLotAvailability => {
                Expected::Lots(all().filter(|other| *other != lot).collect())
            }
            Method::GetLots => Expected::Lots(all().collect()),
            Method::MoveUpLevel | Method::MoveDownLevel => Expected::Level(raised(self.place + 1)),
            Method::GetCurrentLevel => Expected::Level(raised(self.place)),
            Method::GetMaxLevel => Expected::Level(highest),
            Method::GetMinLevel => Expected::Level(lowest),
        };
        Call { method, lot, expected }
    }

    /// The invocation is over, and is the next one's turn.
    pub fn advance(&mut self) {
        self.place = (self.place + 1) % ROUND.len();
        self.round += usize::from(self.place == 0);
    }

    /// The client begins anew, with another car: where its own is, is not known.
    pub fn begin_anew(&mut self) {
        self.place = 0;
        self.round += 1;
    }

    /// True where the client's car is outside before the invocation that is due.
    pub fn is_outside(&self) -> bool {
        self.calls == Calls::Reads || RAISED[self.place].is_none()
    }
}

/// A server's reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The server's name, which a client behind an arbiter does not know otherwise. Empty of a refusal.
    pub server: String,
    /// True of this request's reply, from a server that made each change once.
    pub is_right: bool,
}

/// A request under way.
pub type Flight = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send>>;

/// Sends a call, as this client's request of this number.
pub fn send(channel: Channel, call: Call, client: i32, number: i64) -> Flight {
    Box::pin(async move {
        let mut lots = LotsClient::new(channel);
        let (lot, car, nothing) = (call.lot, Car { client }, Nothing::default());
        let answer = match call.method {
            Method::EnterLot => {
                let entry = Entry { client, lot };
                values(lots.enter_lot(tag(entry, client, number)).await?)
            }
            Method::ExitLot => no_value(lots.exit_lot(tag(car, client, number)).await?),
            Method::GetClientId => value(lots.get_client_id(tag(nothing, client, number)).await?),
            Method::GetOtherLotAvailability => {
                let request = tag(Lot { lot }, client, number);
                values(lots.get_other_lot_availability(request).await?)
            }
            Method::GetLots => values(lots.get_lots(tag(nothing, client, number)).await?),
            Method::MoveUpLevel => value(lots.move_up_level(tag(car, client, number)).await?),
            Method::MoveDownLevel => value(lots.move_down_level(tag(car, client, number)).await?),
            Method::GetCurrentLevel => {
                value(lots.get_current_level(tag(nothing, client, number)).await?)
            }
            Method::GetMaxLevel => value(lots.get_max_level(tag(nothing, client, number)).await?),
            Method::GetMinLevel => value(lots.get_min_level(tag(nothing, client, number)).await?),
        };
        Ok(answer.reply(&call, client, number))
    })
}

fn tag<T>(message: T, client: i32, number: i64) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(CLIENT, client.into());
    request.metadata_mut().insert(NUMBER, number.into());
    request
}

/// An answer as it came.
struct Answer {
    metadata: MetadataMap,
    /// Its numbers; none without content.
    values: Vec<i32>,
}

impl Answer {
    fn reply(&self, call: &Call, client: i32, number: i64) -> Reply {
        let text = |key: &str| {
            let value = self.metadata.get(key).and_then(|value| value.to_str().ok());
            value.unwrap_or_default()
        };
        let is_own = text(CLIENT) == client.to_string() && text(NUMBER) == number.to_string();
        let is_expected = match &call.expected {
            Expected::Nothing => self.values.is_empty(),
            Expected::Level(level) => self.values == [*level],
            Expected::Lots(lots) => self.values == *lots,
            Expected::OtherThanOwn => self.values.len() == 1 && self.values != [client],
        };
        Reply { server: text(SERVER).to_owned(), is_right: is_own && is_expected }
    }
}

fn values(answer: Response<Numbers>) -> Answer {
    let (metadata, message, _) = answer.into_parts();
    let values = message.values;
    Answer { metadata, values }
}

fn value(answer: Response<Number>) -> Answer {
    let (metadata, message, _) = answer.into_parts();
    let values = vec![message.value];
    Answer { metadata, values }
}

fn no_value(answer: Response<Nothing>) -> Answer {
    let (metadata, _, _) = answer.into_parts();
    let values = Vec::new();
    Answer { metadata, values }
}

/// True if another server would say the same: no client asks for what cannot be done once.
pub fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(client: usize) -> Vec<(Call, bool)> {
        let mut visit = Visit::new(Calls::All, client);
        let mut calls = Vec::new();
        for _ in ROUND {
            calls.push((visit.call(), visit.is_outside()));
            visit.advance();
        }
        calls
    }

    #[test]
    fn a_round_has_all_ten_methods_and_ends_with_the_car_outside() {
        let mut methods = Vec::new();
        for (call, _) in round(0) {
            if !methods.contains(&call.method) {
                methods.push(call.method);
            }
        }
        assert_eq!(methods.len(), 10);
        let mut visit = Visit::new(Calls::All, 0);
        ROUND.iter().for_each(|_| visit.advance());
        assert!(visit.is_outside());
    }

    #[test]
    fn a_car_enters_from_outside_and_is_moved_and_leaves_from_inside() {
        for (call, is_outside) in round(1) {
            match call.method {
                Method::EnterLot => assert!(is_outside),
                Method::ExitLot | Method::MoveUpLevel | Method::MoveDownLevel => {
                    assert!(!is_outside);
                }
                _ => {}
            }
        }
    }

    /// The levels told, where the move `doubled` counted twice.
    fn levels(client: usize, doubled: Option<usize>) -> Vec<i32> {
        let mut visit = Visit::new(Calls::All, client);
        let (_, lowest, highest, _) = LOTS[client % LOTS.len()];
        let (mut level, mut levels) = (lowest, Vec::new());
        for place in 0..ROUND.len() {
            let by = match visit.call().method {
                Method::MoveUpLevel => 1,
                Method::MoveDownLevel => -1,
                _ => 0,
            };
            let times = if doubled == Some(place) { 2 } else { 1 };
            for _ in 0..times {
                level = (level + by).clamp(lowest, highest);
            }
            if by != 0 {
                levels.push(level);
            }
            visit.advance();
        }
        levels
    }

    #[test]
    fn a_move_that_is_made_twice_ends_at_another_level_than_the_client_expects() {
        for client in 0..LOTS.len() {
            let expected: Vec<i32> = round(client)
                .into_iter()
                .filter(|(call, _)| !call.method.is_read())
                .filter_map(|(call, _)| match call.expected {
                    Expected::Level(level) => Some(level),
                    _ => None,
                })
                .collect();
            assert_eq!(levels(client, None), expected);
            for place in [1, 2, 3] {
                assert_ne!(levels(client, Some(place)), expected, "{client} {place}");
            }
        }
    }

    fn answer(client: i32, number: i64, values: &[i32]) -> Answer {
        let metadata = tag(Nothing::default(), client, number).into_parts().0;
        let values = values.to_vec();
        Answer { metadata, values }
    }

    #[test]
    fn a_reply_to_another_request_is_not_right_though_it_says_the_same() {
        let visit = Visit::new(Calls::Reads, 0);
        let call = visit.call();
        assert!(answer(7, 3, &[1, 2, 3, 4]).reply(&call, 7, 3).is_right);
        assert!(!answer(7, 2, &[1, 2, 3, 4]).reply(&call, 7, 3).is_right);
        assert!(!answer(8, 3, &[1, 2, 3, 4]).reply(&call, 7, 3).is_right);
        assert!(!answer(7, 3, &[1, 2, 3]).reply(&call, 7, 3).is_right);
        let mut unnumbered = answer(7, 3, &[1, 2, 3, 4]);
        unnumbered.metadata.remove(NUMBER);
        assert!(!unnumbered.reply(&call, 7, 3).is_right);
    }

    #[test]
    fn a_client_that_begins_anew_enters_another_lot() {
        let mut visit = Visit::new(Calls::All, 0);
        let first = visit.call();
        visit.advance();
        visit.begin_anew();
        assert!(visit.is_outside());
        assert_eq!(visit.call().method, Method::EnterLot);
        assert_ne!(visit.call().lot, first.lot);
    }
}
