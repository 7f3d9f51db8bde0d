//! What identifies an image of code, and where one ends that a program gives by its address alone.
//!
//! Must not: take two images for one. The bytes are compared in full before a module of one is handed out for the other; samples of a fat
//! binary only tell whether it may be the one that an earlier run used.

use std::fmt;
use std::str::FromStr;
use twox_hash::XxHash3_128;

/// An image by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId {
    /// XXH3 of 128 bits.
    pub hash: u128,
    /// Its length, in bytes.
    pub bytes: u64,
}

impl ImageId {
    /// Of this content.
    pub fn of(content: &[u8]) -> Self {
        Self { hash: XxHash3_128::oneshot(content), bytes: content.len() as u64 }
    }

    /// Of samples of a content ([`Samples`]).
    pub fn of_samples(content: &[u8]) -> Self {
        let mut samples = Samples::with_room();
        samples.take(content);
        samples.id()
    }
}

/// How many samples identify a long content, and their length in bytes.
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 4096;

/// Samples of a content: its beginning, its end, and some in between; a short one as a whole. A fat binary may have a hundred megabytes that
/// are not in memory yet.
#[derive(Debug)]
pub struct Samples {
    taken: Vec<u8>,
    of_bytes: u64,
}

impl Samples {
    /// None yet. Taking them allocates nothing more.
    pub fn with_room() -> Self {
        Self { taken: Vec::with_capacity(SAMPLES * SAMPLE_BYTES), of_bytes: 0 }
    }

    /// Takes them.
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

    /// What they identify.
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
        let hash = u128::from_str_radix(hash, 16).map_err(drop)?;
        Ok(Self { hash, bytes: bytes.parse().map_err(drop)? })
    }
}

/// How many bytes of an image say how long it is; shorter ones have no more.
pub const HEAD_BYTES: usize = 64;

const FAT_BINARY: u32 = 0xBA55_ED50;
const REFERENCE: u32 = 0x4662_43B1;

/// The length of a reference to a fat binary, as compilers put one into an object for each translation unit.
pub const REFERENCE_BYTES: usize = 24;

/// The first version of references: to one fat binary, which is complete. The second one has a list of others that are linked with it.
const VERSION: u32 = 1;

/// The address of the fat binary that a reference is to; `None` if it is none, or not complete by itself.
pub fn fat_binary_of(reference: &[u8; REFERENCE_BYTES]) -> Option<u64> {
    let is_one = reference.starts_with(&REFERENCE.to_le_bytes()) && reference[4..8] == VERSION.to_le_bytes();
    let address = reference[8..16].try_into().map(u64::from_le_bytes).ok()?;
    (is_one && address != 0).then_some(address)
}

/// What the first bytes of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// An image that is this long, in bytes.
    Whole(u64),
    /// Text, which ends with a zero.
    Text,
}

/// What an image's first bytes say of its length; `None` where that is not known. `head` has [`HEAD_BYTES`] where the image is an ELF
/// file or a fat binary: these are longer.
pub fn size_of(head: &[u8]) -> Option<Head> {
    let number = |at: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(head.get(at..at + bytes)?);
        Some(u64::from_le_bytes(value))
    };
    match head.first()? {
        b'.' | b'/' | b'\n' | b'\r' | b'\t' | b' ' => return Some(Head::Text),
        _ => {}
    }
    if head.starts_with(b"\x7fELF") {
        // A file of 64 bits. Compilers write one of the two tables last.
        let is_wide = *head.get(4)? == 2;
        let end = |at, entry, count| number(at, 8)?.checked_add(number(entry, 2)? * number(count, 2)?);
        let size = end(0x20, 0x36, 0x38)?.max(end(0x28, 0x3a, 0x3c)?);
        return (is_wide && size > HEAD_BYTES as u64).then_some(Head::Whole(size));
    }
    // Its own header's length, and that of what follows.
    let is_fat = number(0, 4)? == u64::from(FAT_BINARY);
    let size = number(6, 2)?.checked_add(number(8, 8)?)?;
    (is_fat && size > 16).then_some(Head::Whole(size))
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

    #[test]
    fn a_reference_has_the_address_of_its_fat_binary() {
        let mut reference = [0_u8; REFERENCE_BYTES];
        reference[..4].copy_from_slice(&REFERENCE.to_le_bytes());
        reference[4] = 1;
        assert_eq!(fat_binary_of(&reference), None);
        reference[8..16].copy_from_slice(&0x1234_u64.to_le_bytes());
        assert_eq!(fat_binary_of(&reference), Some(0x1234));
        for (at, what) in [(0, "something else"), (4, "the second version")] {
            reference[at] ^= 3;
            assert_eq!(fat_binary_of(&reference), None, "{what}");
            reference[at] ^= 3;
        }
    }

    #[test]
    fn the_head_says_where_an_image_ends() {
        let mut elf = [0_u8; HEAD_BYTES];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        let mut put = |at: usize, value: u16| elf[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let fields = [(0x20, 5000), (0x36, 56), (0x38, 3), (0x28, 4000), (0x3a, 64), (0x3c, 10)];
        fields.into_iter().for_each(|(at, value)| put(at, value));
        assert_eq!(size_of(&elf), Some(Head::Whole(5000 + 3 * 56)), "the program headers come last");
        elf[0x28..0x2a].copy_from_slice(&6000_u16.to_le_bytes());
        assert_eq!(size_of(&elf), Some(Head::Whole(6000 + 640)), "the sections do");
        elf[4] = 1;
        assert_eq!(size_of(&elf), None, "a file of 32 bits");
        elf[4] = 2;
        elf[0x20..0x30].fill(0xff);
        assert_eq!(size_of(&elf), None, "no length that there can be");
        let mut fat = [0_u8; HEAD_BYTES];
        fat[..4].copy_from_slice(&FAT_BINARY.to_le_bytes());
        fat[6] = 16;
        fat[8..16].copy_from_slice(&1000_u64.to_le_bytes());
        assert_eq!(size_of(&fat), Some(Head::Whole(1016)));
        assert_eq!(size_of(b".version 8.0\0"), Some(Head::Text));
        for nothing in [&b""[..], b"\x7fELF", b"\x50", b"hello, world of images"] {
            assert_eq!(size_of(nothing), None);
        }
    }
}
