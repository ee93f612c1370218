//! Memory held for clients: requests that arrive slowly, replies that are taken slowly.
//!
//! A limit per client does not limit the total: ten clients that asked for 40 MB and read nothing
//! took 417 MiB. So the memory of a connection beyond its first part is counted for all threads
//! together, and refused beyond `held_mib_max`: the client then gets a smaller buffer, or an error.
//!
//! A limit of the total alone leaves no room for others, because a few clients can fill it. So HTTP
//! clients of one address get a share of it at most, and while more than half is held slow clients
//! are cut (`min_rate`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use crate::lock;

/// Bytes that every connection may hold without being counted.
pub const UNCOUNTED: usize = 64 * 1024;
/// Step of counting, so that most growth needs no shared counter.
const STEP: usize = 64 * 1024;
/// The clients of one address may hold one part in this number.
const SHARES: usize = 4;

/// Memory that all connections hold.
#[derive(Debug)]
pub struct Memory {
    state: Mutex<State>,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    /// Memory by client address.
    of: HashMap<IpAddr, usize>,
}

impl Memory {
    /// Allows up to `most` bytes.
    pub fn new(most: usize) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { state, most })
    }

    /// Bytes counted now.
    pub fn held(&self) -> usize {
        lock(&self.state).held
    }

    /// True if more than half is held, so that slow clients obstruct others.
    pub fn is_scarce(&self) -> bool {
        self.held() > self.most / 2
    }
}

/// The client for whom memory is held.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    address: Option<IpAddr>,
}

impl Holder {
    /// A client at an address, if it is known.
    pub fn new(address: Option<IpAddr>) -> Self {
        let address = address.map(network);
        Self { address }
    }
}

/// The addresses of one client: at IPv6 a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 => v4,
    }
}

/// The share of one connection; released when dropped.
#[derive(Debug)]
pub struct Held {
    memory: Arc<Memory>,
    address: Option<IpAddr>,
    most: usize,
    bytes: usize,
}

impl Held {
    /// Creates an empty share, bounded by the total.
    pub fn new(memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), address: None, most: memory.most, bytes: 0 }
    }

    /// Creates an empty share, bounded by the limits of the client and of its address.
    pub fn of(memory: &Arc<Memory>, holder: Holder) -> Self {
        let mut held = Self::new(memory);
        held.address = holder.address;
        held.most = memory.most / SHARES;
        held
    }

    /// Counts up to `bytes` in all; false if they exceed a limit, with the count unchanged.
    pub fn cover(&mut self, bytes: usize) -> bool {
        let target = if bytes <= UNCOUNTED { 0 } else { bytes.next_multiple_of(STEP) };
        if target <= self.bytes {
            self.give_back(self.bytes - target);
            return true;
        }
        let more = target - self.bytes;
        let mut state = lock(&self.memory.state);
        let of_address = self.address.and_then(|it| state.of.get(&it)).copied();
        let its = of_address.unwrap_or(self.bytes);
        if state.held + more > self.memory.most || its + more > self.most {
            return false;
        }
        state.held += more;
        if let Some(address) = self.address {
            *state.of.entry(address).or_default() += more;
        }
        self.bytes = target;
        true
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut state = lock(&self.memory.state);
        state.held -= bytes;
        self.bytes -= bytes;
        let Some(address) = self.address else {
            return;
        };
        if let Some(left) = state.of.get_mut(&address) {
            *left -= bytes;
            if *left == 0 {
                state.of.remove(&address);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_are_bounded_and_come_back() {
        let memory = Memory::new(10 * STEP);
        let (mut first, mut second) = (Held::new(&memory), Held::new(&memory));
        assert!(first.cover(UNCOUNTED) && memory.held() == 0);
        assert!(first.cover(6 * STEP) && second.cover(4 * STEP - 1));
        assert_eq!(memory.held(), 10 * STEP);
        assert!(!second.cover(5 * STEP), "the bound");
        assert_eq!(memory.held(), 10 * STEP, "a refusal changes nothing");
        assert!(first.cover(2 * STEP) && second.cover(5 * STEP));
        drop(first);
        assert_eq!(memory.held(), 5 * STEP);
        drop(second);
        assert_eq!(memory.held(), 0);
    }

    fn client(address: &str) -> Holder {
        Holder::new(Some(address.parse().unwrap()))
    }

    #[test]
    fn the_clients_of_one_address_have_a_quarter_at_most() {
        let memory = Memory::new(16 * STEP);
        for (same, other) in [("198.51.100.1", "198.51.100.2"), ("2001:db8::1", "2001:db8:0:1::1")]
        {
            let mut first = Held::of(&memory, client(same));
            let mut second = Held::of(&memory, client(same));
            assert!(first.cover(3 * STEP) && second.cover(UNCOUNTED) && !second.cover(2 * STEP));
            assert!(Held::of(&memory, client(other)).cover(4 * STEP));
            assert!(first.cover(2 * STEP) && second.cover(2 * STEP) && !first.cover(3 * STEP));
            drop((first, second));
            assert_eq!(memory.held(), 0);
            assert!(lock(&memory.state).of.is_empty());
        }
        let (first, other) = (client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_eq!(first.address, other.address, "one network");
    }

    #[test]
    fn a_client_without_an_address_has_a_quarter_too() {
        let memory = Memory::new(16 * STEP);
        let mut first = Held::of(&memory, Holder::new(None));
        assert!(first.cover(4 * STEP) && !first.cover(5 * STEP));
        assert!(Held::of(&memory, Holder::new(None)).cover(4 * STEP));
    }

    #[test]
    fn memory_is_scarce_beyond_a_half() {
        let memory = Memory::new(4 * STEP);
        let mut first = Held::new(&memory);
        assert!(first.cover(2 * STEP) && !memory.is_scarce());
        assert!(first.cover(3 * STEP) && memory.is_scarce());
    }
}
