//! The kind of code that a program gives to the driver, by its first bytes. Compiling takes long, and looks like a hang.
//!
//! Must not: read more than the driver has to read itself to learn the same, or what is not there: the driver refuses a load without a
//! context, or without a place for the handle, before it looks at the code.

use crate::lookup::driver::{self, Handle};
use crate::preload::libraries;
use crate::runtime::{files, readable};
use lazyguard_core::image::{
    is_cut_off, kind_of, length_of, Length, Reference, Start, MOST_SEARCHED_BYTES, REFERENCE_BYTES,
};
use lazyguard_core::profile::{ImageId, LoadOptions, Place, MOST_IMAGE_BYTES};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;

#[derive(Clone, Copy)]
pub(super) struct Options {
    pub count: u32,
    pub options: Handle,
    pub values: Handle,
}

impl Options {
    pub const NONE: Self = Self { count: 0, options: null_mut(), values: null_mut() };
}

/// An image in the program's memory, during the call that gives it to the driver.
#[derive(Clone, Copy)]
struct Given {
    at: *const u8,
    start: Start,
    /// Whether all of the code is in it. A reference of the second version has more code beside the fat binary.
    is_complete: bool,
}

impl Given {
    /// The image that the program gives to the driver; for a reference, the fat binary that it is to.
    fn of(code: Handle) -> Option<Self> {
        let at = code.cast_const().cast::<u8>();
        let start = start_at(at)?;
        if start != Start::Reference {
            return Some(Self { at, start, is_complete: true });
        }
        let reference = Reference::of(&readable::value(at.cast::<[u8; REFERENCE_BYTES]>())?)?;
        let at = reference.fat_binary as *const u8;
        let start = start_at(at).filter(|start| *start == Start::FatBinary)?;
        Some(Self { at, start, is_complete: reference.is_complete })
    }

    fn length(&self) -> Option<Length> {
        length_of(readable::bytes(self.at, self.start.head_bytes())?)
    }

    /// All its bytes, also of text; `None` where it is larger than the images that are kept: it may not be as long as it says.
    fn content<'a>(&self) -> Option<&'a [u8]> {
        match self.length()? {
            Length::Bytes(bytes) => (bytes <= MOST_IMAGE_BYTES).then(|| self.bytes(bytes))?,
            Length::ToZero => self.text(MOST_IMAGE_BYTES as usize),
        }
    }

    /// All bytes of text, which ends with a zero for the driver; `None` where it has more than so many.
    fn text<'a>(&self, most: usize) -> Option<&'a [u8]> {
        Some(readable::text(self.at, most + 1)?.to_bytes())
    }

    fn bytes<'a>(&self, length: u64) -> Option<&'a [u8]> {
        readable::bytes(self.at, usize::try_from(length).ok()?)
    }
}

/// The kind of image at an address that the driver is about to read from.
fn start_at(code: *const u8) -> Option<Start> {
    Start::of(|n| readable::value(code.wrapping_add(n)).unwrap_or(0))
}

/// The content of an image, and the options of its load.
pub(super) type Content<'a> = (Cow<'a, [u8]>, LoadOptions);

/// The content that a call loads, where the profile keeps such: complete code, and options that the driver only reads. A reference stands for its fat binary.
/// Kernels that print or allocate make no difference: the driver refuses to change the buffer (`CU_LIMIT_PRINTF_FIFO_SIZE`) or the heap only once such a
/// kernel was launched, and the guard launches nothing.
pub(super) fn given<'a>(code: Handle, Options { count, options, values }: Options) -> Option<Content<'a>> {
    /// The driver knows some forty.
    const MOST_OPTIONS: usize = 256;
    let count = count as usize;
    let are_there = || {
        let (options, values) = (options.cast::<u8>(), values.cast::<u8>());
        readable::bytes(options, count * 4).is_some() && readable::bytes(values, count * 8).is_some()
    };
    if count > 0 && (count > MOST_OPTIONS || !are_there()) {
        return None;
    }
    let given = (0..count).map(|at| {
        // SAFETY: so many options can be read, and as many values.
        unsafe { (options.cast::<i32>().add(at).read_unaligned(), values.cast::<u64>().add(at).read_unaligned()) }
    });
    // The driver takes a number of 32 bits. The bits that a program leaves above it may differ from run to run.
    let options = LoadOptions::new(given)
        .filter(|options| options.all().iter().all(|(_, value)| u32::try_from(*value).is_ok()))?;
    let content = Given::of(code).filter(|given| given.is_complete)?.content()?;
    (!is_cut_off(content)).then_some((content.into(), options))
}

