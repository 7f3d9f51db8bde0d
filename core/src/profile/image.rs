//! Identifies an image of code by its length and a hash of its bytes or of samples.
//!
//! Must not: take two images for one. A module is handed out after a comparison of all bytes; samples only tell what may be the same.

use std::fmt;
use std::str::FromStr;
use twox_hash::XxHash3_128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId {
    pub hash: u128,
    pub bytes: u64,
}

impl ImageId {
    pub fn of(content: &[u8]) -> Self {
        Self { hash: XxHash3_128::oneshot(content), bytes: content.len() as u64 }
    }

    pub fn of_samples(content: &[u8]) -> Self {
        let mut samples = Samples::with_room();
        samples.take(content);
        samples.id()
    }
}

/// Number and length in bytes of the samples of a long content.
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 4096;

/// Beginning, end, and some in between; a short content as a whole. Much of a large fat binary is not in memory yet.
#[derive(Debug)]
pub struct Samples {
    taken: Vec<u8>,
    of_bytes: u64,
}

impl Samples {
    pub fn with_room() -> Self {
        Self { taken: Vec::with_capacity(SAMPLES * SAMPLE_BYTES), of_bytes: 0 }
    }

    pub fn take(&mut self, content: &[u8]) {
        self.of_bytes = content.len() as u64;
        self.taken.clear();
        if content.len() <= SAMPLES * SAMPLE_BYTES {
            self.taken.extend_from_slice(content);
            return;
        }
        let step = (content.len() - SAMPLE_BYTES) / (SAMPLES - 1);
        let begins = (0..SAMPLES - 1).map(|n| n * step).chain([content.len() - SAMPLE_BYTES]);
        begins.for_each(|at| self.taken.extend_from_slice(&content[at..at + SAMPLE_BYTES]));
    }

    pub fn id(&self) -> ImageId {
        ImageId { bytes: self.of_bytes, ..ImageId::of(&self.taken) }
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{}", self.hash, self.bytes)
    }
}

impl FromStr for ImageId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (hash, bytes) = text.split_once('-').ok_or(())?;
        let plain = |digits: &str, is_one: fn(&u8) -> bool| digits.as_bytes().iter().all(is_one);
        if hash.len() != 32 || !plain(hash, u8::is_ascii_hexdigit) || !plain(bytes, u8::is_ascii_digit) {
            return Err(());
        }
        Ok(Self { hash: u128::from_str_radix(hash, 16).map_err(drop)?, bytes: bytes.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for content in [&b""[..], b"x", &[0; 300]] {
            let id = ImageId::of(content);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let id = ImageId::of(b"x").to_string();
        let broken = [&id[1..], &id.replace('-', ""), &format!("{id}x"), &format!("+{}", &id[1..]), "-1", ""];
        for text in broken {
            assert_eq!(text.parse::<ImageId>(), Err(()), "{text}");
        }
        assert_ne!(ImageId::of(b"x"), ImageId::of(b"y"));
    }

    #[test]
    fn samples_tell_contents_apart_that_differ_in_length_at_either_end_or_in_much() {
        let most = SAMPLES * SAMPLE_BYTES;
        for length in [0, 1, SAMPLE_BYTES, most - 1, most, most + SAMPLES, 3 * most, 1_000_003] {
            let content: Vec<u8> = (0..length).map(|n| (n * n % 251) as u8).collect();
            let id = ImageId::of_samples(&content);
            assert_eq!(id.bytes, length as u64);
            assert_eq!(id == ImageId::of(&content), length <= most, "{length}");
            let differs = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut other = content.clone();
                change(&mut other);
                ImageId::of_samples(&other) != id
            };
            assert!(differs(&|other| other.push(0)), "{length}");
            for at in [0, length / 2, length.saturating_sub(1)].into_iter().filter(|_| length > 0) {
                // A part as long as what lies between two samples.
                let end = length.min(at + length / (SAMPLES - 1) + 1);
                assert!(differs(&|other| other[at..end].iter_mut().for_each(|byte| *byte ^= 1)), "{length}: {at}");
            }
        }
    }

    /// Ids are in profiles that other versions of the library have written.
    #[test]
    fn the_samples_are_the_same_in_every_version() {
        let content: Vec<u8> = (0..1_000_003_u32).map(|n| (n % 251) as u8).collect();
        assert_eq!(ImageId::of_samples(&content).to_string(), "76ac21b6d5227d4bbffe95574f3e2820-1000003");
    }
}
