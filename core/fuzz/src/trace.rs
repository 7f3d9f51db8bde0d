//! Any bytes, read as a recording, and as a profile.

#![no_main]

#[path = "../../tests/suite/support/check.rs"]
mod check;

use lazyguard_core::image::{kind_of, length_of, Start};
use lazyguard_core::profile::Profile;
use lazyguard_core::trace::layout::{MAGIC, VERSION};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check::check(bytes);
    check::check_followed(bytes);
    // Nothing behind the first words is read without them, and they are quickly lost.
    if let Some(rest) = bytes.get(12..).filter(|_| bytes[..8] != MAGIC.to_le_bytes()) {
        check::check(&[&MAGIC.to_le_bytes()[..], &VERSION.to_le_bytes(), rest].concat());
    }
    check_profile(bytes);
});

/// A part is read as it is written again, and what the first bytes of an image say makes no reader fail. Random bytes never have the right
/// last line, so they are tried as what stands before it, too.
fn check_profile(bytes: &[u8]) {
    let _ = length_of(bytes);
    for start in [Start::Elf, Start::FatBinary] {
        kind_of(start, bytes);
    }
    let whole = Profile::part_of(&String::from_utf8_lossy(bytes));
    for part in [bytes, whole.as_bytes()] {
        if let Ok(profile) = Profile::parse(part) {
            assert_eq!(Profile::parse(profile.text().as_bytes()), Ok(profile));
        }
    }
}
