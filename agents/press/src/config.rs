//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use flags::{Flags, Usage};

use crate::core::members::NODES_MAX;
use crate::core::membership::{Formed, Membership};
use crate::core::monitor::{Monitor, Times};
use crate::core::node::{Limits, Node};

/// The text of `--help`.
pub const USAGE: &str = "\
press: one node of a web server that is several

  press --name web-1 --peers web-1=10.0.0.1:8090,web-2=10.0.0.2:8090 --root /srv/pages

  --name NAME            which of the peers this node is
  --peers NAME=IP:PORT,...  all nodes, in the same order everywhere, where they reach each other (TCP, UDP)
  --root FOLDER          the pages; all nodes have the same
  --mode perf|ha|shed    tightly coupled; highly available; that, and 503 at once when busy (perf)
  --listen IP:PORT       clients (0.0.0.0:8080)
  --admin IP:PORT        GET /health, GET /metrics (127.0.0.1:8081)
  --cache-mib N          pages in memory (128)
  --window N             messages on their way to a peer (64)
  --queue N              messages that wait for one before the node takes no requests (64)
  --connections N        of clients at a time (512)
  --beat-ms N            between heartbeats (500; this and what follows not with perf)
  --query-ms N           between the master's queries (1000)
  --fail-after-ms N      who is silent for so long has failed (3000)

Exit code 0: ended by SIGTERM or SIGINT; 1: failed; 2: wrong usage.";

/// The configurations of PRESS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Tightly coupled.
    Perf,
    /// Highly available.
    Ha,
    /// High availability that also sheds load.
    Shed,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "perf" => Ok(Self::Perf),
            "ha" => Ok(Self::Ha),
            "shed" => Ok(Self::Shed),
            _ => Err("expected perf, ha or shed".to_owned()),
        }
    }
}

/// A node as others reach it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its address, for TCP and UDP.
    pub address: SocketAddr,
}

/// The settings of one node.
#[derive(Debug, Clone)]
pub struct Config {
    /// This node's place among `peers`.
    pub me: usize,
    /// All nodes.
    pub peers: Vec<Peer>,
    /// Folder with the pages.
    pub root: PathBuf,
    /// Configuration of the cluster.
    pub mode: Mode,
    /// Address for clients.
    pub listen: SocketAddr,
    /// Address for operators.
    pub admin: SocketAddr,
    /// Bounds of the node.
    pub limits: Limits,
    /// Maximum clients at a time.
    pub connections: usize,
    /// Times of the monitor.
    pub times: Times,
}

impl Config {
    /// Parses the command line without the program's name.
    pub fn parse(words: Vec<String>) -> Result<Self, Usage> {
        let options = Flags::parse(words, USAGE)?;
        let peers = peers(&options.required::<String>("peers")?)?;
        let name: String = options.required("name")?;
        let me = peers.iter().position(|peer| peer.name == name);
        let names = || peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
        let connections = number(&options, "connections", 512, 1 << 16)? as usize;
        let me = me.ok_or_else(|| Usage(format!("--name {name}: expected one of {}", names())))?;
        let config = Self {
            me,
            root: options.required("root")?,
            mode: options.or("mode", Mode::Perf)?,
            listen: options.or("listen", SocketAddr::from(([0, 0, 0, 0], 8080)))?,
            admin: options.or("admin", SocketAddr::from(([127, 0, 0, 1], 8081)))?,
            limits: Limits {
                cache_bytes: number(&options, "cache-mib", 128, 1 << 20)? << 20,
                window: number(&options, "window", 64, 1 << 16)? as u32,
                queue: number(&options, "queue", 64, 1 << 16)? as usize,
                awaited: connections,
                keys_of_peer: KEYS_OF_PEER_MAX,
            },
            connections,
            times: Times {
                beat: ms(&options, "beat-ms", 500)?,
                query: ms(&options, "query-ms", 1000)?,
                fail_after: ms(&options, "fail-after-ms", 3000)?,
            },
            peers,
        };
        config.check()
    }

