//! The addresses of a server's host name, used in turn.

use std::net::SocketAddr;

/// Addresses of a server, in turn.
#[derive(Debug, Default)]
pub struct Peers {
    addresses: Vec<SocketAddr>,
    next: usize,
}

impl Peers {
    /// All of them, beginning with the one whose turn it is.
    pub fn turn(&mut self) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.clone();
        if !addresses.is_empty() {
            addresses.rotate_left(self.next % self.addresses.len());
            self.next = self.next.wrapping_add(1);
        }
        addresses
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes over an answer; true where it says something else than the last one. The order of an
    /// answer changes from one to the next, and so says nothing.
    pub fn set(&mut self, mut answer: Vec<SocketAddr>) -> bool {
        answer.sort_unstable();
        answer.dedup();
        if answer == self.addresses {
            return false;
        }
        self.addresses = answer;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    #[test]
    fn addresses_take_turns() {
        let mut peers = Peers::default();
        assert_eq!(peers.turn(), []);
        assert!(peers.set(vec![address(2), address(1), address(2)]));
        assert_eq!(peers.turn(), [address(1), address(2)]);
        assert_eq!(peers.turn(), [address(2), address(1)]);
        assert_eq!(peers.turn(), [address(1), address(2)]);
    }

    #[test]
    fn only_another_set_of_addresses_is_a_change() {
        let mut peers = Peers::default();
        assert!(peers.set(vec![address(1), address(2)]));
        assert!(!peers.set(vec![address(2), address(1)]));
        assert!(peers.set(vec![address(2)]));
        assert_eq!(peers.all(), [address(2)]);
    }
}
