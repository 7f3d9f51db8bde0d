//! What an image of code is, and where it ends, by its first bytes: a program gives one to the driver by its address alone.
//!
//! A fat binary begins with its magic number, a version, the length of this header and the length of what follows. What follows are entries, each
//! with a header and a body: machine code, or text of the virtual instruction set, each of which may be compressed. What compilers put into
//! programs beside a fat binary is a reference to it: a magic number, a version, and the address.
//!
//! Must not: ask for more bytes than the driver has to read itself to learn the same. What follows an image may not be readable.

use crate::trace::layout::image as bits;

const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const FAT_BINARY: u32 = 0xBA55_ED50;
const REFERENCE: u32 = 0x4662_43B1;

/// The length of the header of an ELF file of 64 bits.
const ELF_BYTES: usize = 64;
/// The length of a fat binary's header.
const FAT_BINARY_BYTES: usize = 16;
/// The length of a reference to a fat binary.
pub const REFERENCE_BYTES: usize = 24;

/// The first version of references: to one fat binary, which is complete. The second one has a list of others that are linked with it.
const COMPLETE: u32 = 1;

/// Offsets in a fat binary: the length of its header, and that of what follows.
const HEAD_SIZE: usize = 6;
const BODY_SIZE: usize = 8;
/// Offsets in an entry: its kind, the length of its header, and that of its body.
const ENTRY_KIND: usize = 0;
const ENTRY_HEAD_SIZE: usize = 4;
const ENTRY_BODY_SIZE: usize = 8;
/// The kind of an entry with machine code.
const MACHINE_CODE: u64 = 2;
/// Entries that are looked at.
const MOST_ENTRIES: usize = 64;

/// Images up to this size are searched for `printf`.
const MOST_SEARCHED_BYTES: usize = 128 << 10;
/// The names of the function by which kernels print, as a table of symbols holds them.
const PRINT: [&[u8]; 2] = [b"\0vprintf\0", b"\0printf\0"];

/// What an image begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Text, which ends with a zero.
    Text,
    /// Machine code, as an ELF file.
    Elf,
    /// A fat binary.
    FatBinary,
    /// A reference to a fat binary.
    Reference,
}

impl Start {
    /// By its bytes, of which none is asked for behind the first that tells that it is nothing of this kind.
    pub fn of(byte: impl Fn(usize) -> u8) -> Option<Self> {
        // Directives follow blanks and comments.
        if matches!(byte(0), b'.' | b'/' | b'\n' | b'\r' | b'\t' | b' ') {
            return Some(Self::Text);
        }
        let begins_with = |magic: u32| (0..).zip(magic.to_le_bytes()).all(|(n, expected)| byte(n) == expected);
        let all = [(ELF, Self::Elf), (FAT_BINARY, Self::FatBinary), (REFERENCE, Self::Reference)];
        all.into_iter().find(|(magic, _)| begins_with(*magic)).map(|(_, start)| start)
    }

    /// How many bytes what begins so has at least: its header.
    pub const fn head_bytes(self) -> usize {
        match self {
            Self::Text => 1,
            Self::Elf => ELF_BYTES,
            Self::FatBinary => FAT_BINARY_BYTES,
            Self::Reference => REFERENCE_BYTES,
        }
    }
}

/// What a reference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The address of the fat binary, which is not 0.
    pub fat_binary: u64,
    /// Whether that fat binary is all that there is.
    pub is_complete: bool,
}

impl Reference {
    /// `None` if it is none.
    pub fn of(bytes: &[u8; REFERENCE_BYTES]) -> Option<Self> {
        let fat_binary = number(bytes, 8, 8)?;
        let is_one = bytes.starts_with(&REFERENCE.to_le_bytes()) && fat_binary != 0;
        is_one.then_some(Self { fat_binary, is_complete: number(bytes, 4, 4)? == u64::from(COMPLETE) })
    }
}

/// The address of the fat binary that a reference is to; `None` if it is none, or not complete by itself.
pub fn fat_binary_of(reference: &[u8; REFERENCE_BYTES]) -> Option<u64> {
    Reference::of(reference).filter(|it| it.is_complete).map(|it| it.fat_binary)
}

