//! The newest things by key, in two generations. The older generation is dropped.

use crate::map::HashMap;
use std::hash::Hash;

const GENERATION: usize = 1 << 15;

pub struct Remembered<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { newer: HashMap::default(), older: HashMap::default() }
    }
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    pub fn insert(&mut self, key: K, value: V) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, value);
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let newer = self.newer.remove(key);
        newer.or(self.older.remove(key))
    }

    /// All values; one that was replaced may be among them.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.newer.values().chain(self.older.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut remembered = Remembered::default();
        for n in 0..10 * GENERATION {
            remembered.insert(n, n);
        }
        assert!(remembered.values().count() <= 2 * GENERATION);
        assert_eq!(remembered.get(&0), None);
        assert!((9 * GENERATION..10 * GENERATION).all(|n| remembered.get(&n) == Some(&n)));
        assert_eq!(remembered.remove(&(10 * GENERATION - 1)), Some(10 * GENERATION - 1));
    }
}