/// The same for `cuModuleLoadFatBinary`. A reference to a fat binary, which the driver has refused there, and other images are not kept.
pub(super) fn given_as_fat_binary<'a>(code: Handle) -> Option<Content<'a>> {
    (start_at(code.cast_const().cast()) == Some(Start::FatBinary)).then(|| given(code, Options::NONE))?
}

/// The same for a library. That the image is preserved is a promise to the driver, which the guard's library does not need.
pub(super) fn given_for_library<'a>(code: Handle, jit: Options, library: Options) -> Option<Content<'a>> {
    let (content, options) = only_preserves(library).then(|| given(code, jit))??;
    Some((content, options.of_library()))
}

/// The same of a file whose path the program gives to the driver, which reads it once more.
pub(super) fn in_file<'a>(path: Handle) -> Option<Content<'a>> {
    let path = readable::text(path.cast(), libc::PATH_MAX as usize)?;
    let mut file = files::open(Path::new(OsStr::from_bytes(path.to_bytes()))).ok()?;
    let mut content = Vec::new();
    file.by_ref().take(Start::Elf.head_bytes() as u64).read_to_end(&mut content).ok()?;
    let length = length_of(&content)?;
    file.take(MOST_IMAGE_BYTES).read_to_end(&mut content).ok()?;
    let length = match length {
        Length::Bytes(bytes) => usize::try_from(bytes).ok()?,
        Length::ToZero => memchr::memchr(0, &content).unwrap_or(content.len()),
    };
    if length > content.len() || length as u64 > MOST_IMAGE_BYTES {
        return None;
    }
    content.truncate(length);
    (!is_cut_off(&content)).then(|| (content.into(), LoadOptions::default()))
}

/// Samples of a library's content, whatever its options; `None` for no image, or one larger than those that are kept.
pub(super) fn samples(code: Handle) -> Option<ImageId> {
    Some(ImageId::of_samples(Given::of(code)?.content()?))
}

/// The place of a fat binary that a CUDA runtime gives to the driver, by its options; `None` if it is in no object.
pub(super) fn place(code: Handle, library: Options) -> Option<Place> {
    is_a_runtimes(code, library).then(|| libraries::place_of(code as u64))?
}

/// Whether a library is loaded as CUDA's runtimes do it: by a reference to a fat binary, with no other option than that the image is preserved.
fn is_a_runtimes(code: Handle, library: Options) -> bool {
    only_preserves(library) && start_at(code.cast_const().cast()) == Some(Start::Reference)
}

fn only_preserves(Options { count, options, values }: Options) -> bool {
    match count {
        0 => true,
        1 => !values.is_null() && readable::value(options.cast::<i32>()) == Some(driver::BINARY_IS_PRESERVED),
        _ => false,
    }
}

