//! Any bytes, read as a recording.

#![no_main]

#[path = "../../tests/support/check.rs"]
mod check;

use lazyguard_core::trace::layout::{MAGIC, VERSION};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
    // Nothing behind the first words is read without them, and they are quickly lost.
    if let Some(rest) = bytes.get(12..).filter(|_| bytes[..8] != MAGIC.to_le_bytes()) {
        check::check(&[&MAGIC.to_le_bytes()[..], &VERSION.to_le_bytes(), rest].concat());
    }
});
