//! The note of a built library: its version, the format of its recordings, the CUDA headers and the commit, a line each.
//!
//! It is an ELF note (section `.note.lazyguard`), which `lazyguard --version` reads, and which survives `strip`. The commit is empty at
//! compilation: `scripts/lib/build_note.py` writes it into the file that ships, so that a commit alone compiles nothing again.

pub const SECTION: &str = ".note.lazyguard";

/// The owner's name with its final zero, filled up to four bytes.
pub const OWNER: [u8; 12] = *b"LazyGuard\0\0\0";

/// The version of the headers by which the arguments of the driver's functions were checked.
pub const CUDA_HEADERS: &str = "13.0";

/// Bytes for the text; the rest is zeros.
const ROOM: usize = 128;

const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\n1\n13.0\n");

/// `Elf64_Nhdr`, owner, text.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BuildNote {
    owner_size: u32,
    text_size: u32,
    kind: u32,
    owner: [u8; 12],
    text: [u8; ROOM],
}

pub const NOTE: BuildNote = {
    let mut text = [0; ROOM];
    text.split_at_mut(TEXT.len()).0.copy_from_slice(TEXT.as_bytes());
    // "LazyGuard" and its zero; the fill is not counted.
    BuildNote { owner_size: 10, text_size: ROOM as u32, kind: 1, owner: OWNER, text }
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub version: String,
    pub format: u32,
    pub cuda_headers: String,
    /// The commit, with a plus where the files differed from it; `None` of a build that does not ship.
    pub commit: Option<String>,
}

impl Build {
    pub fn read(section: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(section.get(12..)?.strip_prefix(&OWNER)?.get(..ROOM)?).ok()?;
        let mut lines = text.trim_end_matches('\0').lines().map(str::to_owned);
        let (version, format, cuda_headers) = (lines.next()?, lines.next()?.parse().ok()?, lines.next()?);
        Some(Self { version, format, cuda_headers, commit: lines.next().filter(|commit| !commit.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::layout;

    fn bytes(note: &BuildNote, commit: &str) -> Vec<u8> {
        let head = [note.owner_size, note.text_size, note.kind].map(u32::to_le_bytes).concat();
        let mut bytes = [&head[..], &note.owner, &note.text].concat();
        let end = bytes.iter().rposition(|&b| b != 0).unwrap() + 1;
        bytes[end..end + commit.len()].copy_from_slice(commit.as_bytes());
        bytes
    }

    #[test]
    fn what_is_compiled_in_is_read_with_and_without_a_commit() {
        let mut expect = Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format: layout::VERSION,
            cuda_headers: CUDA_HEADERS.to_owned(),
            commit: None,
        };
        assert_eq!(Build::read(&bytes(&NOTE, "")), Some(expect.clone()));
        expect.commit = Some("0123456789ab+".to_owned());
        assert_eq!(Build::read(&bytes(&NOTE, "0123456789ab+")), Some(expect));
    }

    #[test]
    fn what_is_no_note_of_ours_is_nothing() {
        let whole = bytes(&NOTE, "");
        assert_eq!(Build::read(&[]), None);
        assert_eq!(Build::read(&whole[..whole.len() - 1]), None);
        let foreign = [&whole[..12], b"GNU\0", &whole[16..]].concat();
        assert_eq!(Build::read(&foreign), None);
    }
}
