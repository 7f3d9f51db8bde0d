//! The one reader of `/proc/PID/maps`, in processes that hang. `procfs` would refuse the whole text for one unknown line, and allocate for
//! every line.
//!
//! Must not: fail.

use crate::api::{identity_of, SharedMemory};
use std::borrow::Cow;
use std::io::Read as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    pub begin: u64,
    pub end: u64,
    pub readable: bool,
    pub executable: bool,
    pub shared: bool,
    pub offset: u64,
    /// The device and the number of its file there, as the kernel writes them.
    pub file_number: (&'a str, &'a str),
    /// As the kernel names it, also with ` (deleted)`; or a name in brackets, or nothing.
    pub path: Cow<'a, str>,
}

impl Mapping<'_> {
    /// Whether no other process can have the memory. The driver's own is a device's, or shared without a name: only a fork passes that on.
    pub fn is_own(&self, forked: bool) -> bool {
        let is_unnamed = self.path == "/dev/zero (deleted)" || self.path.starts_with("/dev/nvidia");
        !self.shared || is_unnamed && !forked
    }

    /// As other processes of the machine can map it too: by its file's device and number, which shared memory without a name also has. A driver's
    /// device is one file for all that it maps.
    pub fn shared(&self) -> Option<SharedMemory> {
        let (device, inode) = self.file_number;
        let is_shared = self.shared && !matches!(inode, "" | "0") && !self.path.starts_with("/dev/nvidia");
        let identity = || identity_of(device.bytes().chain([b' ']).chain(inode.bytes()));
        let (address, offset) = (self.begin, self.offset);
        is_shared.then(|| SharedMemory { address, bytes: self.end - address, identity: identity(), offset })
    }

    pub fn file(&self) -> Option<&str> {
        self.path.starts_with('/').then(|| undeleted(&self.path))
    }
}

