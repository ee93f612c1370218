//! Locust's messages: msgpack of (type, data, node).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::tally::Totals;

/// A message of the master, as far as the worker uses it.
#[derive(Debug, PartialEq)]
pub enum FromMaster {
    /// The master knows this worker, by this number.
    Ack(usize),
    /// Number of users of each class.
    Spawn(Spawn),
    /// The test is over.
    Stop,
    /// End this worker.
    Quit,
    /// A heartbeat, or a message without an action.
    Other,
}

/// See `FromMaster`.
#[derive(Debug, PartialEq, Deserialize)]
pub struct Spawn {
    /// Users by class.
    pub user_classes_count: BTreeMap<String, u64>,
    #[serde(default)]
    parsed_options: Options,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Options {
    #[serde(default)]
    expect_workers: Option<usize>,
}

impl Spawn {
    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.parsed_options.expect_workers.unwrap_or(1).max(1)
    }
}

#[derive(Deserialize)]
struct Ack {
    index: usize,
}

/// Users of each class in a worker.
#[derive(Serialize)]
pub struct Users<'a> {
    pub user_classes_count: &'a BTreeMap<String, u64>,
    pub user_count: u64,
}

/// A worker's heartbeat.
#[derive(Serialize)]
pub struct Heartbeat {
    pub state: &'static str,
    pub current_cpu_usage: f64,
    pub current_memory_usage: u64,
}

/// Statistics since the last message.
#[derive(Serialize)]
pub struct Stats<'a, T: Serialize> {
    #[serde(flatten)]
    pub report: T,
    #[serde(flatten)]
    pub users: Users<'a>,
}

/// All latencies of a block.
#[derive(Serialize)]
pub struct Latencies {
    pub unit: &'static str,
    pub digits: u8,
    pub histogram: String,
    pub totals: Totals,
}

/// Error of the worker.
#[derive(Serialize)]
pub struct Exception {
    pub msg: String,
    pub traceback: String,
}

impl<'a> Users<'a> {
    /// Their count is the sum.
    pub fn of(user_classes_count: &'a BTreeMap<String, u64>) -> Self {
        Self { user_classes_count, user_count: user_classes_count.values().sum() }
    }
}

/// A message's bytes.
///
/// # Errors
/// Never: what is said here is msgpack.
pub fn encode<T: Serialize>(kind: &str, data: &T, node: &str) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(&(kind, data, node)).context("message")
}

/// Decodes a message.
pub fn decode(bytes: &[u8]) -> Result<FromMaster> {
    let (kind, _, _): (String, IgnoredAny, IgnoredAny) =
        rmp_serde::from_slice(bytes).context("expected (type, data, node)")?;
    Ok(match kind.as_str() {
        "ack" => FromMaster::Ack(data::<Option<Ack>>(bytes)?.map_or(0, |ack| ack.index)),
        "spawn" => FromMaster::Spawn(data(bytes)?),
        "stop" => FromMaster::Stop,
        "quit" => FromMaster::Quit,
        _ => FromMaster::Other,
    })
}

fn data<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let (_, data, _): (IgnoredAny, T, IgnoredAny) = rmp_serde::from_slice(bytes)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawn_says_how_many_users_and_workers_there_are_beside_much_else() {
        #[derive(Serialize)]
        struct Data<'a> {
            timestamp: f64,
            user_classes_count: BTreeMap<&'a str, u64>,
            host: Option<&'a str>,
            parsed_options: BTreeMap<&'a str, Option<i64>>,
        }
        let data = Data {
            timestamp: 1.5,
            user_classes_count: BTreeMap::from([("Reader", 3)]),
            host: None,
            parsed_options: BTreeMap::from([("expect_workers", Some(2)), ("web_port", None)]),
        };
        let FromMaster::Spawn(spawn) = decode(&encode("spawn", &data, "w").unwrap()).unwrap()
        else {
            panic!("no spawn");
        };
        assert_eq!(spawn.user_classes_count["Reader"], 3);
        assert_eq!(spawn.workers(), 2);
    }

    #[test]
    fn what_asks_for_nothing_is_passed_by_and_what_is_no_message_is_an_error() {
        let bytes = encode("heartbeat", &None::<u8>, "w").unwrap();
        assert_eq!(decode(&bytes).unwrap(), FromMaster::Other);
        let bytes = encode("ack", &BTreeMap::from([("index", 4)]), "w").unwrap();
        assert_eq!(decode(&bytes).unwrap(), FromMaster::Ack(4));
        assert!(decode(b"hello").is_err());
    }
}
