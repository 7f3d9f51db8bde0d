//! Maps and sets without random numbers: where the kernel has none to give, the standard library's own open `/dev/urandom` for good, on the
//! number that the program's next file would have had.
//!
//! Must not: be used where an adversary could choose so many keys that their chains matter.

#![expect(clippy::disallowed_types, reason = "they are the standard library's, but for the hash")]

use std::hash::{BuildHasherDefault, DefaultHasher};

pub type Hash = BuildHasherDefault<DefaultHasher>;

pub type HashMap<K, V, H = Hash> = std::collections::HashMap<K, V, H>;

pub type HashSet<K, H = Hash> = std::collections::HashSet<K, H>;
