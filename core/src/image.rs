//! Finds the kind and the end of an image of code by its first bytes: a program passes the driver its address alone.
//!
//! A fat binary has a magic number, a version, the length of this header and the length of the entries behind it. An entry has a header and a
//! body: machine code or text, which may be compressed. Beside a fat binary, programs have a reference to it: a magic number, a version, an
//! address.
//!
//! Must not: ask for more bytes than the driver reads: the memory behind an image may not be readable.

use crate::trace::layout::image as bits;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::LittleEndian;

const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
const FAT_BINARY: u32 = 0xBA55_ED50;
const REFERENCE: u32 = 0x4662_43B1;

/// The length of the header of an ELF file of 64 bits.
const ELF_BYTES: usize = 64;
const FAT_BINARY_BYTES: usize = 16;
pub const REFERENCE_BYTES: usize = 24;

/// The version of references to one complete fat binary; the second one has a list of others.
const COMPLETE: u32 = 1;

/// Offsets in a fat binary: length of its header, length of the rest.
const HEAD_SIZE: usize = 6;
const BODY_SIZE: usize = 8;
/// Offsets in an entry: kind, length of its header, length of its body.
const ENTRY_KIND: usize = 0;
const ENTRY_HEAD_SIZE: usize = 4;
const ENTRY_BODY_SIZE: usize = 8;
const TEXT: u64 = 1;
const MACHINE_CODE: u64 = 2;
const MOST_ENTRIES: usize = 64;

/// The largest image that the program's own call searches for functions that print.
pub const MOST_SEARCHED_BYTES: usize = 128 << 10;
/// A part of the names `printf` and `vprintf`, by which kernels print.
const PRINT: &[u8] = b"printf";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Text, which ends with a zero.
    Text,
    Elf,
    FatBinary,
    Reference,
}

impl Start {
    /// Asks for no byte behind the first that excludes it.
    pub fn of(byte: impl Fn(usize) -> u8) -> Option<Self> {
        // Directives follow blanks and comments.
        if matches!(byte(0), b'.' | b'/' | b'\n' | b'\r' | b'\t' | b' ') {
            return Some(Self::Text);
        }
        let begins_with = |magic: u32| (0..).zip(magic.to_le_bytes()).all(|(n, expected)| byte(n) == expected);
        let all = [(ELF, Self::Elf), (FAT_BINARY, Self::FatBinary), (REFERENCE, Self::Reference)];
        all.into_iter().find(|(magic, _)| begins_with(*magic)).map(|(_, start)| start)
    }

