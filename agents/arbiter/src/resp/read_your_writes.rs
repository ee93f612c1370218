//! Read your writes: the replicas that have all writes before a moment.
//!
//! While clients write, the primary is asked for its replication offset, round after round. A write
//! that was answered before a round began is within that round's offset; a replica that has applied as
//! much, of the same history, has the write. So a client that has written remembers the round that
//! begins next, and its reads go to the primary and to replicas that have that round.
//!
//! A replica whose connection breaks counts as having nothing until it is asked again, because it
//! may return with less. A primary that returns with less than it acknowledged has lost writes for
//! every client.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::ServerId;
use tokio::sync::{watch, Notify};
use tokio::time::{sleep, timeout};

use super::ask;
use crate::conn::Conn;
use crate::lock;
use crate::tier::{Tier, PRIMARY};

/// Time between two rounds, and between two questions to a lagging replica; the latter grows up to
/// the next constant.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Maximum rounds with remembered offsets; beyond it every second one is dropped.
const ROUNDS_MAX: usize = 1_024;

/// Rounds of asking the primary for its offset, and the servers that have reached them.
pub struct Rounds {
    /// The last round that began; the first is 1.
    begun: AtomicU64,
    /// The last round that each server has reached.
    has: Vec<AtomicU64>,
    wanted: Notify,
    offsets: Mutex<VecDeque<Offset>>,
    /// The last round with a known offset.
    known: watch::Sender<u64>,
}

struct Offset {
    round: u64,
    history: String,
    offset: u64,
}

impl Rounds {
    /// Starts without a round.
    pub fn new(servers: usize) -> Self {
        Self {
            begun: AtomicU64::new(0),
            has: (0..servers).map(|_| AtomicU64::new(0)).collect(),
            wanted: Notify::new(),
            offsets: Mutex::default(),
            known: watch::Sender::new(0),
        }
    }

    /// The round that covers everything answered before this call.
    pub fn next(&self) -> u64 {
        let next = self.begun.load(SeqCst) + 1;
        self.wanted.notify_one();
        next
    }

    /// Fills `lacking` with the replicas that may lack the round.
    pub fn lacking(&self, round: u64, lacking: &mut Vec<ServerId>) {
        lacking.clear();
        let replicas = self.has.iter().enumerate().skip(PRIMARY + 1);
        lacking
            .extend(replicas.filter(|(_, has)| has.load(SeqCst) < round).map(|(server, _)| server));
    }

