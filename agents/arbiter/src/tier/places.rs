//! Places for servers: a server's number is its place, as long as it is in the list.
//!
//! There are more places than servers, so that a reload can bring others in (`Config::places`). The place
//! of a server that was removed is given away again when nothing is under way there any more.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use policy::ServerId;
use wire::arbiter::{Address, Server};

use super::peers::Peers;
use super::{Choices, Tier};
use crate::lock;

/// A server of the list, or one that was.
pub struct Member {
    /// Its name.
    pub name: String,
    /// The address that it listens at.
    pub address: Address,
    peers: Mutex<Peers>,
    /// It was removed: it gets nothing new.
    is_leaving: AtomicBool,
}

impl Member {
    fn new(server: &Server) -> Arc<Self> {
        Arc::new(Self {
            name: server.name.clone(),
            address: server.address.clone(),
            peers: Mutex::default(),
            is_leaving: AtomicBool::new(false),
        })
    }

    /// Nobody's place.
    fn nobody() -> Arc<Self> {
        Arc::new(Self {
            name: String::new(),
            address: SocketAddr::from(([0, 0, 0, 0], 0)).into(),
            peers: Mutex::default(),
            is_leaving: AtomicBool::new(true),
        })
    }

    /// The addresses of its name.
    pub fn peers(&self) -> MutexGuard<'_, Peers> {
        lock(&self.peers)
    }
}

/// A server's number, with the server that has it now.
pub(super) struct Place {
    member: RwLock<Arc<Member>>,
    /// Connections of an earlier one are not used again.
    generation: AtomicU64,
    /// Held by who has a connection there and no token.
    present: Arc<()>,
}

/// Keeps a place its server's, for a session that is idle there.
pub struct Presence(#[allow(dead_code)] Arc<()>);

impl Place {
    fn member(&self) -> Arc<Member> {
        let member = self.member.read();
        Arc::clone(&member.unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, member: Arc<Member>) {
        *self.member.write().unwrap_or_else(PoisonError::into_inner) = member;
        self.generation.fetch_add(1, SeqCst);
    }
}

/// So many places, the first of which are taken by these servers.
pub(super) fn places(servers: &[Server], most: usize) -> Vec<Place> {
    let taken = servers.iter().map(Member::new);
    let all = taken.chain(std::iter::repeat_with(Member::nobody));
    let place = |member| Place {
        member: RwLock::new(member),
        generation: AtomicU64::new(0),
        present: Arc::default(),
    };
    all.take(most.max(servers.len())).map(place).collect()
}

impl Tier {
    /// How many places there are.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The server in a place, also one that was removed and has something under way.
    pub fn server(&self, server: ServerId) -> Arc<Member> {
        self.places[server].member()
    }

    /// The servers of the list.
    pub fn members(&self) -> Vec<(ServerId, Arc<Member>)> {
        let all = self.places.iter().map(Place::member).enumerate();
        all.filter(|(_, member)| !member.is_leaving.load(SeqCst))
            .collect()
    }

    /// True if this server is in the list, in this place.
    pub fn is_member(&self, server: ServerId, member: &Arc<Member>) -> bool {
        Arc::ptr_eq(&self.places[server].member(), member) && !member.is_leaving.load(SeqCst)
    }

    /// A session keeps a connection to the server.
    pub fn presence(&self, server: ServerId) -> Presence {
        Presence(Arc::clone(&self.places[server].present))
    }

    /// Changes when connections to the server that were made before are not to be used again.
    pub fn generation(&self, server: ServerId) -> u64 {
        self.places[server].generation.load(SeqCst)
    }

    /// The server's addresses changed.
    pub fn moved(&self, server: ServerId) {
        self.places[server].generation.fetch_add(1, SeqCst);
        if self.needs_probe(server) {
            self.probe(server, true);
        }
    }

    /// Makes the servers of the list those of the file: added ones get requests as soon as a probe
    /// reaches them, removed ones nothing new; one that has another address stays who it is, and is
    /// probed there. Those that are new or moved.
    ///
    /// # Errors
    /// When there are not places enough; then nothing is changed.
    pub(super) fn set_servers(
        self: &Arc<Self>,
        fresh: &[Server],
    ) -> Result<Vec<(ServerId, Arc<Member>)>, String> {
        let members = self.members();
        let named = |name: &str| members.iter().find(|(_, member)| member.name == name);
        let added: Vec<_> = fresh
            .iter()
            .filter(|it| named(&it.name).is_none())
            .collect();
        let free: Vec<ServerId> = (0..self.places()).filter(|&it| self.is_free(it)).collect();
        if added.len() > free.len() {
            return Err(format!(
                "servers: expected at most {} new ones (got {}). Of the {} places, those of \
                 removed servers with something under way are not free yet.",
                free.len(),
                added.len(),
                self.places()
            ));
        }
        for (server, member) in &members {
            if fresh.iter().all(|it| it.name != member.name) {
                member.is_leaving.store(true, SeqCst);
                self.vacate(*server);
            }
        }
        let moved = fresh.iter().filter_map(|it| {
            let (server, member) = named(&it.name)?;
            (member.address != it.address).then_some((*server, it))
        });
        let moved: Vec<_> = moved.collect();
        let others: Vec<_> = free.into_iter().zip(added).collect();
        for (server, _) in &others {
            self.server_counters[*server].reset();
            self.meter.forget(*server);
        }
        let settle = |(server, it): (ServerId, &Server)| {
            let member = Member::new(it);
            self.places[server].set(Arc::clone(&member));
            self.occupy(server);
            (server, member)
        };
        Ok(moved.into_iter().chain(others).map(settle).collect())
    }

    /// True if the place can be given to a server.
    fn is_free(&self, server: ServerId) -> bool {
        let idle = self.choices().selector.in_use(server) == 0
            && self.server_counters[server].in_flight.get() == 0;
        let is_deserted = Arc::strong_count(&self.places[server].present) == 1;
        self.places[server].member().is_leaving.load(SeqCst) && idle && is_deserted
    }

    /// Nothing new goes there.
    fn vacate(self: &Arc<Self>, server: ServerId) {
        self.places[server].generation.fetch_add(1, SeqCst);
        self.decide(|choices, now, grants| {
            choices.absent[server] = true;
            choices.taken_out[server] = false;
            choices.selector.server_down(now, server, grants);
        });
    }

    /// A server that is new there is probed at once.
    fn occupy(self: &Arc<Self>, server: ServerId) {
        self.decide(
            |Choices {
                 selector, absent, ..
             },
             now,
             grants| {
                absent[server] = false;
                selector.server_down(now, server, grants);
            },
        );
        if self.needs_probe(server) {
            self.probe(server, true);
        }
    }
}