    pub const fn head_bytes(self) -> usize {
        match self {
            Self::Text => 1,
            Self::Elf => ELF_BYTES,
            Self::FatBinary => FAT_BINARY_BYTES,
            Self::Reference => REFERENCE_BYTES,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    pub fat_binary: u64,
    /// Whether there is no other fat binary.
    pub is_complete: bool,
}

impl Reference {
    pub fn of(bytes: &[u8; REFERENCE_BYTES]) -> Option<Self> {
        let fat_binary = number(bytes, 8, 8)?;
        let is_one = bytes.starts_with(&REFERENCE.to_le_bytes()) && fat_binary != 0;
        is_one.then_some(Self { fat_binary, is_complete: number(bytes, 4, 4)? == u64::from(COMPLETE) })
    }
}

/// `None` if it is no reference, or not complete by itself.
pub fn fat_binary_of(reference: &[u8; REFERENCE_BYTES]) -> Option<u64> {
    Reference::of(reference).filter(|it| it.is_complete).map(|it| it.fat_binary)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Bytes(u64),
    ToZero,
}

/// The length of an image by its first bytes, [`Start::head_bytes`] or more; `None` where unknown, and of a reference.
pub fn length_of(head: &[u8]) -> Option<Length> {
    let number = |at, bytes| number(head, at, bytes);
    let start = Start::of(|n| head.get(n).copied().unwrap_or(0))?;
    let bytes = match start {
        Start::Text => return Some(Length::ToZero),
        Start::Elf => {
            // Only files of 64 bits. Compilers write one of the two tables last.
            let is_wide = *head.get(4)? == 2;
            let end = |at, entry, count| number(at, 8)?.checked_add(number(entry, 2)? * number(count, 2)?);
            is_wide.then_some(end(0x20, 0x36, 0x38)?.max(end(0x28, 0x3a, 0x3c)?))?
        }
        Start::FatBinary => number(HEAD_SIZE, 2)?.checked_add(number(BODY_SIZE, 8)?)?,
        Start::Reference => return None,
    };
    (bytes > start.head_bytes() as u64).then_some(Length::Bytes(bytes))
}

/// Whether an ELF file has content behind the end of its tables, which [`length_of`] tells, or may have: compilers write the tables last.
pub fn is_cut_off(content: &[u8]) -> bool {
    content.starts_with(&ELF.to_le_bytes()) && !holds_its_parts(content).unwrap_or(false)
}

fn holds_its_parts(elf: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<LittleEndian>::parse(elf)?;
    let is_inside = |(at, bytes): (u64, u64)| at.checked_add(bytes).is_some_and(|end| end <= elf.len() as u64);
    // A section that is in memory alone has no place in the file.
    let mut sections =
        header.section_headers(LittleEndian, elf)?.iter().filter_map(|section| section.file_range(LittleEndian));
    let mut segments =
        header.program_headers(LittleEndian, elf)?.iter().map(|segment| segment.file_range(LittleEndian));
    Ok(sections.all(is_inside) && segments.all(is_inside))
}

/// The bits of records; 0 for a reference. `content` is the whole image, or empty where its length is not known. Only one that is small enough is
/// searched for what prints.
pub fn kind_of(start: Start, content: &[u8]) -> u64 {
    let kind = match start {
        Start::Text => bits::PTX,
        Start::Elf => bits::MACHINE_CODE,
        Start::FatBinary if has_machine_code(content) => bits::FAT_BINARY,
        Start::FatBinary => bits::FAT_BINARY_OF_PTX,
        Start::Reference => return 0,
    };
    if content.len() <= MOST_SEARCHED_BYTES && Prints::of(content) == Prints::Yes {
        kind | bits::PRINTS
    } else {
        kind
    }
}

struct Entry<'a> {
    kind: u64,
    body: &'a [u8],
    is_whole: bool,
    /// The place of the next entry; `None` behind one without a header.
    next: Option<usize>,
}

impl<'a> Entry<'a> {
    fn at(content: &'a [u8], at: usize) -> Option<Self> {
        let entry = content.get(at..)?;
        let kind = number(entry, ENTRY_KIND, 2)?;
        let [head, body] = [number(entry, ENTRY_HEAD_SIZE, 4)?, number(entry, ENTRY_BODY_SIZE, 8)?];
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let bytes = entry.get(size(head)..).unwrap_or_default();
        let next = (head > 0).then(|| at.saturating_add(size(head)).saturating_add(size(body)));
        Some(Self { kind, body: &bytes[..bytes.len().min(size(body))], is_whole: bytes.len() >= size(body), next })
    }
}

/// `None` where there are very many entries, or one without a header.
fn each_entry<'a>(content: &'a [u8], mut f: impl FnMut(&Entry<'a>)) -> Option<()> {
    let mut at = number(content, HEAD_SIZE, 2)? as usize;
    for _ in 0..MOST_ENTRIES {
        let Some(entry) = Entry::at(content, at) else { return Some(()) };
        f(&entry);
        at = entry.next?;
    }
    None
}

/// Whether a fat binary has machine code, and not only text. One with very many entries, or a damaged one, has.
fn has_machine_code(content: &[u8]) -> bool {
    let mut found = false;
    let all = each_entry(content, |entry| found |= entry.kind == MACHINE_CODE);
    found || all.is_none() && content.len() >= FAT_BINARY_BYTES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prints {
    No,
    /// One has the name of a function for it.
    Yes,
    /// It is compressed, or not known.
    Unknown,
}

impl Prints {
    /// Looks at a whole image. Compilers make text and machine code of one source and compress the text alone, so unreadable text says nothing
    /// beside readable code. Unreadable machine code leaves it open.
    pub fn of(content: &[u8]) -> Self {
        match Start::of(|n| content.get(n).copied().unwrap_or(0)) {
            Some(Start::FatBinary) => Self::of_fat_binary(content),
            Some(Start::Text | Start::Elf) if names_print(content) => Self::Yes,
            Some(Start::Text | Start::Elf) => Self::No,
            Some(Start::Reference) | None => Self::Unknown,
        }
    }

    fn of_fat_binary(content: &[u8]) -> Self {
        let (mut prints, mut reads_code, mut has_text) = (false, false, false);
        let mut is_open = content.len() < FAT_BINARY_BYTES;
        let all = each_entry(content, |entry| {
            let start = Start::of(|n| entry.body.get(n).copied().unwrap_or(0));
            match (entry.kind, start) {
                _ if !entry.is_whole => is_open = true,
                (MACHINE_CODE, Some(Start::Elf)) => reads_code = true,
                (TEXT, Some(Start::Text)) => {}
                (TEXT, _) => has_text = true,
                _ => is_open = true,
            }
            prints |= start.is_some() && names_print(entry.body);
        });
        match () {
            () if prints => Self::Yes,
            () if all.is_none() || is_open || has_text && !reads_code => Self::Unknown,
            () => Self::No,
        }
    }
}

/// Horspool search, which looks at few of the bytes of a large image; a library for it would be larger than this file.
fn names_print(content: &[u8]) -> bool {
    let mut end = PRINT.len();
    while let Some(here) = content.get(end - PRINT.len()..end) {
        if here == PRINT {
            return true;
        }
        // The search goes on where the name would have the last of these bytes in its place, or behind that byte.
        let last = here[PRINT.len() - 1];
        let nearest = PRINT.iter().rev().skip(1).position(|&byte| byte == last);
        end += nearest.map_or(PRINT.len(), |nearest| nearest + 1);
    }
    false
}

pub(crate) fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
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
                // A question about a byte behind the end would be a panic.
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
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
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
            (0x3a, 0, 2, "headers of no length"),
            (0x3a, 1, 2, "headers that are too short"),
            (0x28, u64::MAX, 8, "a table nowhere"),
        ] {
            let mut other = elf.clone();
            put(&mut other, at, value, bytes);
            assert!(is_cut_off(&other), "{what}");
        }
        let mut other = elf.clone();
        put(&mut other, 0x3c, 0, 2);
        put(&mut other, sections + 0x20, 2, 8);
        assert!(!is_cut_off(&other), "the first section has the number of all");
        put(&mut other, second + 4, 1, 4);
        assert!(is_cut_off(&other), "the second of them lies behind the end");
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
        let mut last = entry(1, 0);
        last[8] = last.len() as u8;
        assert_eq!(
            kind_of(Start::FatBinary, &fat(&[last])),
            bits::FAT_BINARY,
            "nor behind one that seems to be the last"
        );
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