/// The kind, as records have it; 0 for none that is known.
pub(super) fn kind(code: Handle) -> u64 {
    let Some(given) = Given::of(code) else { return 0 };
    let content = match given.length() {
        Some(Length::Bytes(length)) => given.bytes(length),
        Some(Length::ToZero) => given.text(MOST_SEARCHED_BYTES),
        None => None,
    };
    kind_of(given.start, content.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::trace::layout::image;

    const NONE: Options = Options::NONE;

    const FAT_BINARY: u32 = 0xBA55_ED50;
    const REFERENCE: u32 = 0x4662_43B1;

    fn these(options: &[i32], values: &[u64]) -> Options {
        let (at, values) = (options.as_ptr().cast_mut().cast(), values.as_ptr().cast_mut().cast());
        Options { count: options.len() as u32, options: at, values }
    }

    fn handle(bytes: &[u8]) -> Handle {
        bytes.as_ptr().cast_mut().cast()
    }

    fn kind_at(bytes: &[u8]) -> u64 {
        kind(handle(bytes))
    }

    /// A fat binary of this length with one entry, which holds these flags.
    fn fat(kind: u16, flags: u64, length: usize) -> Vec<u8> {
        let mut bytes = FAT_BINARY.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((length as u64 - 16).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend([1, 1]);
        bytes.extend(64_u32.to_le_bytes());
        bytes.extend((length as u64).saturating_sub(16 + 64).to_le_bytes());
        bytes.resize(16 + 40, 0);
        bytes.extend(flags.to_le_bytes());
        bytes.resize(length, 7);
        bytes
    }

    fn reference(version: u32, to: *const u8) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        bytes[..4].copy_from_slice(&REFERENCE.to_le_bytes());
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        bytes[8..16].copy_from_slice(&(to as u64).to_le_bytes());
        bytes
    }

    /// The content that is given at an address, without options.
    fn content(code: Handle) -> Option<Vec<u8>> {
        given(code, Options::NONE).map(|(content, _)| content.into_owned())
    }

    /// Bytes behind which nothing can be read.
    struct AtTheEnd {
        pages: Handle,
        bytes: usize,
    }

    const PAGES: usize = 128 << 10;

    impl AtTheEnd {
        fn of(bytes: &[u8]) -> Self {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: pages of its own, of which the second half is closed again, and the first half holds the bytes.
            let pages = unsafe {
                let pages = libc::mmap(null_mut(), PAGES, access, flags, -1, 0);
                assert_ne!(pages, libc::MAP_FAILED);
                assert_eq!(libc::mprotect(pages.add(PAGES / 2), PAGES / 2, libc::PROT_NONE), 0);
                pages.cast::<u8>().add(PAGES / 2 - bytes.len()).copy_from(bytes.as_ptr(), bytes.len());
                pages
            };
            Self { pages, bytes: bytes.len() }
        }

        fn at(&self) -> Handle {
            // SAFETY: inside the pages.
            unsafe { self.pages.cast::<u8>().add(PAGES / 2 - self.bytes).cast() }
        }
    }

    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            // SAFETY: mapped above, and used by nobody any more.
            unsafe { libc::munmap(self.pages, PAGES) };
        }
    }

    #[test]
    fn an_image_is_told_by_its_first_bytes() {
        assert_eq!(kind(null_mut()), 0);
        assert_eq!(kind_at(b"\0"), 0);
        assert_eq!(kind_at(b".version 8.0\0"), image::PTX);
        assert_eq!(kind_at(b"//\n.version 8.0\0"), image::PTX);
        assert_eq!(kind_at(b".version 8.0\n.extern .func vprintf\0"), image::PTX | image::PRINTS);
        let text = |length| [b".extern .func vprintf".to_vec(), vec![b' '; length], vec![0]].concat();
        let [short, long] = [MOST_SEARCHED_BYTES - 21, MOST_SEARCHED_BYTES - 20].map(|length| kind_at(&text(length)));
        assert_eq!((short, long), (image::PTX | image::PRINTS, image::PTX), "what is long is not looked through");
        let mut elf = [0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        assert_eq!(kind_at(&elf), image::MACHINE_CODE);
        assert_eq!(kind_at(b"\x7fELK\x02"), 0);
    }

    #[test]
    fn what_a_reference_is_to_says_what_it_is() {
        let mut binary = fat(1, 0x11, 200);
        for version in [1, 2] {
            assert_eq!(kind_at(&reference(version, binary.as_ptr())), image::FAT_BINARY_OF_PTX, "version {version}");
        }
        binary[16] = 2;
        binary[80..84].copy_from_slice(b"\x7fELF");
        binary[120..129].copy_from_slice(b"\0vprintf\0");
        for fat_binary in [&binary, &reference(1, binary.as_ptr())[..]] {
            assert_eq!(kind_at(fat_binary), image::FAT_BINARY | image::PRINTS);
        }
        let to_a_reference = reference(1, binary.as_ptr());
        let no_fat_binary = [null_mut(), handle(b"\x7fELF"), handle(&to_a_reference)];
        for to in no_fat_binary {
            let reference = reference(1, to.cast());
            assert_eq!((kind_at(&reference), content(handle(&reference))), (0, None));
        }
    }

    #[test]
    fn a_fat_binary_is_given_as_a_whole_compressed_or_not_and_for_its_reference() {
        let with_more = |binary: &[u8]| [binary, b"behind it"].concat();
        for flags in [0x11, 0x2011, 0x8011] {
            let binary = fat(2, flags, 300);
            assert_eq!(content(handle(&with_more(&binary))), Some(binary.clone()), "{flags:x}");
            assert_eq!(content(handle(&reference(1, binary.as_ptr()))), Some(binary.clone()), "{flags:x}");
            for version in [0, 2, 3] {
                let other = reference(version, binary.as_ptr());
                assert_eq!(content(handle(&other)), None, "of version {version}, which is not complete");
            }
        }
        assert_eq!(content(null_mut()), None);
        assert_eq!(content(handle(b".version 8.0\0more")).as_deref(), Some(&b".version 8.0"[..]));
    }

    #[test]
    fn a_call_that_takes_fat_binaries_alone_is_given_one_by_itself() {
        let binary = fat(2, 0x11, 300);
        let given = |code| given_as_fat_binary(code).map(|(content, _)| content.into_owned());
        assert_eq!(given(handle(&binary)), Some(binary.clone()));
        for other in [&reference(1, binary.as_ptr())[..], b".version 8.0\0", b"\x7fELF", b"\0"] {
            assert_eq!(given(handle(other)), None);
        }
        assert_eq!(given(null_mut()), None);
    }

    #[test]
    fn an_image_without_a_length_or_with_one_that_is_too_large_is_the_drivers() {
        let mut binary = fat(2, 0x11, 300);
        for (length, what) in
            [(0, "nothing behind its header"), (MOST_IMAGE_BYTES - 15, "too large"), (u64::MAX, "none")]
        {
            binary[8..16].copy_from_slice(&length.to_le_bytes());
            assert_eq!(content(handle(&binary)), None, "{what}");
            assert_eq!(content(handle(&reference(1, binary.as_ptr()))), None, "{what}");
        }
        binary[8..16].copy_from_slice(&(u64::MAX - 100).to_le_bytes());
        binary[16..24].copy_from_slice(&[2, 0, 0, 0, 64, 0, 0, 0]);
        assert_eq!(kind_at(&binary), image::FAT_BINARY_OF_PTX, "of no such length");
    }

    #[test]
    fn nothing_behind_an_image_is_read() {
        for image in [&fat(2, 0x11, 17)[..], &fat(2, 0x11, 80), &fat(1, 0x8011, 81)] {
            let there = AtTheEnd::of(image);
            assert_eq!(content(there.at()).as_deref(), Some(image));
            let reference = AtTheEnd::of(&reference(1, there.at().cast_const().cast()));
            assert_eq!(content(reference.at()).as_deref(), Some(image));
            assert_ne!((kind(there.at()), kind(reference.at())), (0, 0));
        }
        for nothing in [&b"\0"[..], b"\x50\xec", b"\xb1\x43\x62\x47", b"\x7fEL\0"] {
            let there = AtTheEnd::of(nothing);
            assert_eq!((content(there.at()), kind(there.at())), (None, 0), "{nothing:?}");
            assert!(!is_a_runtimes(there.at(), NONE));
        }
        let text = AtTheEnd::of(b".\0");
        assert_eq!((content(text.at()).as_deref(), kind(text.at())), (Some(&b"."[..]), image::PTX));
    }

    #[test]
    fn options_are_given_with_the_image_and_those_that_the_driver_writes_to_are_not() {
        let binary = fat(2, 0x11, 100);
        let with = |options: &[i32], values: &[u64]| given(handle(&binary), these(options, values));
        let (_, options) = with(&[9, 0], &[90, 32]).expect("plain options");
        assert_eq!(options.all(), [(0, 32), (9, 90)]);
        assert!(with(&[3, 4], &[0, 0]).is_none(), "a log");
        assert!(with(&[9, 0], &[90, 32 | 1 << 32]).is_none(), "what is no number of 32 bits");
        assert!(given(handle(&binary), Options { count: 1, ..NONE }).is_none());
    }

    #[test]
    fn a_file_holds_what_the_memory_holds_but_no_reference() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = std::env::temp_dir().join(format!("lazyguard-image-{}", std::process::id()));
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let read = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            in_file(name.as_ptr().cast_mut().cast()).map(|(content, _)| content.into_owned())
        };
        let binary = fat(2, 0x8011, 300);
        assert_eq!(read(&binary).as_ref(), Some(&binary));
        assert_eq!(read(&[&binary[..], b"behind it"].concat()), Some(binary.clone()));
        assert_eq!(read(&binary[..299]), None, "cut off");
        assert_eq!(read(&fat(2, 0x11, 17)), Some(fat(2, 0x11, 17)));
        assert_eq!(read(&reference(1, binary.as_ptr())), None);
        assert_eq!(read(b".version 8.0\0more").as_deref(), Some(&b".version 8.0"[..]));
        assert_eq!((read(b""), read(b"\x7fELF\x02")), (None, None));
        std::fs::remove_file(&path).unwrap();
        assert!(in_file(name.as_ptr().cast_mut().cast()).is_none() && in_file(null_mut()).is_none());
    }

    #[test]
    fn samples_identify_an_image_of_any_kind_as_far_as_it_says_that_it_goes() {
        let mut binary = fat(2, 0x11, 100_000);
        let id = ImageId::of_samples(&binary);
        assert_eq!(samples(handle(&binary)), Some(id));
        for version in [1, 2] {
            assert_eq!(samples(handle(&reference(version, binary.as_ptr()))), Some(id), "version {version}");
        }
        assert_eq!(samples(handle(b".version 8.0\0more")), Some(ImageId::of(b".version 8.0")));
        assert_eq!((samples(null_mut()), samples(handle(b"\0"))), (None, None));
        binary[8..16].copy_from_slice(&(MOST_IMAGE_BYTES - 15).to_le_bytes());
        assert_eq!(samples(handle(&binary)), None, "too large");
    }

    #[test]
    fn a_program_loads_a_library_of_any_image_with_no_option_but_one() {
        let binary = fat(2, 0x11, 100);
        let of = |jit, library| given_for_library(handle(&binary), jit, library);
        let preserved = [driver::BINARY_IS_PRESERVED, 0];
        for library in [NONE, these(&preserved[..1], &[1])] {
            let (content, options) = of(these(&[0], &[32]), library).expect("plain options");
            assert_eq!((&*content, options), (&binary[..], LoadOptions::new([(0, 32)]).unwrap().of_library()));
        }
        assert!(of(NONE, these(&preserved, &[1, 1])).is_none() && of(NONE, these(&preserved[1..], &[1])).is_none());
        assert!(of(these(&[3, 4], &[0, 0]), NONE).is_none(), "a log");
        assert!(of(NONE, Options { count: 1, ..NONE }).is_none());
    }

    #[test]
    fn a_runtime_gives_a_reference_and_no_option_but_one() {
        let runtimes = |image: &[u8], options| is_a_runtimes(handle(image), options);
        let reference = REFERENCE.to_le_bytes();
        let counts = [0, 1, 2].map(|count| runtimes(&reference, Options { count, ..NONE }));
        assert_eq!(counts, [true, false, false]);
        assert!(!runtimes(&FAT_BINARY.to_le_bytes(), NONE) && !runtimes(b"//", NONE));
        let preserved = driver::BINARY_IS_PRESERVED;
        assert!(runtimes(&reference, these(&[preserved], &[1])));
        assert!(!runtimes(&reference, these(&[preserved + 1], &[1])));
    }
}
