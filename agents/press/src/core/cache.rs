//! Pages in memory: the least recently used is removed first, counted in bytes.

use lru::LruCache;

use super::message::{Key, Page};

/// The cost of a page beside its body: key, links, an entry of the table (an estimate).
const OVERHEAD_BYTES: u64 = 160;

/// The pages that this node has in memory.
pub struct Cache {
    pages: LruCache<Key, Page>,
    bytes: u64,
    bytes_max: u64,
}

impl Cache {
    /// Creates an empty cache.
    pub fn new(bytes_max: u64) -> Self {
        Self { pages: LruCache::unbounded(), bytes: 0, bytes_max }
    }

    /// Returns a page and makes it the most recently used.
    pub fn get(&mut self, key: &str) -> Option<&Page> {
        self.pages.get(key)
    }

    /// Adds a page; returns the evicted ones, or none at all if it can never fit.
    pub fn insert(&mut self, key: Key, page: Page) -> Option<Vec<Key>> {
        let cost = cost(&key, &page);
        if cost > self.bytes_max {
            return None;
        }
        self.bytes += cost;
        if let Some((key, old)) = self.pages.push(key, page) {
            self.bytes -= self::cost(&key, &old);
        }
        let mut evicted = vec![];
        while self.bytes > self.bytes_max {
            let Some((key, page)) = self.pages.pop_lru() else {
                break;
            };
            self.bytes -= self::cost(&key, &page);
            evicted.push(key);
        }
        Some(evicted)
    }

    /// All keys, the most recently used first.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.pages.iter().map(|(key, _)| key)
    }

    /// The cost of its pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

fn cost(key: &str, page: &Page) -> u64 {
    (key.len() + page.body.len()) as u64 + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(size: usize) -> Page {
        Page::new("k", vec![b'x'; size].into())
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(3 * (1 + 100 + OVERHEAD_BYTES));
        for key in ["a", "b", "c"] {
            assert_eq!(cache.insert(key.into(), page(100)), Some(vec![]));
        }
        assert!(cache.get("a").is_some());
        assert_eq!(cache.insert("d".into(), page(100)), Some(vec!["b".into()]));
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn what_cannot_fit_drives_nothing_out() {
        let mut cache = Cache::new(1000);
        cache.insert("a".into(), page(100));
        assert_eq!(cache.insert("big".into(), page(2000)), None);
        assert!(cache.get("a").is_some());
    }

    #[test]
    fn a_page_that_comes_again_is_counted_once() {
        let mut cache = Cache::new(1000);
        cache.insert("a".into(), page(100));
        let bytes = cache.bytes();
        assert_eq!(cache.insert("a".into(), page(100)), Some(vec![]));
        assert_eq!(cache.bytes(), bytes);
    }
}
