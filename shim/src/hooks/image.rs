//! What kind of code a program gives to the driver, by its first bytes. Compiling takes long, and looks like a hang.
//!
//! Must not: read more than the driver has to read itself to learn the same.

use crate::lookup::driver::{self, Handle};
use crate::preload::libraries;
use crate::runtime::files;
use lazyguard_core::profile::{size_of, Head, LoadOptions, Place, HEAD_BYTES, MOST_IMAGE_BYTES};
use lazyguard_core::trace::layout::image;
use std::borrow::Cow;
use std::ffi::{c_char, CStr, OsStr};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A fat binary begins with this number; a reference to one, as compilers put into programs, with that.
const FAT_BINARY: u32 = 0xBA55_ED50;
const REFERENCE: u32 = 0x4662_43B1;
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");

/// Offsets in a fat binary's header: the size of the header, and the size of the entries.
const HEAD_SIZE: usize = 6;
const BODY_SIZE: usize = 8;
/// Offsets in an entry: its kind, the size of its header, and the size of its body.
const ENTRY_KIND: usize = 0;
const ENTRY_HEAD_SIZE: usize = 4;
const ENTRY_BODY_SIZE: usize = 8;
/// An entry with machine code.
const MACHINE_CODE: u16 = 2;
/// Entries that are looked at.
const MOST_ENTRIES: usize = 64;

/// Images up to this size are searched for `printf`.
const MOST_BYTES: usize = 128 << 10;
/// The names of the function by which kernels print, as a table of symbols holds them.
const PRINT: [&[u8]; 2] = [b"\0vprintf\0", b"\0printf\0"];

/// Whether these bytes hold the name of a `printf` function.
///
/// # Safety
/// `size` bytes are readable from `code` on.
unsafe fn prints(code: *const u8, size: usize) -> u64 {
    if size > MOST_BYTES {
        return 0;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(code, size) };
    let mut begins = bytes.windows(2).enumerate().filter(|(_, two)| two[0] == 0 && matches!(two[1], b'v' | b'p'));
    if begins.any(|(at, _)| PRINT.iter().any(|name| bytes[at..].starts_with(name))) {
        image::PRINTS
    } else {
        0
    }
}

/// The size of an ELF file: the end of its section table.
///
/// # Safety
/// `code` is the beginning of an ELF file.
unsafe fn elf_size(code: *const u8) -> usize {
    const SECTIONS_AT: usize = 0x28;
    const SECTION_BYTES: usize = 0x3a;
    const SECTION_COUNT: usize = 0x3c;
    // SAFETY: inside the head of an ELF file of 64 bits.
    unsafe {
        let at = code.add(SECTIONS_AT).cast::<u64>().read_unaligned() as usize;
        let bytes = usize::from(code.add(SECTION_BYTES).cast::<u16>().read_unaligned());
        let count = usize::from(code.add(SECTION_COUNT).cast::<u16>().read_unaligned());
        // The table is at the end of what compilers write.
        at.saturating_add(bytes.saturating_mul(count))
    }
}

/// The content of an image and the options of its load, where the profile keeps such: machine code and text, and options that the driver only
/// reads. A fat binary may hold compressed code, of which nothing can be said.
pub(super) fn given<'a>(
    code: Handle,
    count: u32,
    options: Handle,
    values: Handle,
) -> Option<(Cow<'a, [u8]>, LoadOptions)> {
    if code.is_null() || count > 0 && (options.is_null() || values.is_null()) {
        return None;
    }
    let given = (0..count as usize).map(|at| {
        // SAFETY: the program gives the driver so many options, and as many values.
        unsafe { (options.cast::<i32>().add(at).read_unaligned(), values.cast::<u64>().add(at).read_unaligned()) }
    });
    let options = LoadOptions::new(given)?;
    let code = code.cast::<u8>();
    // SAFETY: the program gives this to the driver as an image, of which the first byte is read. An ELF file has its head.
    let head = unsafe { std::slice::from_raw_parts(code, if code.read() == 0x7f { HEAD_BYTES } else { 1 }) };
    let bytes = match size_of(head)? {
        Head::Whole(bytes) => bytes,
        // SAFETY: text, which ends with a zero for the driver.
        Head::Text => unsafe { libc::strlen(code.cast()) as u64 },
    };
    let length = usize::try_from(bytes).ok().filter(|_| bytes <= MOST_IMAGE_BYTES)?;
    // SAFETY: so many bytes belong to the image, as it says itself, and the driver reads them. It is read during the program's call alone.
    Some((unsafe { std::slice::from_raw_parts(code, length) }.into(), options))
}

