//! What clients invoke, and whether a reply can be right.

use std::future::Future;
use std::pin::Pin;

use serde::Deserialize;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::api::lots_client::LotsClient;
use crate::api::{Car, Entry, Nothing};
use crate::server::{CLIENT, NUMBER, SERVER};

/// The lot that cars enter.
const LOT: i32 = 1;
/// All there are.
const LOTS: [i32; 4] = [1, 2, 3, 4];

/// What is invoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Calls {
    /// `GetLots`, the method that the paper measures.
    Reads,
    /// `EnterLot` and `ExitLot` in turn: changes, each to be done once.
    Changes,
    /// A read after each change.
    Mixed,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reads.
    GetLots,
    /// Parks the client's car.
    Enter,
    /// Takes it out.
    Exit,
}

impl Calls {
    /// The invocation of this number.
    #[must_use]
    pub fn at(self, number: i64) -> Call {
        match (self, number % 4) {
            (Self::Reads, _) | (Self::Mixed, 1 | 3) => Call::GetLots,
            (Self::Changes | Self::Mixed, 0) | (Self::Changes, 2) => Call::Enter,
            _ => Call::Exit,
        }
    }

    /// Whether the client's car is outside before the invocation of this number.
    #[must_use]
    pub fn is_outside_before(self, number: i64) -> bool {
        match self {
            Self::Reads => true,
            Self::Changes => number % 2 == 0,
            Self::Mixed => matches!(number % 4, 0 | 3),
        }
    }
}

impl Call {
    /// Whether doing it twice is as doing it once, so that it may be sent twice at a time.
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        self == Self::GetLots
    }
}

/// What a server replied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Who it is; behind an arbiter the client does not know it otherwise. Empty of a refusal.
    pub server: String,
    /// Whether the reply can be that of a call that was done once.
    pub is_right: bool,
}

/// A request under way.
pub type Flight = Pin<Box<dyn Future<Output = Result<Reply, Status>> + Send>>;

/// Sends a call, as this client's request of this number.
pub fn send(channel: Channel, call: Call, client: i32, number: i64) -> Flight {
    Box::pin(async move {
        let mut lots = LotsClient::new(channel);
        let sent = match call {
            Call::GetLots => {
                let answer = lots
                    .get_lots(asked(Nothing::default(), client, number))
                    .await?;
                let is_right = answer.get_ref().values == LOTS;
                reply_of(&answer, is_right)
            }
            Call::Enter => {
                let entry = Entry { client, lot: LOT };
                let answer = lots.enter_lot(asked(entry, client, number)).await?;
                // Where it is full the reply names others.
                let is_right = !answer.get_ref().values.contains(&LOT);
                reply_of(&answer, is_right)
            }
            Call::Exit => {
                let answer = lots.exit_lot(asked(Car { client }, client, number)).await?;
                reply_of(&answer, true)
            }
        };
        Ok(sent)
    })
}

fn asked<T>(message: T, client: i32, number: i64) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(CLIENT, client.into());
    request.metadata_mut().insert(NUMBER, number.into());
    request
}

fn reply_of<T>(answer: &Response<T>, is_right: bool) -> Reply {
    let server = named(answer.metadata());
    Reply { server, is_right }
}

fn named(metadata: &MetadataMap) -> String {
    let name = metadata.get(SERVER).and_then(|value| value.to_str().ok());
    name.unwrap_or_default().to_owned()
}

/// Whether another server would say the same: no client asks for what cannot be done once.
#[must_use]
pub fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_enters_only_from_outside_and_leaves_only_from_inside() {
        for calls in [Calls::Changes, Calls::Mixed] {
            let mut is_outside = true;
            for number in 0..16 {
                assert_eq!(calls.is_outside_before(number), is_outside, "{calls:?}");
                match calls.at(number) {
                    Call::Enter => assert!(std::mem::replace(&mut is_outside, false)),
                    Call::Exit => assert!(!std::mem::replace(&mut is_outside, true)),
                    Call::GetLots => {}
                }
            }
        }
    }
}