/// Where an image ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After so many bytes.
    Bytes(u64),
    /// At the first zero.
    ToZero,
}

/// What an image's first bytes, [`Start::head_bytes`] or more, say of its length; `None` where that is not known, and of a reference.
pub fn length_of(head: &[u8]) -> Option<Length> {
    let number = |at, bytes| number(head, at, bytes);
    let start = Start::of(|n| head.get(n).copied().unwrap_or(0))?;
    let bytes = match start {
        Start::Text => return Some(Length::ToZero),
        Start::Elf => {
            // Of 64 bits. Compilers write one of the two tables last.
            let is_wide = *head.get(4)? == 2;
            let end = |at, entry, count| number(at, 8)?.checked_add(number(entry, 2)? * number(count, 2)?);
            let end = end(0x20, 0x36, 0x38)?.max(end(0x28, 0x3a, 0x3c)?);
            is_wide.then_some(end)?
        }
        Start::FatBinary => number(HEAD_SIZE, 2)?.checked_add(number(BODY_SIZE, 8)?)?,
        Start::Reference => return None,
    };
    (bytes > start.head_bytes() as u64).then_some(Length::Bytes(bytes))
}

/// Whether an ELF file has more than its content up to the end of its tables, which is what [`length_of`] tells: compilers write the tables last, and
/// other tools need not. Also where that cannot be told.
pub fn is_cut_off(content: &[u8]) -> bool {
    content.starts_with(&ELF.to_le_bytes()) && !holds_its_parts(content).unwrap_or(false)
}

/// Whether the sections and segments of an ELF file of 64 bits end in this content.
fn holds_its_parts(elf: &[u8]) -> Option<bool> {
    /// Offsets in a section's header: its type, and where it is in the file. One of the type `NOBITS` has nothing there.
    const TYPE: usize = 0x4;
    const NOBITS: u64 = 8;
    const SECTION: [usize; 2] = [0x18, 0x20];
    /// In a program header: where the segment is.
    const SEGMENT: [usize; 2] = [0x8, 0x20];
    let is_inside = |header: &[u8], [at, bytes]: [usize; 2]| {
        let end = number(header, at, 8)?.checked_add(number(header, bytes, 8)?)?;
        Some(end <= elf.len() as u64)
    };
    let headers = |table, entry, count| {
        let [table, entry, count] = [number(elf, table, 8)?, number(elf, entry, 2)?, number(elf, count, 2)?];
        // More sections than the field has room for are counted elsewhere.
        let is_counted = table == 0 || count > 0 && entry > 0;
        let begin = usize::try_from(table).ok().filter(|_| is_counted)?;
        let bytes = if table == 0 { 0 } else { entry as usize * count as usize };
        Some(elf.get(begin..begin.checked_add(bytes)?)?.chunks_exact((entry as usize).max(1)))
    };
    for section in headers(0x28, 0x3a, 0x3c)? {
        if number(section, TYPE, 4)? != NOBITS && !is_inside(section, SECTION)? {
            return Some(false);
        }
    }
    for segment in headers(0x20, 0x36, 0x38)? {
        if !is_inside(segment, SEGMENT)? {
            return Some(false);
        }
    }
    Some(true)
}

/// What an image is, in the bits that records have; 0 for a reference. `content` is as long as the image says, and empty where that is not known.
pub fn kind_of(start: Start, content: &[u8]) -> u64 {
    let kind = match start {
        Start::Text => return bits::PTX,
        Start::Elf => bits::MACHINE_CODE,
        Start::FatBinary if has_machine_code(content) => bits::FAT_BINARY,
        Start::FatBinary => bits::FAT_BINARY_OF_PTX,
        Start::Reference => return 0,
    };
    kind | if prints(content) { bits::PRINTS } else { 0 }
}

