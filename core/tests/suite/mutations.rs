//! The reader is total: reading any damaged recording ends, in order, with no more than there is.

use crate::support::cases;
use crate::support::check::{check, check_followed};
use crate::support::random::Random;
use std::path::Path;

/// Numbers that are likely to be mistaken for something.
const ODD: [u64; 14] =
    [0, 1, 2, 3, 7, 8, 63, 4096, 1 << 16, 1 << 32, u32::MAX as u64, u64::MAX >> 1, u64::MAX - 7, u64::MAX];

fn seeds() -> Vec<Vec<u8>> {
    cases::all().into_iter().map(|case| case.bytes).collect()
}

fn put(bytes: &mut [u8], word: usize, value: u64) {
    if let Some(place) = bytes.get_mut(word * 8..word * 8 + 8) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn golden_recordings_hold_what_has_to_hold() {
    seeds().iter().for_each(|bytes| check_followed(bytes));
    let counts: Vec<_> = seeds().iter().map(|bytes| check(bytes)).collect();
    assert!(counts.iter().all(Option::is_some), "{counts:?}");
    assert!(counts.iter().flatten().sum::<u64>() > 30, "{counts:?}");
}

#[test]
fn any_number_in_any_place_of_the_header_is_read() {
    for seed in seeds() {
        for word in 2..60 {
            let former = seed.get(word * 8..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
            for odd in ODD {
                for value in [odd, former ^ odd, former.wrapping_add(odd), former & 0xffff_ffff | odd << 32] {
                    let mut bytes = seed.clone();
                    put(&mut bytes, word, value);
                    assert!(check(&bytes).is_some());
                }
            }
        }
    }
}

#[test]
fn a_recording_that_was_cut_off_anywhere_is_read() {
    for seed in seeds() {
        let whole = check(&seed).unwrap_or(0);
        for length in (16..=seed.len()).rev() {
            let count = check(&seed[..length]);
            assert!(count.is_some_and(|count| count <= whole), "{count:?} of {whole} in {length} bytes");
        }
    }
}

#[test]
fn recordings_with_many_faults_are_read() {
    let seeds = seeds();
    for round in 0..20_000 {
        let mut random = Random::from_seed(round);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        for _ in 0..1 + random.below(12) {
            let length = bytes.len();
            let at = random.below(length);
            match random.below(7) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                2 => put(&mut bytes, at / 8, ODD[random.below(ODD.len())]),
                // The places where most is decided.
                3 => put(&mut bytes, 2 + random.below(60), ODD[random.below(ODD.len())]),
                4 => put(&mut bytes, 2 + random.below(60), random.next() % (2 * length as u64)),
                5 => {
                    let from = random.below(length);
                    let size = random.below(512).min(length - from).min(length - at);
                    bytes.copy_within(from..from + size, at);
                }
                _ => bytes.truncate(random.below(length).max(24)),
            }
        }
        // Not to lose the rest to the first two words, which decide whether anything is read.
        bytes[..16].copy_from_slice(&seeds[0][..16]);
        assert!(check(&bytes).is_some(), "round {round}");
        if round.is_multiple_of(8) {
            check_followed(&bytes);
        }
    }
}

#[test]
fn bytes_that_are_no_recording_are_refused() {
    assert_eq!(check(&[]), None);
    let mut random = Random::from_seed(1);
    for length in [1, 7, 8, 15, 16, 17, 4096, 10_000] {
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        assert_eq!(check(&bytes), None);
    }
}

#[test]
fn every_input_that_the_fuzzer_kept_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/trace");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        check(&std::fs::read(entry.expect("an entry").path()).expect("an input"));
        count += 1;
    }
    assert!(count >= 50, "{count}");
}
