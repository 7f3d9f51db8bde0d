//! Maps and sets that need no random numbers.
//!
//! The standard library's own ask the kernel for some, once a thread. A kernel that has none to give (before Linux 3.17, or by a filter)
//! makes it open `/dev/urandom`, and keep that open for good: in the program's process, on the number that the program's next file would
//! have had. So the library uses these, whose hash is the same in every process.
//!
//! Must not: be used where an adversary could choose so many keys that their chains matter. What is read of a file is limited in size.

#![expect(clippy::disallowed_types, reason = "they are the standard library's, but for the hash")]

use std::hash::{BuildHasherDefault, DefaultHasher};

pub type Hash = BuildHasherDefault<DefaultHasher>;

pub type HashMap<K, V, H = Hash> = std::collections::HashMap<K, V, H>;

pub type HashSet<K, H = Hash> = std::collections::HashSet<K, H>;