/// Whether a fat binary has machine code in it, or only text to be compiled. One that has very many entries, or is damaged, has.
fn has_machine_code(content: &[u8]) -> bool {
    let mut at = number(content, HEAD_SIZE, 2);
    for _ in 0..MOST_ENTRIES {
        let entry = at.and_then(|at| content.get(usize::try_from(at).ok()?..));
        let field = |offset, bytes| number(entry?, offset, bytes);
        let (Some(kind), Some(head), Some(body)) =
            (field(ENTRY_KIND, 2), field(ENTRY_HEAD_SIZE, 4), field(ENTRY_BODY_SIZE, 8))
        else {
            return false;
        };
        if kind == MACHINE_CODE || head == 0 {
            return true;
        }
        at = at.map(|at| at.saturating_add(head).saturating_add(body));
    }
    true
}

/// Whether it holds the name of a `printf` function. Of what is compressed that is not known.
fn prints(content: &[u8]) -> bool {
    if content.len() > MOST_SEARCHED_BYTES {
        return false;
    }
    let mut begins = content.windows(2).enumerate().filter(|(_, two)| two[0] == 0 && matches!(two[1], b'v' | b'p'));
    begins.any(|(at, _)| PRINT.iter().any(|name| content[at..].starts_with(name)))
}

/// The number of so many bytes, eight at most, at an offset.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut value = [0; 8];
    value[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    Some(u64::from_le_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of this kind, with a body of 16 bytes.
    fn entry(kind: u16, head: u32) -> Vec<u8> {
        let mut bytes = vec![0; head.max(16) as usize + 16];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&head.to_le_bytes());
        bytes[8..16].copy_from_slice(&16_u64.to_le_bytes());
        bytes
    }

    fn fat(entries: &[Vec<u8>]) -> Vec<u8> {
        let body = entries.concat();
        let mut bytes = FAT_BINARY.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn kinds(kinds: &[u16]) -> u64 {
        kind_of(Start::FatBinary, &fat(&kinds.iter().map(|kind| entry(*kind, 64)).collect::<Vec<_>>()))
    }

    #[test]
    fn an_image_is_told_by_its_first_bytes_and_no_others_are_asked_for() {
        let of = |bytes: &[u8]| Start::of(|n| bytes[n]);
        for text in [&b"."[..], b"//", b"\n", b"\r", b"\t", b" "] {
            assert_eq!(of(text), Some(Start::Text), "{text:?}");
        }
        for (magic, start) in [(ELF, Start::Elf), (FAT_BINARY, Start::FatBinary), (REFERENCE, Start::Reference)] {
            let bytes = magic.to_le_bytes();
            assert_eq!(of(&bytes), Some(start));
            for n in 0..4 {
                // What is asked for behind the end would be a panic.
                let mut other = bytes[..=n].to_vec();
                other[n] ^= 1;
                assert_eq!(of(&other), None, "{start:?} {n}");
            }
        }
        assert_eq!(of(b"\0"), None);
        let heads = [Start::Text, Start::Elf, Start::FatBinary, Start::Reference].map(Start::head_bytes);
        assert_eq!(heads, [1, 64, 16, 24]);
    }

    #[test]
    fn a_reference_has_the_address_of_its_fat_binary() {
        let mut reference = [0_u8; REFERENCE_BYTES];
        reference[..4].copy_from_slice(&REFERENCE.to_le_bytes());
        reference[4] = 1;
        assert_eq!(Reference::of(&reference), None, "to nothing");
        reference[8..16].copy_from_slice(&0x1234_u64.to_le_bytes());
        assert_eq!(Reference::of(&reference), Some(Reference { fat_binary: 0x1234, is_complete: true }));
        assert_eq!(fat_binary_of(&reference), Some(0x1234));
        for version in [0, 2, 3] {
            reference[4] = version;
            assert_eq!(Reference::of(&reference), Some(Reference { fat_binary: 0x1234, is_complete: false }));
            assert_eq!(fat_binary_of(&reference), None, "version {version}");
        }
        reference[4..8].copy_from_slice(&[1, 0, 0, 1]);
        assert_eq!(fat_binary_of(&reference), None, "the version has four bytes");
        reference[4..8].copy_from_slice(&[1, 0, 0, 0]);
        reference[0] ^= 3;
        assert_eq!(Reference::of(&reference), None, "something else");
    }

    #[test]
    fn the_head_says_where_an_image_ends() {
        let mut elf = [0_u8; ELF_BYTES];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        let mut put = |at: usize, value: u16| elf[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let fields = [(0x20, 5000), (0x36, 56), (0x38, 3), (0x28, 4000), (0x3a, 64), (0x3c, 10)];
        fields.into_iter().for_each(|(at, value)| put(at, value));
        assert_eq!(length_of(&elf), Some(Length::Bytes(5000 + 3 * 56)), "the program headers come last");
        elf[0x28..0x2a].copy_from_slice(&6000_u16.to_le_bytes());
        assert_eq!(length_of(&elf), Some(Length::Bytes(6000 + 640)), "the sections do");
        elf[4] = 1;
        assert_eq!(length_of(&elf), None, "a file of 32 bits");
        elf[4] = 2;
        elf[0x20..0x30].fill(0xff);
        assert_eq!(length_of(&elf), None, "no length that there can be");
        let mut fat = fat(&[])[..FAT_BINARY_BYTES].to_vec();
        fat[8..16].copy_from_slice(&1000_u64.to_le_bytes());
        assert_eq!(length_of(&fat), Some(Length::Bytes(1016)));
        assert_eq!(length_of(&fat[..15]), None, "its head is cut off");
        fat[8..16].fill(0xff);
        assert_eq!(length_of(&fat), None, "no length that there can be");
        assert_eq!(length_of(b".version 8.0\0"), Some(Length::ToZero));
        let mut reference = [1; REFERENCE_BYTES];
        reference[..4].copy_from_slice(&REFERENCE.to_le_bytes());
        for nothing in [&b""[..], b"\x7fELF", b"\x50", b"hello, world of images", &reference] {
            assert_eq!(length_of(nothing), None);
        }
    }

    #[test]
    fn a_header_with_nothing_behind_it_is_no_image() {
        let elf = |end: u64| {
            let mut head = [0_u8; ELF_BYTES];
            head[..5].copy_from_slice(b"\x7fELF\x02");
            head[0x20..0x28].copy_from_slice(&end.to_le_bytes());
            length_of(&head)
        };
        assert_eq!((elf(64), elf(65)), (None, Some(Length::Bytes(65))));
        let fat = |behind: u8| {
            let mut head = fat(&[]);
            head[8] = behind;
            length_of(&head)
        };
        assert_eq!((fat(0), fat(1)), (None, Some(Length::Bytes(17))));
    }

    #[test]
    fn an_elf_file_is_cut_off_where_its_tables_end_before_its_parts() {
        // A segment's header, the headers of two sections, and what is in the first section; the second one is in memory alone.
        let (segments, sections, end) = (ELF_BYTES, ELF_BYTES + 56, ELF_BYTES + 56 + 128);
        let mut elf = vec![0_u8; end];
        let put = |elf: &mut [u8], at: usize, value: u64, bytes: usize| {
            elf[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        let head = [(0x20, segments, 8), (0x28, sections, 8), (0x36, 56, 2), (0x38, 1, 2), (0x3a, 64, 2), (0x3c, 2, 2)];
        for (at, value, bytes) in head {
            put(&mut elf, at, value as u64, bytes);
        }
        let second = sections + 64;
        put(&mut elf, second + 4, 8, 4);
        put(&mut elf, second + 0x20, 1 << 40, 8);
        assert!(!is_cut_off(&elf));
        for (at, what) in [(sections + 0x18, "a section"), (segments + 8, "a segment")] {
            let mut other = elf.clone();
            put(&mut other, at, end as u64, 8);
            assert!(!is_cut_off(&other), "{what} of no length");
            put(&mut other, if at < sections { segments } else { sections } + 0x20, 1, 8);
            assert!(is_cut_off(&other), "{what}");
            other.push(0);
            assert!(!is_cut_off(&other), "{what}, with what is in it");
            put(&mut other, at, u64::MAX, 8);
            assert!(is_cut_off(&other), "{what} that ends nowhere");
        }
        assert!(is_cut_off(&elf[..end - 1]) && is_cut_off(&elf[..ELF_BYTES - 1]), "the tables are cut off");
        for (at, value, bytes, what) in [
            (0x3c, 0, 2, "as many sections as are counted elsewhere"),
            (0x3a, 0, 2, "headers of no length"),
            (0x3a, 1, 2, "headers that are too short"),
            (0x28, u64::MAX, 8, "a table nowhere"),
        ] {
            let mut other = elf.clone();
            put(&mut other, at, value, bytes);
            assert!(is_cut_off(&other), "{what}");
        }
        put(&mut elf, 0x28, 0, 8);
        assert!(!is_cut_off(&elf), "no sections");
        assert!(!is_cut_off(b"code") && !is_cut_off(b"") && !is_cut_off(&fat(&[])));
    }

    #[test]
    fn a_fat_binary_is_told_by_what_is_in_it() {
        assert_eq!(kinds(&[1, 2]), bits::FAT_BINARY);
        assert_eq!(kinds(&[1, 1]), bits::FAT_BINARY_OF_PTX);
        assert_eq!(kinds(&[]), bits::FAT_BINARY_OF_PTX);
        assert_eq!(kind_of(Start::FatBinary, &[]), bits::FAT_BINARY_OF_PTX);
        assert_eq!(kinds(&[1; MOST_ENTRIES - 1]), bits::FAT_BINARY_OF_PTX);
        assert_eq!(kinds(&[1; MOST_ENTRIES]), bits::FAT_BINARY, "who knows what else");
        let no_header = kind_of(Start::FatBinary, &fat(&[entry(1, 0), entry(1, 64)]));
        assert_eq!(no_header, bits::FAT_BINARY, "there is no next entry");
        // Each entry ends where its header and its body do.
        let mut long = entry(1, 80);
        long[8] = 24;
        long.extend([0; 8]);
        assert_eq!(kind_of(Start::FatBinary, &fat(&[long, entry(2, 64)])), bits::FAT_BINARY);
        let mut cut_off = fat(&[entry(1, 64), entry(2, 64)]);
        cut_off.truncate(16 + 80 + 15);
        assert_eq!(kind_of(Start::FatBinary, &cut_off), bits::FAT_BINARY_OF_PTX);
        let mut endless = entry(1, 64);
        endless[8..16].fill(0xff);
        assert_eq!(kind_of(Start::FatBinary, &fat(&[endless, entry(2, 64)])), bits::FAT_BINARY_OF_PTX);
    }

    #[test]
    fn a_small_image_tells_whether_it_prints() {
        let with = |name: &[u8], length: usize| {
            let mut content = fat(&[entry(2, 64)]);
            content.resize(length.max(content.len() + name.len()) - name.len(), 0);
            content.extend_from_slice(name);
            kind_of(Start::FatBinary, &content)
        };
        for name in [&b"\0vprintf\0"[..], b"\0printf\0", b"\0vp\0vprintf\0"] {
            assert_eq!(with(name, 0), bits::FAT_BINARY | bits::PRINTS);
        }
        for name in [&b"\0vprintx\0"[..], b"xvprintf\0", b"\0vprintf", b"\0fprintf\0"] {
            assert_eq!(with(name, 0), bits::FAT_BINARY);
        }
        assert_eq!(with(b"\0vprintf\0", MOST_SEARCHED_BYTES), bits::FAT_BINARY | bits::PRINTS);
        assert_eq!(with(b"\0vprintf\0", MOST_SEARCHED_BYTES + 1), bits::FAT_BINARY, "not searched");
        assert_eq!(kind_of(Start::Elf, b"\x7fELF\0vprintf\0"), bits::MACHINE_CODE | bits::PRINTS);
        assert_eq!(kind_of(Start::Elf, &[]), bits::MACHINE_CODE);
        assert_eq!((kind_of(Start::Text, b""), kind_of(Start::Reference, b"\0vprintf\0")), (bits::PTX, 0));
    }
}