    /// A node of this configuration.
    pub fn node(&self) -> Node {
        let (me, nodes) = (self.me, self.peers.len());
        let membership = match self.mode {
            Mode::Perf => Membership::Formed(Formed::new(me, nodes)),
            Mode::Ha | Mode::Shed => Membership::Monitored(Monitor::new(me, nodes, self.times)),
        };
        Node::new(me, nodes, self.limits, membership)
    }

    /// Number of the cluster; nodes with other peers or another membership have another one.
    pub fn cluster(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[u8::from(self.mode == Mode::Perf)]);
        for peer in &self.peers {
            sum.update(format!("{}={},", peer.name, peer.address).as_bytes());
        }
        sum.finalize()
    }

    fn check(self) -> Result<Self, Usage> {
        if !self.root.is_dir() {
            let root = self.root.display();
            return Err(Usage(format!("--root {root}: expected a folder with pages, found none")));
        }
        let Times { beat, query, fail_after } = self.times;
        if beat * 2 > fail_after || query * 2 > fail_after {
            let text = "--fail-after-ms: expected at least twice --beat-ms and twice --query-ms";
            return Err(Usage(format!("{text} (got {})", fail_after.as_millis())));
        }
        Ok(self)
    }
}

/// Maximum keys that a peer may have.
const KEYS_OF_PEER_MAX: usize = 1 << 20;

fn peers(text: &str) -> Result<Vec<Peer>, Usage> {
    let peers: Vec<Peer> = text.split(',').map(peer).collect::<Result<_, _>>()?;
    let is_twice = |peer: &Peer| peers.iter().filter(|other| other.name == peer.name).count() > 1;
    if let Some(twice) = peers.iter().find(|peer| is_twice(peer)) {
        return Err(Usage(format!("--peers: expected each name once (got {} twice)", twice.name)));
    }
    match peers.len() <= NODES_MAX {
        true => Ok(peers),
        false => Err(Usage(format!("--peers: expected at most {NODES_MAX} (got {})", peers.len()))),
    }
}

fn peer(text: &str) -> Result<Peer, Usage> {
    let parsed = text.split_once('=').and_then(|(name, address)| {
        let (name, address) = (name.to_owned(), address.parse().ok()?);
        (!name.is_empty()).then_some(Peer { name, address })
    });
    parsed.ok_or_else(|| Usage(format!("--peers: expected NAME=IP:PORT (got {text:?})")))
}

fn number(flags: &Flags, name: &str, default: u64, most: u64) -> Result<u64, Usage> {
    let value = flags.or(name, default)?;
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err(Usage(format!("--{name}: expected 1 to {most} (got {value})"))),
    }
}

fn ms(flags: &Flags, name: &str, default: u64) -> Result<Duration, Usage> {
    Ok(Duration::from_millis(number(flags, name, default, 600_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "--name b --peers a=127.0.0.1:1,b=127.0.0.1:2 --root .";

    fn parsed(text: &str) -> Result<Config, Usage> {
        Config::parse(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn a_node_finds_its_place() {
        let config = parsed(GOOD).unwrap();
        assert_eq!((config.me, config.peers.len(), config.mode), (1, 2, Mode::Perf));
    }

    #[test]
    fn clusters_that_are_watched_otherwise_do_not_mix() {
        let cluster = |mode: &str| parsed(&format!("{GOOD} --mode {mode}")).unwrap().cluster();
        assert_ne!(cluster("perf"), cluster("ha"));
        assert_eq!(cluster("ha"), cluster("shed"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (extra, key) in [
            ("--mode fast", "--mode"),
            ("--cache-mib 0", "--cache-mib"),
            ("--window many", "--window"),
            ("--name c", "--name"),
            ("--peers a=1", "--peers"),
            ("--peers a=127.0.0.1:1,b=127.0.0.1:2,a=127.0.0.1:3", "--peers"),
            ("--root /nowhere", "--root"),
            ("--fail-after-ms 900", "--fail-after-ms"),
            ("--speed 9", "--speed"),
            ("--mode", "--mode"),
        ] {
            let refused = parsed(&format!("{GOOD} {extra}")).unwrap_err();
            assert!(refused.0.starts_with(key), "{extra}: {}", refused.0);
        }
    }
}
