//! Messages between nodes: on kept connections, in order, and datagrams of the monitor,
//! which may be lost.

use std::sync::Arc;

use bytes::Bytes;

use super::members::Members;

/// The name of a page: the path of its file below the root, without a leading slash.
pub type Key = Arc<str>;

/// Names a fetch among those that its node has under way.
pub type FetchId = u64;

/// A page in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The contents of the file.
    pub body: Bytes,
    /// Checksum of key and body, made when the file was read.
    pub check: u32,
}

impl Page {
    /// A page that has just been read.
    pub fn new(key: &str, body: Bytes) -> Self {
        let check = check_of(key, &body);
        Self { body, check }
    }

    /// True if it is the content that was read for this key.
    pub fn is_of(&self, key: &str) -> bool {
        self.check == check_of(key, &self.body)
    }
}

fn check_of(key: &str, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_bytes());
    sum.update(&[0]);
    sum.update(body);
    sum.finalize()
}

/// A message on a kept connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The sender's memory has changed.
    Changed(Change),
    /// A request for a page.
    Fetch {
        /// Number of the fetch, which the answer repeats.
        id: FetchId,
        /// Its page.
        key: Key,
    },
    /// The answer with the page.
    Page {
        /// Number of the fetch.
        id: FetchId,
        /// The page.
        page: Page,
    },
    /// The answer that the page is no longer in memory.
    Gone {
        /// Number of the fetch.
        id: FetchId,
    },
    /// The receiver has taken so many messages; as many more may be sent.
    Credit(u32),
    /// A change is missing: the receiver has to send all that it has.
    Resend,
}

/// A change of the sender's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Counts the changes told on this connection, so that a lost one is noticed.
    pub number: u64,
    /// True if earlier changes no longer count.
    pub is_reset: bool,
    /// New in memory.
    pub added: Vec<Key>,
    /// No longer there.
    pub evicted: Vec<Key>,
}

impl Message {
    /// True if it takes a place in the window; a message that frees one does not.
    pub fn is_counted(&self) -> bool {
        !matches!(self, Self::Credit(_) | Self::Resend)
    }
}

/// Order of views: the higher epoch is newer, then the master who is first in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewId {
    /// Rises with each view.
    pub epoch: u64,
    /// The node that made it.
    pub master: usize,
}

impl Ord for ViewId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let by_epoch = self.epoch.cmp(&other.epoch);
        by_epoch.then(other.master.cmp(&self.master))
    }
}

impl PartialOrd for ViewId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The members of the cluster, as its master says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// Its number.
    pub id: ViewId,
    /// Its members.
    pub members: Members,
}

/// A datagram of the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    /// A sign of life to the next node of the ring.
    Heartbeat,
    /// A master's view, sent to every node that there could be.
    Query(View),
    /// The answer to a query, sent to all nodes.
    Present,
    /// A report to the master that the sender's predecessor is silent.
    Suspect(usize),
}