    /// An entry of this kind and with this body, behind which `flags` says that it is compressed, if it is.
    fn holding(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = entry(kind, 64);
        bytes.truncate(64);
        bytes[8..16].copy_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    const QUIET: &[u8] = b"\x7fELF\0kernel\0";
    const LOUD: &[u8] = b"\x7fELF\0kernel\0vprintf\0";
    const QUIET_TEXT: &[u8] = b".version 8.0\n.entry k() { ret; }";
    const LOUD_TEXT: &[u8] = b".version 8.0\n.extern .func (.param .b32 r) vprintf";
    /// As the compilers' two ways to compress begin.
    const COMPRESSED: [&[u8]; 2] = [b"(\xb5/\xfd`\x05", b"\xf5\x12\x7fELF\x02"];

    #[test]
    fn an_image_prints_that_names_a_function_for_it() {
        for (content, prints) in [
            (QUIET, Prints::No),
            (LOUD, Prints::Yes),
            (b"\x7fELF\0myprintf\0", Prints::Yes),
            (b"\x7fELF\0print\0", Prints::No),
            (QUIET_TEXT, Prints::No),
            (LOUD_TEXT, Prints::Yes),
            (b"", Prints::Unknown),
            (COMPRESSED[0], Prints::Unknown),
            (&fat(&[])[..15], Prints::Unknown),
        ] {
            assert_eq!(Prints::of(content), prints, "{}", content.escape_ascii());
        }
        let mut large = vec![0; 40 << 20];
        large[..4].copy_from_slice(b"\x7fELF");
        assert_eq!(Prints::of(&large), Prints::No);
        large.extend(b"vprintf\0");
        assert_eq!(Prints::of(&large), Prints::Yes, "at any place");
    }

    #[test]
    fn of_a_fat_binary_the_machine_code_tells_and_what_cannot_be_read_leaves_it_open() {
        const T: u16 = TEXT as u16;
        const M: u16 = MACHINE_CODE as u16;
        let of = |entries: &[(u16, &[u8])]| {
            Prints::of(&fat(&entries.iter().map(|(kind, body)| holding(*kind, body)).collect::<Vec<_>>()))
        };
        for packed in COMPRESSED {
            for (entries, prints) in [
                (&[(M, QUIET)][..], Prints::No),
                (&[(M, LOUD)], Prints::Yes),
                (&[(M, QUIET), (M, LOUD)], Prints::Yes),
                (&[(T, QUIET_TEXT)], Prints::No),
                (&[(T, LOUD_TEXT)], Prints::Yes),
                (&[(T, QUIET_TEXT), (M, QUIET)], Prints::No),
                (&[(T, packed), (M, QUIET)], Prints::No),
                (&[(M, QUIET), (T, packed)], Prints::No),
                (&[(T, packed), (M, LOUD)], Prints::Yes),
                (&[(T, packed)], Prints::Unknown),
                (&[(T, packed), (T, QUIET_TEXT)], Prints::Unknown),
                (&[(M, packed)], Prints::Unknown),
                (&[(M, packed), (M, QUIET)], Prints::Unknown),
                (&[(M, QUIET), (M, packed)], Prints::Unknown),
                (&[(M, packed), (T, QUIET_TEXT)], Prints::Unknown),
                (&[(M, packed), (T, LOUD_TEXT)], Prints::Yes),
                // An intermediate form, of which nothing is known.
                (&[(0x10, QUIET), (M, QUIET)], Prints::Unknown),
                (&[(M, b"")], Prints::Unknown),
                (&[], Prints::No),
            ] {
                assert_eq!(of(entries), prints, "{entries:?}");
            }
        }
        let named_in_what_is_packed = [COMPRESSED[0], b"vprintf"].concat();
        assert_eq!(of(&[(M, &named_in_what_is_packed)]), Prints::Unknown, "by chance");
        let many = vec![(M, QUIET); MOST_ENTRIES];
        assert_eq!((of(&many[1..]), of(&many)), (Prints::No, Prints::Unknown), "who knows what else");
        assert_eq!(Prints::of(&fat(&[entry(2, 0), holding(M, QUIET)])), Prints::Unknown, "there is no next entry");
        let whole = fat(&[holding(M, QUIET)]);
        assert_eq!(Prints::of(&whole[..whole.len() - 1]), Prints::Unknown, "it is cut off");
    }

    #[test]
    fn the_name_is_found_behind_any_number_of_its_own_letters() {
        let behind = |byte: u8, count: usize, name: &[u8]| names_print(&[&vec![byte; count], name, b"\0"].concat());
        for (byte, count) in PRINT.iter().flat_map(|&byte| (0..20).map(move |count| (byte, count))) {
            assert!(behind(byte, count, PRINT), "{byte} {count}");
            assert!(!behind(byte, count, &PRINT[..5]), "{byte} {count}");
        }
    }

    #[test]
    fn a_small_image_tells_whether_it_prints() {
        let with = |name: &[u8], length: usize| {
            let mut body = QUIET.to_vec();
            let around = fat(&[holding(2, b"")]).len() + name.len();
            body.resize(body.len().max(length.saturating_sub(around)), 0);
            body.extend_from_slice(name);
            kind_of(Start::FatBinary, &fat(&[holding(2, &body)]))
        };
        assert_eq!(with(b"\0vprintf\0", 0), bits::FAT_BINARY | bits::PRINTS);
        assert_eq!(with(b"\0vprintx\0", 0), bits::FAT_BINARY);
        assert_eq!(with(b"\0vprintf\0", MOST_SEARCHED_BYTES), bits::FAT_BINARY | bits::PRINTS);
        assert_eq!(with(b"\0vprintf\0", MOST_SEARCHED_BYTES + 1), bits::FAT_BINARY, "not searched");
        assert_eq!(kind_of(Start::Elf, LOUD), bits::MACHINE_CODE | bits::PRINTS);
        assert_eq!(kind_of(Start::Elf, &[]), bits::MACHINE_CODE);
        assert_eq!([b"", LOUD_TEXT].map(|text| kind_of(Start::Text, text)), [bits::PTX, bits::PTX | bits::PRINTS]);
        assert_eq!(kind_of(Start::Reference, LOUD), 0);
    }
}
