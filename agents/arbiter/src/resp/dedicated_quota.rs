//! The number of clients with their own connection, limited in total and for each address, so that
//! one host leaves some to the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::lock;

/// Counts of dedicated connections, in all and by address.
#[derive(Debug)]
pub struct DedicatedQuota {
    most: usize,
    most_of_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The exhausted limit, by its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Full {
    /// The limit of all clients.
    #[error("pinned_max clients have a connection of their own")]
    ForAll,
    /// The limit of this address.
    #[error("pinned_per_address_max clients of this address have a connection of their own")]
    ForAddress,
}

/// A place, returned when dropped.
#[derive(Debug)]
pub struct Place {
    quota: Arc<DedicatedQuota>,
    address: Option<IpAddr>,
}

impl DedicatedQuota {
    /// Creates `most` places, of which one address may have `most_of_address`.
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default() })
    }

    /// Takes a place for a client of this address; if that is unknown, only the total counts.
    pub fn take(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Place, Full> {
        // IPv4 that comes in by an IPv6 socket has its addresses written as IPv6.
        let address = address.map(|address| address.to_canonical());
        let mut taken = lock(&self.taken);
        if taken.all >= self.most {
            return Err(Full::ForAll);
        }
        if let Some(address) = address {
            let of_address = taken.by_address.entry(address).or_default();
            if *of_address >= self.most_of_address {
                return Err(Full::ForAddress);
            }
            *of_address += 1;
        }
        taken.all += 1;
        let quota = Arc::clone(self);
        Ok(Place { quota, address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.quota.taken);
        taken.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(of_address) = taken.by_address.get_mut(&address) {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    #[test]
    fn an_address_leaves_places_to_others_and_all_come_back() {
        let quota = DedicatedQuota::new(3, 2);
        let mut held = vec![quota.take(address(1)).unwrap(), quota.take(address(1)).unwrap()];
        assert_eq!(quota.take(address(1)).unwrap_err(), Full::ForAddress);
        held.push(quota.take(address(2)).unwrap());
        assert_eq!(quota.take(address(2)).unwrap_err(), Full::ForAll);
        assert_eq!(quota.take(None).unwrap_err(), Full::ForAll);
        held.remove(0);
        held.push(quota.take(address(1)).unwrap());
        held.clear();
        let taken = lock(&quota.taken);
        assert_eq!((taken.all, taken.by_address.len()), (0, 0));
    }

    #[test]
    fn without_an_address_only_the_total_counts() {
        let quota = DedicatedQuota::new(2, 1);
        let _held = (quota.take(None).unwrap(), quota.take(None).unwrap());
        assert_eq!(quota.take(None).unwrap_err(), Full::ForAll);
    }
}