/// The same of a file whose path the program gives to the driver, which reads it once more.
pub(super) fn in_file<'a>(path: Handle) -> Option<(Cow<'a, [u8]>, LoadOptions)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: a path that the driver is about to read.
    let path = unsafe { CStr::from_ptr(path.cast::<c_char>()) };
    let mut file = files::open(Path::new(OsStr::from_bytes(path.to_bytes()))).ok()?;
    let mut content = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut content).ok()?;
    let head = content.get(..HEAD_BYTES).filter(|head| head[0] == 0x7f).unwrap_or(content.get(..1)?);
    let head = size_of(head)?;
    file.take(MOST_IMAGE_BYTES).read_to_end(&mut content).ok()?;
    let length = match head {
        Head::Whole(bytes) => usize::try_from(bytes).ok()?,
        Head::Text => memchr::memchr(0, &content).unwrap_or(content.len()),
    };
    if length > content.len() || length as u64 > MOST_IMAGE_BYTES {
        return None;
    }
    content.truncate(length);
    Some((content.into(), LoadOptions::default()))
}

/// Where the fat binary is that a CUDA runtime gives to the driver, with no other option than that it is preserved, which runtimes state.
/// `None` for what is not in an object: the driver is asked as the program asks it.
pub(super) fn place(code: Handle, count: u32, options: Handle, values: Handle) -> Option<Place> {
    is_a_runtimes(code, count, options, values).then(|| libraries::place_of(code as u64))?
}

/// Whether a library is loaded as CUDA's runtimes do it: by a reference to a fat binary, with no other option than that the image is preserved.
pub(super) fn is_a_runtimes(code: Handle, count: u32, options: Handle, values: Handle) -> bool {
    if code.is_null() || count > 1 || count == 1 && (options.is_null() || values.is_null()) {
        return false;
    }
    // SAFETY: the program gives this to the driver as an image. It is read up to the first byte that is none of a reference's.
    let byte = |n: usize| unsafe { code.cast::<u8>().add(n).read() };
    let is_reference = REFERENCE.to_le_bytes().into_iter().enumerate().all(|(n, expected)| byte(n) == expected);
    // SAFETY: the program gives the driver so many options.
    is_reference && (count == 0 || unsafe { options.cast::<i32>().read_unaligned() } == driver::BINARY_IS_PRESERVED)
}

