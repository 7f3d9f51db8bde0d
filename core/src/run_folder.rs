//! Chooses where the run folder goes, and where a recording may be mapped: which file systems serve, and how much of their capacity it may take.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub const MEMORY: &str = "/dev/shm";

/// The parents of private folders, tried in this order: the user's `TMPDIR`, memory, disk. A command looks in all: its environment may differ.
pub fn private_bases(named: Option<OsString>) -> Vec<PathBuf> {
    let mut bases: Vec<_> = named.into_iter().filter(|folder| !folder.is_empty()).map(PathBuf::from).collect();
    for base in [MEMORY, "/tmp"] {
        if !bases.iter().any(|known| known == Path::new(base)) {
            bases.push(PathBuf::from(base));
        }
    }
    bases
}

/// A folder for its owner only. Fails if the name exists.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    open_to_owner(folder)
}

/// A umask such as 0177 has taken the owner's rights to a new folder.
pub fn open_to_owner(folder: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(folder)?.permissions();
    let mode = permissions.mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    permissions.set_mode(mode | 0o700);
    fs::set_permissions(folder, permissions)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Private {
    /// Whether it holds the folders of a run's processes.
    pub is_run: bool,
    /// Its maker, if the name is right.
    pub user: u32,
    pub process: u32,
    /// 0 where unknown.
    pub namespace: u16,
}

impl Private {
    /// `lazyguard-USER-PROCESS-SUFFIX` or `lazyguard-run-USER-PROCESS-SUFFIX`: the suffix is the namespace, and something random.
    pub fn name(&self, random: u16) -> String {
        let Self { is_run, user, process, namespace } = self;
        format!("lazyguard-{}{user}-{process}-{namespace:04x}{random:04x}", if *is_run { "run-" } else { "" })
    }

    pub fn by_name(name: &OsStr) -> Option<Self> {
        let rest = name.to_str()?.strip_prefix("lazyguard-")?;
        let (is_run, rest) = rest.strip_prefix("run-").map_or((false, rest), |rest| (true, rest));
        let mut parts = rest.split('-');
        let (user, process, suffix) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        let is_whole = parts.next().is_none() && suffix.len() == 8 && suffix.bytes().all(|b| b.is_ascii_hexdigit());
        let namespace = u16::from_str_radix(suffix.get(..4).filter(|_| is_whole)?, 16).ok()?;
        Some(Self { is_run, user, process, namespace })
    }
}

/// Files that LazyGuard writes into a process's folder; each first under another name, with a dot before and `.new` behind.
pub mod file {
    pub const LOG: &str = "log.jsonl";
    /// The log's lines before those, once it was full.
    pub const OLDER_LOG: &str = "log.1.jsonl";
    pub const RUN: &str = "run.json";
    pub const HANG: &str = "hang.json";
    pub const HAZARDS: &str = "hazards.json";
    pub const TRACE: &str = "trace.lgt";
    /// The answer to a request for a report: for programs, and for people.
    pub const DUMP: &str = "dump.json";
    pub const DUMP_TEXT: &str = "dump.txt";
    /// The request, where the recording is no file.
    pub const REQUEST: &str = "dump.request";
    pub const PYTHON: &str = "python.txt";
    /// The main thread's stack, read by `lazyguard run`.
    pub const MAIN_STACK: &str = "main-stack.json";
    /// The process's activity on the host, read by `lazyguard run` at a hang and before it ends the process.
    pub const EVIDENCE: &str = "evidence.json";
    pub const TIMELINE: &str = "trace.perfetto-trace";
    /// The program that hangs as the run did.
    pub const REPRODUCER: &str = "reproducer.cu";
    /// The calls that a schedule may hold a thread before, a line each.
    pub const POINTS: &str = "points";
    /// Marks and identifies a run's folder; locked while the run lasts.
    pub const MARK: &str = "supervised.json";
    /// Marks a private run's folder whose path was printed.
    pub const KEPT: &str = "kept";
    /// The file beside the folders of a job's processes, by which they report hangs to each other.
    pub const OF_A_JOB: &str = ".lazyguard-hang";
    /// The file of a process of a job, while a rank waits, with what that process does.
    pub const LATE: &str = ".lazyguard-late";
    /// The same for a reported cause.
    pub const REPORTED: &str = ".lazyguard-reported";
    pub const GPU_CORE: &str = "gpu.core";
    pub const GPU_PIPE: &str = "gpu.pipe";
    pub const OF_A_PROCESS: [&str; 18] = [
        LOG,
        OLDER_LOG,
        RUN,
        HANG,
        HAZARDS,
        TRACE,
        POINTS,
        DUMP,
        DUMP_TEXT,
        REQUEST,
        PYTHON,
        MAIN_STACK,
        EVIDENCE,
        TIMELINE,
        REPRODUCER,
        GPU_CORE,
        GPU_PIPE,
        crate::stack::STACKS,
    ];
}

/// The numbers of tmpfs and ramfs in statfs(2).
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

/// The most that a recording takes of a file system's free space, as one part in so many: asked for, and not.
const SHARE_OF_ROOM: u64 = 4;
const SHARE_OF_ROOM_UNASKED: u64 = 16;

/// The file system of a run folder.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    /// `f_type` of statfs(2), of which 32 bits count.
    pub kind: u64,
    /// Bytes that this user may still take.
    pub room: u64,
    /// All of its bytes.
    pub capacity: u64,
}

