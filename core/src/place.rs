//! Where the run folder goes, and where a recording may be mapped: which file systems will do, and how much of their room it may
//! take. The shim asks when it makes one, `lazyguard doctor` before, `lazyguard report` of a process that is gone afterwards.
//!
//! Must not: ask the environment or a file system anything; what is known of them is an argument.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where folders lie in memory, on systems that have it.
pub const MEMORY: &str = "/dev/shm";

/// The name of a private folder begins with this, of a user's; with the process it is that process's.
pub fn private_prefix(user: u32, process: Option<u32>) -> String {
    match process {
        Some(process) => format!("lazyguard-{user}-{process}-"),
        None => format!("lazyguard-{user}-"),
    }
}

/// The end of such a name: in which namespace the process has its number, as far as four digits tell, and something random.
pub fn private_suffix(namespace: u16, random: u16) -> String {
    format!("{namespace:04x}{random:04x}")
}

/// The namespace that the name of a private folder tells.
pub fn private_namespace(name: &str) -> Option<u16> {
    u16::from_str_radix(name.rsplit('-').next()?.get(..4)?, 16).ok()
}

/// The user that the name of a private folder tells.
pub fn private_user(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("lazyguard-")?.split('-').next()?.parse().ok()
}

/// Whether a folder of this name is a private one of this process, whoever ran it.
pub fn is_private_of(name: &OsStr, process: u32) -> bool {
    let mut parts = name.to_str().unwrap_or_default().split('-');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    parts.next() == Some("lazyguard")
        && is_number(parts.next())
        && parts.next() == Some(process.to_string().as_str())
        && parts.next().is_some_and(|random| random.len() == 8 && random.bytes().all(|b| b.is_ascii_hexdigit()))
        && parts.next().is_none()
}

/// Where private folders go, to the first that will do: to the folder for temporary files that the user has named (`TMPDIR`), to
/// the one that lies in memory, to the one on a disk. Whoever looks for one looks in all: his environment may not be the process's.
pub fn private_bases(named: Option<OsString>) -> Vec<PathBuf> {
    let mut bases: Vec<_> = named.into_iter().filter(|folder| !folder.is_empty()).map(PathBuf::from).collect();
    for base in [MEMORY, "/tmp"] {
        if !bases.iter().any(|known| known == Path::new(base)) {
            bases.push(PathBuf::from(base));
        }
    }
    bases
}

/// Magic numbers as statfs(2) and the file systems' own headers have them.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
const UNSUITABLE: [(u64, &str); 20] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x517b, "SMB"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x2003_0528, "OrangeFS"),
    (0x6573_5546, "FUSE"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xca45_1a4e, "bcachefs"),
    (0x3434, "NILFS2"),
    (0x2405_1905, "UBIFS"),
    (0xabba_1974, "xenfs"),
];

/// Of the room that is left on a file system, a recording takes at most one part in this many: where it was asked for, and
/// where it was not.
const SHARE_OF_ROOM: u64 = 4;
const SHARE_OF_ROOM_UNASKED: u64 = 16;

/// What is known of the file system that a run folder lies on.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    /// `f_type` of statfs(2); of a wider field, what is beyond 32 bits does not count.
    pub kind: u64,
    /// What is left to this user, in bytes.
    pub room: u64,
}

impl FileSystem {
    /// Whether it lies in memory.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind())
    }

    /// Whether a recording of this size may be mapped there. Where nobody has asked for a folder, only a file system in memory
    /// will do: a store into a page of a disk's file may have to wait for the disk. Who names a folder on a local disk has
    /// chosen.
    ///
    /// # Errors
    ///
    /// Why not, in words.
    pub fn suits(&self, asked_for: bool, bytes: u64) -> Result<(), String> {
        if let Some((_, name)) = UNSUITABLE.iter().find(|(magic, _)| *magic == self.kind()) {
            return Err(format!("the folder lies on {name}"));
        }
        if !asked_for && !self.is_in_memory() {
            return Err("the private folder does not lie in memory".to_owned());
        }
        // What is taken here is missing to the program.
        let share = if asked_for { SHARE_OF_ROOM } else { SHARE_OF_ROOM_UNASKED };
        if bytes.saturating_mul(share) > self.room {
            return Err(format!("the folder's file system has only {} MiB left", self.room >> 20));
        }
        Ok(())
    }

    fn kind(&self) -> u64 {
        // Some numbers have their highest bit set, and the field's width depends on the architecture.
        self.kind & 0xffff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: u64 = 0xef53;
    const TMPFS: u64 = 0x0102_1994;

    #[test]
    fn the_private_folder_of_a_process_is_known_by_its_name() {
        let name = private_prefix(1000, Some(4242)) + &private_suffix(0x0bad, 0xcafe);
        assert_eq!((name.as_str(), private_namespace(&name)), ("lazyguard-1000-4242-0badcafe", Some(0x0bad)));
        assert!(name.starts_with(&private_prefix(1000, None)));
        assert!(is_private_of(OsStr::new(&name), 4242));
        assert_eq!(private_user(OsStr::new(&name)), Some(1000));
        for other in [
            "lazyguard-1000-424-0badcafe",
            "lazyguard-1000-4242-",
            "lazyguard-x-4242-0badcafe",
            "lazyguard-1000-4242-0badcafe-2",
            "my-lazyguard-1000-4242-0badcafe",
        ] {
            assert!(!is_private_of(OsStr::new(other), 4242), "{other}");
        }
    }

    #[test]
    fn private_folders_go_where_the_user_says_else_to_memory() {
        assert_eq!(private_bases(None), [Path::new(MEMORY), Path::new("/tmp")]);
        assert_eq!(private_bases(Some("/scratch".into()))[0], Path::new("/scratch"));
        assert_eq!(private_bases(Some("/tmp".into())), [Path::new("/tmp"), Path::new(MEMORY)]);
    }

    #[test]
    fn a_recording_goes_where_no_store_has_to_wait_unasked() {
        let suits = |kind, room, asked_for| FileSystem { kind, room }.suits(asked_for, 16 << 20).is_ok();
        assert!(suits(TMPFS, 1 << 30, false) && suits(TMPFS, 1 << 30, true));
        assert!(!suits(EXT4, 1 << 30, false) && suits(EXT4, 1 << 30, true));
        // Sign-extended, as a field of 64 bits has it.
        assert!(!suits(0xffff_ffff_9123_683e, 1 << 40, true) && !suits(0x6969, 1 << 40, true));
        assert!(!suits(EXT4, 63 << 20, true) && suits(EXT4, 64 << 20, true));
        assert!(!suits(TMPFS, 255 << 20, false) && suits(TMPFS, 256 << 20, false));
    }
}