/// The kind, as records have it; 0 for none that is known.
pub(super) fn kind(code: Handle) -> u64 {
    if code.is_null() {
        return 0;
    }
    let code = code.cast::<u8>();
    // SAFETY: the program gives this to the driver as an image, of which the first byte is read.
    match unsafe { code.read() } {
        // Text in which directives follow blanks and comments.
        b'.' | b'/' | b'\n' | b'\r' | b'\t' | b' ' => image::PTX,
        first if [ELF, FAT_BINARY, REFERENCE].iter().any(|magic| magic.to_le_bytes()[0] == first) => {
            // SAFETY: what begins so is longer than a number.
            match unsafe { code.cast::<u32>().read_unaligned() } {
                ELF => {
                    // SAFETY: what begins as an ELF file has its head, which says where it ends.
                    let prints = unsafe {
                        let wide = code.add(4).read() == 2;
                        if wide {
                            prints(code, elf_size(code))
                        } else {
                            0
                        }
                    };
                    image::MACHINE_CODE | prints
                }
                FAT_BINARY => fat_binary(code),
                REFERENCE => {
                    // SAFETY: a reference is two numbers and the address of a fat binary.
                    let target = unsafe { code.add(8).cast::<*const u8>().read_unaligned() };
                    // SAFETY: as the driver reads it.
                    let is_one = !target.is_null() && unsafe { target.cast::<u32>().read_unaligned() } == FAT_BINARY;
                    if is_one {
                        fat_binary(target)
                    } else {
                        0
                    }
                }
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Whether a fat binary has machine code in it, or only text to be compiled.
fn fat_binary(code: *const u8) -> u64 {
    // SAFETY: a fat binary begins with its own sizes.
    let (mut at, size) = unsafe {
        let head = usize::from(code.add(HEAD_SIZE).cast::<u16>().read_unaligned());
        (head, code.add(BODY_SIZE).cast::<u64>().read_unaligned() as usize)
    };
    let end = at.saturating_add(size);
    // SAFETY: inside the sizes that the fat binary gives.
    let prints = unsafe { prints(code, end) };
    for _ in 0..MOST_ENTRIES {
        if at.saturating_add(ENTRY_BODY_SIZE + 8) > end {
            return image::FAT_BINARY_OF_PTX | prints;
        }
        // SAFETY: inside the sizes that the fat binary gives.
        let (kind, head, body) = unsafe {
            let entry = code.add(at);
            (
                entry.add(ENTRY_KIND).cast::<u16>().read_unaligned(),
                entry.add(ENTRY_HEAD_SIZE).cast::<u32>().read_unaligned() as usize,
                entry.add(ENTRY_BODY_SIZE).cast::<u64>().read_unaligned() as usize,
            )
        };
        if kind == MACHINE_CODE || head == 0 {
            return image::FAT_BINARY | prints;
        }
        at = at.saturating_add(head).saturating_add(body);
    }
    image::FAT_BINARY | prints
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn kind_of(bytes: &[u8]) -> u64 {
        kind(bytes.as_ptr().cast_mut().cast())
    }

    fn fat(kinds: &[u16]) -> Vec<u8> {
        let entry = |kind: u16| {
            let mut bytes = vec![0u8; 64 + 16];
            bytes[..2].copy_from_slice(&kind.to_le_bytes());
            bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
            bytes[8..16].copy_from_slice(&16u64.to_le_bytes());
            bytes
        };
        let body: Vec<u8> = kinds.iter().flat_map(|kind| entry(*kind)).collect();
        let mut bytes = FAT_BINARY.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_small_image_tells_whether_it_prints() {
        let mut binary = fat(&[2]);
        let end = binary.len();
        binary[end - 9..].copy_from_slice(b"\0vprintf\0");
        assert_eq!(kind_of(&binary), image::FAT_BINARY | image::PRINTS);
        binary[end - 1] = b'x';
        assert_eq!(kind_of(&binary), image::FAT_BINARY);
    }

    #[test]
    fn an_image_is_told_by_its_first_bytes() {
        assert_eq!(kind(null_mut()), 0);
        assert_eq!(kind_of(b"\0"), 0);
        assert_eq!(kind_of(b".version 8.0\0"), image::PTX);
        assert_eq!(kind_of(b"//\n.version 8.0\0"), image::PTX);
        let mut elf = [0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        assert_eq!(kind_of(&elf), image::MACHINE_CODE);
        assert_eq!(kind_of(b"\x7fELK\x02"), 0);
    }

    #[test]
    fn a_runtime_gives_a_reference_and_no_option_but_one() {
        let runtimes =
            |image: &[u8], count| is_a_runtimes(image.as_ptr().cast_mut().cast(), count, null_mut(), null_mut());
        let reference = REFERENCE.to_le_bytes();
        assert_eq!([0, 1, 2].map(|count| runtimes(&reference, count)), [true, false, false]);
        assert!(!runtimes(&FAT_BINARY.to_le_bytes(), 0) && !runtimes(b"//", 0));
        let (mut option, mut value) = (driver::BINARY_IS_PRESERVED, 1u64);
        let with = |option: &mut i32, value: &mut u64| {
            is_a_runtimes(
                reference.as_ptr().cast_mut().cast(),
                1,
                std::ptr::from_mut(option).cast(),
                std::ptr::from_mut(value).cast(),
            )
        };
        assert!(with(&mut option, &mut value));
        option += 1;
        assert!(!with(&mut option, &mut value));
    }

    #[test]
    fn a_fat_binary_is_told_by_what_is_in_it() {
        assert_eq!(kind_of(&fat(&[1, 2])), image::FAT_BINARY);
        assert_eq!(kind_of(&fat(&[1, 1])), image::FAT_BINARY_OF_PTX);
        assert_eq!(kind_of(&fat(&[])), image::FAT_BINARY_OF_PTX);
        let binary = fat(&[1]);
        let mut reference = REFERENCE.to_le_bytes().to_vec();
        reference.extend(1u32.to_le_bytes());
        reference.extend((binary.as_ptr() as u64).to_le_bytes());
        assert_eq!(kind_of(&reference), image::FAT_BINARY_OF_PTX);
    }
}
