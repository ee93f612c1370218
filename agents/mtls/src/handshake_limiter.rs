//! Bounds the connections that have shown no certificate yet, by address.
//!
//! A semaphore over all connections was not enough: silent ones held it for the handshake's limit,
//! and some 26 of them a second kept everybody else out. The rule here: places are few for one
//! address and bounded for all, and where none is left the oldest handshake of the address that
//! holds most gives way. A handshake takes milliseconds, so one that goes on is pushed out only by
//! as many new ones in that time; silent ones push out each other. Addresses that authenticated
//! lately have places of their own, which strangers cannot take.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Handshakes at a time, of strangers and of known addresses each.
const PLACES: usize = 128;
/// Maximum handshakes of one address.
const PLACES_PER_ADDRESS: usize = 32;
/// Addresses that are known at a time; the one that authenticated longest ago is forgotten first.
const KNOWN_MAX: usize = 16;

/// The places of connections that have shown no certificate yet.
#[derive(Default)]
pub struct HandshakeLimiter {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    strangers: Waiting,
    friends: Waiting,
    known: VecDeque<IpAddr>,
    last_id: u64,
}

/// Handshakes in progress, the oldest first.
#[derive(Default)]
struct Waiting(Vec<Handshake>);

struct Handshake {
    id: u64,
    address: IpAddr,
    /// Dropped, it tells the other end to give way.
    _stay: oneshot::Sender<()>,
}

/// A place at the limiter, until it is dropped.
pub struct Place {
    limiter: Arc<HandshakeLimiter>,
    id: u64,
    stay: oneshot::Receiver<()>,
}

impl HandshakeLimiter {
    /// A place for a connection from this address; another may have to give way for it.
    pub fn enter(self: &Arc<HandshakeLimiter>, address: IpAddr) -> Place {
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        let (sender, stay) = oneshot::channel();
        let handshake = Handshake { id, address, _stay: sender };
        let is_known = state.known.contains(&address);
        let waiting = match is_known {
            true => &mut state.friends,
            false => &mut state.strangers,
        };
        waiting.make_room(address);
        waiting.0.push(handshake);
        drop(state);
        Place { limiter: self.clone(), id, stay }
    }

    /// Notes that somebody at this address has shown a good certificate.
    pub fn remember(&self, address: IpAddr) {
        let mut state = self.lock();
        state.known.retain(|friend| *friend != address);
        state.known.push_back(address);
        if state.known.len() > KNOWN_MAX {
            state.known.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn make_room(&mut self, address: IpAddr) {
        if self.count_of(address) >= PLACES_PER_ADDRESS {
            self.cut_oldest_of(address);
        } else if self.0.len() >= PLACES {
            if let Some(fullest) = self.fullest() {
                self.cut_oldest_of(fullest);
            }
        }
    }

    fn count_of(&self, address: IpAddr) -> usize {
        let is_same = |handshake: &&Handshake| handshake.address == address;
        self.0.iter().filter(is_same).count()
    }

    /// The address that holds most places; of several the one that has waited longest.
    fn fullest(&self) -> Option<IpAddr> {
        let addresses = self.0.iter().rev().map(|handshake| handshake.address);
        addresses.max_by_key(|address| self.count_of(*address))
    }

    fn cut_oldest_of(&mut self, address: IpAddr) {
        let oldest = self.0.iter().position(|handshake| handshake.address == address);
        oldest.map(|index| self.0.remove(index));
    }
}

impl Place {
    /// Waits until the place has to be given up.
    pub async fn revocation(&mut self) {
        // Nothing is ever sent: the other end is dropped.
        let _ = (&mut self.stay).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        let is_other = |handshake: &Handshake| handshake.id != self.id;
        state.strangers.0.retain(is_other);
        state.friends.0.retain(is_other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([198, 19, 0, last])
    }

    fn is_lost(place: &mut Place) -> bool {
        place.stay.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn count_lost(places: &mut [Place]) -> usize {
        places.iter_mut().map(is_lost).filter(|is_lost| *is_lost).count()
    }

    #[test]
    fn a_flood_from_one_address_pushes_out_its_own_oldest_only() {
        let limiter = Arc::new(HandshakeLimiter::default());
        let mut runner = limiter.enter(address(1));
        let mut flood: Vec<Place> = (0..500).map(|_| limiter.enter(address(2))).collect();
        assert!(!is_lost(&mut runner));
        let rest = flood.split_off(500 - PLACES_PER_ADDRESS);
        assert_eq!(count_lost(&mut flood), 500 - PLACES_PER_ADDRESS);
        assert_eq!(limiter.lock().strangers.0.len(), 1 + rest.len());
    }

    #[test]
    fn where_all_places_are_taken_the_address_that_holds_most_gives_way() {
        let limiter = Arc::new(HandshakeLimiter::default());
        let mut floods: Vec<Place> = (0..4)
            .flat_map(|host| vec![host; PLACES_PER_ADDRESS])
            .map(|host| limiter.enter(address(10 + host)))
            .collect();
        let mut runner = limiter.enter(address(1));
        assert_eq!(count_lost(&mut floods), 1);
        assert!(is_lost(&mut floods[0]), "the oldest of the fullest");
        let mut more: Vec<Place> = (20..50).map(|host| limiter.enter(address(host))).collect();
        assert_eq!((count_lost(&mut floods), count_lost(&mut more)), (31, 0));
        assert!(!is_lost(&mut runner));
    }

    #[test]
    fn an_address_that_authenticated_has_places_that_no_number_of_strangers_takes() {
        let limiter = Arc::new(HandshakeLimiter::default());
        limiter.remember(address(1));
        let mut runner = limiter.enter(address(1));
        let many = (0..10_000u32).map(|host| IpAddr::from((0xc613_8000 + host).to_be_bytes()));
        let strangers: Vec<Place> = many.map(|address| limiter.enter(address)).collect();
        assert!(!is_lost(&mut runner));
        assert_eq!(limiter.lock().strangers.0.len(), PLACES);
        drop(strangers);
        drop(runner);
        let state = limiter.lock();
        assert_eq!((state.strangers.0.len(), state.friends.0.len()), (0, 0));
    }

    #[test]
    fn the_address_that_authenticated_longest_ago_is_forgotten_first() {
        let limiter = HandshakeLimiter::default();
        for host in 0..KNOWN_MAX as u8 {
            limiter.remember(address(host));
        }
        limiter.remember(address(0));
        limiter.remember(address(200));
        let known = &limiter.lock().known;
        assert_eq!(known.len(), KNOWN_MAX);
        assert!(known.contains(&address(0)) && !known.contains(&address(1)));
    }
}
