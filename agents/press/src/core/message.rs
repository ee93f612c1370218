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

/// On a kept connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The sender's memory has changed.
    Changed(Change),
    /// Send me this page.
    Fetch {
        /// Comes back with the answer.
        id: FetchId,
        /// Which.
        key: Key,
    },
    /// Here it is.
    Page {
        /// Of the fetch.
        id: FetchId,
        /// The page.
        page: Page,
    },
    /// It is not in memory here any more.
    Gone {
        /// Of the fetch.
        id: FetchId,
    },
    /// So many messages were taken: send as many more.
    Credit(u32),
    /// A change is missing: say again all that you have.
    Resend,
}

/// A change of the sender's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Counts the changes told on this connection, so that a lost one is noticed.
    pub number: u64,
    /// Forget what I said before.
    pub is_reset: bool,
    /// New in memory.
    pub added: Vec<Key>,
    /// No longer there.
    pub evicted: Vec<Key>,
}

impl Message {
    /// Does it take a place in the window? What frees one does not.
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
    /// Which view.
    pub id: ViewId,
    /// Its members.
    pub members: Members,
}

/// Of the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    /// To the next around the ring: I am alive.
    Heartbeat,
    /// From a master to every node there could be: this is the cluster; who is there?
    Query(View),
    /// The answer, to all: I am.
    Present,
    /// To the master: my predecessor is silent.
    Suspect(usize),
}