    fn add(&self, round: u64, history: String, offset: u64) {
        let mut offsets = lock(&self.offsets);
        if offsets.len() >= ROUNDS_MAX {
            let mut keeps = false;
            offsets.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        offsets.push_back(Offset { round, history, offset });
        drop(offsets);
        self.known.send_replace(round);
    }

    /// The last round within this offset.
    fn within(&self, history: &str, offset: u64) -> Option<u64> {
        let offsets = lock(&self.offsets);
        let mut latest_first = offsets.iter().rev();
        let latest = latest_first.find(|it| it.history == history && it.offset <= offset);
        latest.map(|it| it.round)
    }
}

/// Asks primary and replicas while clients write, for ever.
pub fn watch_all(tier: &Arc<Tier>, rounds: &Arc<Rounds>) {
    tokio::spawn(begin_rounds(Arc::clone(tier), Arc::clone(rounds)));
    for server in PRIMARY + 1..tier.servers().len() {
        tokio::spawn(follow(Arc::clone(tier), Arc::clone(rounds), server));
    }
}

async fn begin_rounds(tier: Arc<Tier>, rounds: Arc<Rounds>) {
    let mut monitor = Monitor::new(PRIMARY);
    loop {
        rounds.wanted.notified().await;
        let round = rounds.begun.fetch_add(1, SeqCst) + 1;
        let mut pause = PAUSE;
        loop {
            let state = monitor.ask(&tier).await;
            if let Some(Replication { history, offset, .. }) = state.filter(|it| it.is_primary) {
                rounds.add(round, history, offset);
                break;
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
        sleep(PAUSE).await;
    }
}

/// Follows one replica's state.
async fn follow(tier: Arc<Tier>, rounds: Arc<Rounds>, server: ServerId) {
    let (has, mut known) = (&rounds.has[server], rounds.known.subscribe());
    let mut monitor = Monitor::new(server);
    let mut pause = PAUSE;
    loop {
        let latest = *known.borrow_and_update();
        if has.load(SeqCst) >= latest {
            pause = PAUSE;
            tokio::select! {
                biased;
                () = monitor.lost() => has.store(0, SeqCst),
                // An error means that the tier is gone.
                changed = known.changed() => if changed.is_err() { return },
            }
            continue;
        }
        let state = monitor.ask(&tier).await;
        let round = match state.filter(|it| !it.is_primary) {
            Some(state) => rounds.within(&state.history, state.offset),
            None => Some(0),
        };
        // Behind all that is remembered, it has still what it had.
        if let Some(round) = round {
            has.store(round, SeqCst);
        }
        if has.load(SeqCst) < latest {
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// A server's replication state, as it reports it.
struct Replication {
    is_primary: bool,
    history: String,
    offset: u64,
}

impl Replication {
    /// Parses it; none for a replica that has lost its primary.
    fn read(info: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        };
        let is_primary = value("role")? == "master";
        if !is_primary && value("master_link_status")? != "up" {
            return None;
        }
        let offset = match is_primary {
            true => "master_repl_offset",
            false => "slave_repl_offset",
        };
        Some(Self {
            is_primary,
            history: value("master_replid")?.to_owned(),
            offset: value(offset)?.parse().ok()?,
        })
    }
}

/// A server with the connection on which it is asked.
struct Monitor {
    server: ServerId,
    conn: Option<Conn>,
}

impl Monitor {
    fn new(server: ServerId) -> Self {
        Self { server, conn: None }
    }

    /// Asks; none if it does not answer, or if the connection was renewed, which voids earlier
    /// answers.
    async fn ask(&mut self, tier: &Arc<Tier>) -> Option<Replication> {
        let limit = tier.config().connect_timeout();
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => Conn::new(tier.dial(self.server).await.ok()?),
        };
        let info =
            timeout(limit, ask(&mut conn, b"INFO replication\r\n", limit)).await.ok()?.ok()?;
        self.conn = Some(conn);
        Replication::read(&info)
    }

    /// Waits until the server's connection breaks.
    async fn lost(&mut self) {
        let Some(conn) = &mut self.conn else {
            return std::future::pending().await;
        };
        conn.spoken().await;
        self.conn = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(rounds: &Rounds, round: u64) -> Vec<ServerId> {
        let mut lacking = vec![9];
        rounds.lacking(round, &mut lacking);
        lacking
    }

    #[test]
    fn a_replica_has_a_round_once_it_has_its_offset_of_the_same_history() {
        let rounds = Rounds::new(3);
        assert_eq!(lacking(&rounds, 0), Vec::<ServerId>::new());
        let round = rounds.next();
        assert_eq!((round, lacking(&rounds, round)), (1, vec![1, 2]));
        rounds.add(1, "a".into(), 100);
        rounds.add(2, "a".into(), 200);
        assert_eq!(rounds.within("a", 99), None);
        assert_eq!(rounds.within("a", 100), Some(1));
        assert_eq!(rounds.within("a", 250), Some(2));
        assert_eq!(rounds.within("b", 250), None);
        rounds.has[2].store(1, SeqCst);
        assert_eq!(lacking(&rounds, 1), [1]);
        assert_eq!(lacking(&rounds, 2), [1, 2]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_thins_out() {
        let rounds = Rounds::new(2);
        for round in 1..=10_000 {
            rounds.add(round, "a".into(), round);
        }
        assert!(lock(&rounds.offsets).len() <= ROUNDS_MAX);
        assert_eq!(rounds.within("a", 10_000), Some(10_000));
        assert!(rounds.within("a", 5_000).is_some_and(|round| round <= 5_000));
    }

    #[test]
    fn a_replica_that_has_lost_its_primary_says_nothing() {
        let up = "# Replication\r\nrole:slave\r\nmaster_link_status:up\r\n\
                  slave_read_repl_offset:9\r\nslave_repl_offset:7\r\nmaster_replid:ab\r\n\
                  master_repl_offset:9\r\n";
        let state = Replication::read(up).unwrap();
        assert_eq!((state.is_primary, &state.history[..], state.offset), (false, "ab", 7));
        assert!(Replication::read(&up.replace("status:up", "status:down")).is_none());
        let primary = Replication::read(&up.replace("role:slave", "role:master")).unwrap();
        assert_eq!((primary.is_primary, primary.offset), (true, 9));
        assert!(Replication::read("-NOAUTH Authentication required.").is_none());
    }
}