/// Without the kernel's mark of a deleted file.
pub fn undeleted(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

/// Empty where it cannot be read.
pub fn own_maps() -> String {
    // The process's own file is empty once its main thread has left.
    let files = ["/proc/self/maps", "/proc/thread-self/maps"].into_iter();
    let text = files.filter_map(|path| std::fs::read(path).ok()).find(|text| !text.is_empty()).unwrap_or_default();
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The beginning of the process's maps, as the kernel gives it at once. A program lies below its libraries, unless a loader was started to load it.
pub fn first_of_own_maps() -> String {
    let mut text = vec![0; 4096];
    let read = std::fs::File::open("/proc/self/maps").and_then(|mut maps| maps.read(&mut text)).unwrap_or(0);
    let whole_lines = text[..read].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    String::from_utf8_lossy(&text[..whole_lines]).into_owned()
}

pub fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    // A path may end in what else ends a line.
    text.split('\n').filter_map(|line| {
        // address-address permissions offset device inode path; the path may have blanks in it.
        let mut fields = line.splitn(6, ' ');
        let (begin, end) = fields.next()?.split_once('-')?;
        let (permissions, offset) = (fields.next()?.as_bytes(), fields.next()?);
        let file_number = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mapping = Mapping {
            begin: number(begin)?,
            end: number(end)?,
            readable: permissions.first() == Some(&b'r'),
            executable: permissions.get(2) == Some(&b'x'),
            shared: permissions.get(3) == Some(&b's'),
            offset: number(offset)?,
            file_number,
            path: unescaped(fields.next().unwrap_or_default().trim_start_matches(' ')),
        };
        (mapping.begin < mapping.end).then_some(mapping)
    })
}

/// The kernel escapes the end of a line in a path, and nothing else.
fn unescaped(path: &str) -> Cow<'_, str> {
    const NEW_LINE: &str = "\\012";
    match path.contains(NEW_LINE) {
        true => path.replace(NEW_LINE, "\n").into(),
        false => path.into(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub base: u64,
    pub end: u64,
    pub path: String,
    pub code: Vec<(u64, u64)>,
}

impl Module {
    pub fn name(&self) -> &str {
        let path = undeleted(&self.path);
        path.rsplit('/').next().unwrap_or(path)
    }

    pub fn has_code_at(&self, address: u64) -> bool {
        self.code.iter().any(|(begin, end)| (*begin..*end).contains(&address))
    }
}

pub fn modules(text: &str) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    for mapping in mappings(text).filter(|mapping| mapping.file().is_some()) {
        let newest = found.last_mut().filter(|module| module.path == mapping.path);
        let (end, code) = (mapping.end, mapping.executable.then_some((mapping.begin, mapping.end)));
        let module = match newest {
            // A file's first byte, at a distance from what came before: it is there a second time.
            Some(module) if mapping.offset != 0 || module.end == mapping.begin => module,
            _ => {
                let base = mapping.begin.saturating_sub(mapping.offset);
                found.push(Module { base, end: mapping.end, path: mapping.path.into_owned(), code: Vec::new() });
                let newest = found.len() - 1;
                &mut found[newest]
            }
        };
        module.end = end;
        module.code.extend(code);
    }
    found.retain(|module| !module.code.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00401000 r--p 00000000 fe:00 11 /opt/my programs/app
00401000-00403000 r-xp 00001000 fe:00 11 /opt/my programs/app
00603000-00604000 rw-p 00003000 fe:00 11 /opt/my programs/app
7f00a000-7f00c000 rw-p 00000000 00:00 0 
7f00c000-7f00d000 r-xp 00000000 fe:00 12 /lib/libone.so
7f00d000-7f00e000 rw-p 00000000 fe:00 12 /lib/libone.so
7f00e000-7f00f000 r--p 00000000 fe:00 13                     /data/weights
7f010000-7f011000 r-xp 00000000 fe:00 12 /lib/libone.so (deleted)
7f020000-7f021000 r-xp 00000000 fe:00 12 /lib/libone.so (deleted)
7f030000-7f031000 r--p 00002000 fe:00 14 /tmp/new\\012line/c.so
7f031000-7f032000 r-xp 00003000 fe:00 14 /tmp/new\\012line/c.so
7ffc0000-7ffe0000 rw-p 00000000 00:00 0 [stack]
7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]
nonsense
";

    #[test]
    fn shared_memory_is_a_process_own_where_nothing_names_it_and_no_fork_passed_it_on() {
        let line = |rest: &str| format!("1000-2000 {rest}");
        let own = |rest: &str, forked: bool| mappings(&line(rest)).next().unwrap().is_own(forked);
        for forked in [false, true] {
            assert!(own("rw-p 00000000 00:00 0", forked) && own("rw-p 00000000 fe:00 14 /data/weights", forked));
            for named in ["/dev/shm/ring", "/memfd:ring (deleted)", "/SYSV00000000 (deleted)", "/data/ring"] {
                assert!(!own(&format!("rw-s 00000000 00:01 7 {named}"), forked), "{named}");
            }
            for unnamed in ["/dev/zero (deleted)", "/dev/nvidiactl"] {
                assert_eq!(own(&format!("rw-s 00000000 00:05 7 {unnamed}"), forked), !forked, "{unnamed}");
            }
        }
    }

    #[test]
    fn shared_memory_is_the_same_by_its_files_device_and_number() {
        let shared = |line: &str| mappings(line).next().unwrap().shared();
        let ring = shared("1000-3000 rw-s 00002000 00:1a 7 /dev/shm/ring").unwrap();
        assert_eq!((ring.address, ring.bytes, ring.offset), (0x1000, 0x2000, 0x2000));
        let moved = shared("8000-9000 rw-s 00003000 00:1a 7 /dev/shm/renamed (deleted)").unwrap();
        assert_eq!(ring.place_of(0x2008), moved.place_of(0x8008));
        let others = ["00:1b 7 /dev/shm/ring", "00:1a 8 /dev/shm/ring", "00:1 a7 /dev/shm/ring"];
        assert!(others
            .iter()
            .all(|other| shared(&format!("1000-2000 rw-s 00000000 {other}")).unwrap().identity != ring.identity));
        for own in ["rw-p 0 00:1a 7 /dev/shm/ring", "rw-s 0 00:06 900 /dev/nvidia0", "rw-s 0 00:00 0", "rw-s 0"] {
            assert_eq!(shared(&format!("1000-2000 {own}")), None, "{own}");
        }
    }

    #[test]
    fn files_with_code_are_found_with_all_their_parts() {
        let found = modules(MAPS);
        let told: Vec<_> = found.iter().map(|m| (m.name(), m.base, m.end, m.code.as_slice())).collect();
        assert_eq!(
            told,
            [
                ("app", 0x40_0000, 0x60_4000, &[(0x40_1000, 0x40_3000)][..]),
                ("libone.so", 0x7f00_c000, 0x7f00_e000, &[(0x7f00_c000, 0x7f00_d000)][..]),
                ("libone.so", 0x7f01_0000, 0x7f01_1000, &[(0x7f01_0000, 0x7f01_1000)][..]),
                ("libone.so", 0x7f02_0000, 0x7f02_1000, &[(0x7f02_0000, 0x7f02_1000)][..]),
                // Without its first part it begins where that would lie.
                ("c.so", 0x7f02_e000, 0x7f03_2000, &[(0x7f03_1000, 0x7f03_2000)][..]),
            ]
        );
        assert!(found[0].has_code_at(0x40_1000) && !found[0].has_code_at(0x40_3000));
    }

    #[test]
    fn lines_are_read_with_what_they_allow() {
        let found: Vec<_> = mappings(MAPS).collect();
        assert_eq!(found.len(), 13);
        let files: Vec<_> = found.iter().filter_map(Mapping::file).collect();
        assert_eq!((files.len(), files[6], files[8]), (10, "/lib/libone.so", "/tmp/new\nline/c.so"));
        assert_eq!(found[7].path, "/lib/libone.so (deleted)");
        let stack = found.iter().find(|m| m.path == "[stack]").unwrap();
        assert_eq!((stack.readable, stack.executable, stack.end), (true, false, 0x7ffe_0000));
        assert!(modules(&own_maps()).len() > 1);
        let (first, all) = (first_of_own_maps(), own_maps());
        assert!(first.ends_with('\n') && modules(&first)[0].code == modules(&all)[0].code, "{first}\n{all}");
        let odd = mappings("1-2 r--p 0 0:0 5 /tmp/name\r\n2-1 r--p 0 0:0 5 /back\n3-4\n5-6 r\n-\n7-8 rwxp 0 0:0 0");
        assert_eq!(
            odd.map(|m| (m.begin, m.path.into_owned())).collect::<Vec<_>>(),
            [(1, "/tmp/name\r".to_owned()), (7, String::new())]
        );
    }
}