impl FileSystem {
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind())
    }

    /// Whether a recording may be mapped there; the error says why not. A store into a disk's file may have to wait, so only memory serves where
    /// the user has named no folder.
    pub fn suits(&self, asked_for: bool, bytes: u64) -> Result<(), String> {
        if let Some((_, name)) = UNSUITABLE.iter().find(|(magic, _)| *magic == self.kind()) {
            return Err(format!("the folder lies on {name}"));
        }
        if !asked_for && !self.is_in_memory() {
            return Err("the private folder does not lie in memory".to_owned());
        }
        // The program loses the space that the recording takes.
        let share = if asked_for { SHARE_OF_ROOM } else { SHARE_OF_ROOM_UNASKED };
        if bytes.saturating_mul(share) > self.room {
            return Err(format!("the folder's file system has only {} MiB left", self.room >> 20));
        }
        Ok(())
    }

    /// Whether what can be done without is not written there: less than an eighth is free (of a large one a gibibyte), or less than the guard `has` there.
    pub fn is_short(&self, has: u64) -> bool {
        const AMPLE: u64 = 1 << 30;
        self.room < (self.capacity / 8).min(AMPLE).max(has)
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
        let name = Private { is_run: false, user: 1000, process: 4242, namespace: 0x0bad }.name(0xcafe);
        assert_eq!(name, "lazyguard-1000-4242-0badcafe");
        let private = Private { is_run: false, user: 1000, process: 4242, namespace: 0x0bad };
        assert_eq!(Private::by_name(OsStr::new(&name)), Some(private));
        let of_a_run = Private::by_name(OsStr::new("lazyguard-run-1000-4242-0badcafe"));
        assert_eq!(of_a_run, Some(Private { is_run: true, ..private }));
        for other in [
            "lazyguard-1000-4242-",
            "lazyguard-1000-4242-0badcaf",
            "lazyguard-1000-4242-0badcafg",
            "lazyguard-run-run-1000-4242-0badcafe",
            "lazyguard-x-4242-0badcafe",
            "lazyguard-1000-4242-0badcafe-2",
            "my-lazyguard-1000-4242-0badcafe",
        ] {
            assert_eq!(Private::by_name(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn private_folders_go_where_the_user_says_else_to_memory() {
        assert_eq!(private_bases(None), [Path::new(MEMORY), Path::new("/tmp")]);
        assert_eq!(private_bases(Some("/scratch".into()))[0], Path::new("/scratch"));
        assert_eq!(private_bases(Some("/tmp".into())), [Path::new("/tmp"), Path::new(MEMORY)]);
    }

    #[test]
    fn a_file_system_is_short_before_it_is_full() {
        let is_short = |room, capacity, has| FileSystem { kind: TMPFS, room, capacity }.is_short(has);
        assert!(is_short(7 << 20, 64 << 20, 0) && !is_short(8 << 20, 64 << 20, 0));
        assert!(is_short(16 << 20, 64 << 20, 17 << 20) && !is_short(17 << 20, 64 << 20, 17 << 20));
        assert!(!is_short(1 << 30, 1 << 42, 17 << 20), "of a large one a gibibyte is ample");
    }

    #[test]
    fn a_recording_goes_where_no_store_has_to_wait_unasked() {
        let suits =
            |kind, room, asked_for| FileSystem { kind, room, capacity: room }.suits(asked_for, 16 << 20).is_ok();
        assert!(suits(TMPFS, 1 << 30, false) && suits(TMPFS, 1 << 30, true));
        assert!(!suits(EXT4, 1 << 30, false) && suits(EXT4, 1 << 30, true));
        // Sign-extended, as a field of 64 bits has it.
        assert!(!suits(0xffff_ffff_9123_683e, 1 << 40, true) && !suits(0x6969, 1 << 40, true));
        assert!(!suits(EXT4, 63 << 20, true) && suits(EXT4, 64 << 20, true));
        assert!(!suits(TMPFS, 255 << 20, false) && suits(TMPFS, 256 << 20, false));
    }
}
