//! The thing that a thread waits for, from the call that it is in: a file, a pipe, a socket, a child, a lock.
//!
//! Must not: open or examine a path that it names.

use super::call::{is_of_storage, InKernel, Kind};
use super::kernel::{mounts, Descriptor, Mount};
use super::source::{value, Source};
use super::Depth;
use crate::stack::Memory;

const MOST_POLLED: usize = 64;
const MOST_PATH: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// On a processor, or ready for one.
    Runs,
    Sleeps,
    /// For a connection, at this address where that is known.
    Listens(String),
    /// For standard input or a terminal.
    Input,
    Signal,
    File(File),
    /// At an end of a pipe or FIFO: its link, and whether it writes.
    Pipe {
        link: String,
        writes: bool,
    },
    Peer(Peer),
    /// At a socket within the machine.
    Socket,
    /// For this child to end, or for any.
    Child(Option<u32>),
    /// For another thread: the word's address, and its owner where the word names it.
    Futex {
        at: u64,
        owner: Option<u32>,
    },
    /// For a semaphore or queue that processes share.
    Shared,
    /// For another process's lock on a file, with that process where the kernel lists it.
    FileLock(File, Option<u32>),
    /// For one of several, with what is known of them.
    Any(Vec<Self>),
    /// For what another thread of the process gives, as an eventfd.
    Event,
    Device(String),
    #[default]
    Unknown,
}

/// A file, and the file system that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    pub verb: String,
    pub path: Option<String>,
    pub mount: Option<Mount>,
    pub position: Option<u64>,
    /// It opens a FIFO that no process has open at its other end.
    pub is_fifo: bool,
}

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    pub verb: &'static str,
    pub host: String,
    pub port: u16,
    /// The link of the socket that has it, where that is of this machine.
    pub link: Option<String>,
}

/// The place of a thread in the kernel.
pub(super) struct At<'a> {
    pub call: Option<&'a InKernel>,
    pub state: char,
    pub function: &'a str,
}

pub(super) struct Files<'a> {
    pub source: &'a Source,
    pub process: u32,
    pub descriptors: &'a [Descriptor],
    pub depth: Depth,
}

impl Files<'_> {
    pub fn wait(&self, thread: &At<'_>, kind: Option<Kind>) -> Wait {
        let arguments = match thread.call {
            Some(InKernel::Runs) => return Wait::Runs,
            Some(InKernel::Call { arguments, .. }) => Some(arguments),
            Some(InKernel::Outside) | None => None,
        };
        if arguments.is_none() && thread.state == 'R' {
            return Wait::Runs;
        }
        let argument = |at: usize| arguments.and_then(|all| all.get(at)).copied();
        let first = argument(0);
        match kind {
            Some(Kind::On(verb)) => self.on(verb, first, thread.function),
            Some(Kind::Path(verb, at)) => self.path(verb, argument(at), first.filter(|_| at == 1), thread.function),
            Some(Kind::Receives) => self.socket(first, "an answer"),
            Some(Kind::Sends) => self.socket(first, "room to send"),
            Some(Kind::Connects) => self.socket(first, "a connection"),
            Some(Kind::Accepts) => Wait::Listens(first.map(|fd| self.listens_at(fd)).unwrap_or_default()),
            Some(Kind::Poll | Kind::PollUntil) => self.polls(first, argument(1)),
            Some(Kind::Select) if first == Some(0) => Wait::Sleeps,
            Some(Kind::Select) => self.selects(first.unwrap_or(0), [argument(1), argument(2), argument(3)]),
            Some(Kind::Epoll) => self.epoll(first),
            Some(Kind::Futex) => self.futex(first.unwrap_or(0), argument(1), argument(2)),
            Some(Kind::Sleeps) => Wait::Sleeps,
            Some(Kind::WaitPid) => {
                Wait::Child(first.map(|id| id as u32 as i32).and_then(|id| u32::try_from(id).ok()).filter(|id| *id > 0))
            }
            // P_PID is 1.
            Some(Kind::WaitId) => Wait::Child(argument(1).filter(|_| first == Some(1)).map(|id| id as u32)),
            Some(Kind::FileLock) => self.file_lock(first),
            Some(Kind::Control) if matches!(argument(1), Some(7 | 38)) => self.file_lock(first),
            Some(Kind::Device) => self.device(first),
            Some(Kind::Signal) => Wait::Signal,
            Some(Kind::Shared) => Wait::Shared,
            Some(Kind::Control) => Wait::Unknown,
            Some(Kind::Map) | None if thread.state == 'D' || is_of_storage(thread.function) => self.fault(thread),
            Some(Kind::Map) | None => Wait::Unknown,
        }
    }

    fn link(&self, descriptor: u64) -> Option<&str> {
        self.descriptors.iter().find(|one| one.number == descriptor).map(|one| one.link.as_str())
    }

    fn on(&self, verb: &str, descriptor: Option<u64>, function: &str) -> Wait {
        let is_pipe = function.starts_with("pipe_") || function.starts_with("anon_pipe");
        let Some(descriptor) = descriptor else {
            return match is_pipe {
                true => Wait::Pipe { link: String::new(), writes: verb == "writes" },
                false => Wait::File(File { verb: verb.to_owned(), ..File::default() }),
            };
        };
        let link = self.link(descriptor).unwrap_or_default();
        let is_terminal = ["/dev/pts/", "/dev/tty", "/dev/console"].iter().any(|begin| link.starts_with(begin));
        let reads = verb == "reads";
        match () {
            () if reads && (is_terminal || descriptor == 0 && !link.starts_with("socket:") && is_pipe) => Wait::Input,
            () if is_pipe || link.starts_with("pipe:") => {
                Wait::Pipe { link: link.to_owned(), writes: verb == "writes" }
            }
            () if link.starts_with("socket:") => {
                self.socket(Some(descriptor), if reads { "an answer" } else { "room to send" })
            }
            () if link.starts_with("anon_inode:") => Wait::Event,
            () if link.starts_with("/dev/nvidia") => Wait::Device(link.to_owned()),
            () => Wait::File(self.file(verb, Some(descriptor))),
        }
    }

    fn file(&self, verb: &str, descriptor: Option<u64>) -> File {
        let mut file = File { verb: verb.to_owned(), ..File::default() };
        let Some(descriptor) = descriptor else { return file };
        file.path = self.link(descriptor).map(str::to_owned);
        let about = self.source.text(&format!("proc/{}/fdinfo/{descriptor}", self.process)).unwrap_or_default();
        let number = |name: &str| value(&about, name)?.parse().ok();
        file.position = number("pos");
        let mount = number("mnt_id");
        file.mount = mounts(self.source, self.process).into_iter().find(|one| Some(one.number) == mount);
        file
    }

    /// `folder`: the descriptor from which a relative path begins.
    fn path(&self, verb: &str, at: Option<u64>, folder: Option<u64>, function: &str) -> Wait {
        let is_fifo = function.starts_with("wait_for_partner") || function.starts_with("fifo_open");
        let mut path = at.and_then(|at| self.text(at));
        if let Some(relative) = path.as_mut().filter(|path| !path.starts_with('/')) {
            const HERE: u64 = 0xffff_ff9c;
            let begin = match folder.map(|folder| folder & 0xffff_ffff) {
                None | Some(HERE) => self.source.link(&format!("proc/{}/cwd", self.process)),
                Some(folder) => self.link(folder).map(str::to_owned),
            };
            if let Some(begin) = begin {
                *relative = format!("{}/{relative}", begin.trim_end_matches('/'));
            }
        }
        let mount = path.as_deref().and_then(|path| mount_of(mounts(self.source, self.process), path));
        Wait::File(File { verb: verb.to_owned(), path, mount, position: None, is_fifo })
    }

    fn text(&self, at: u64) -> Option<String> {
        let memory = self.memory()?;
        let bytes = memory.bytes(at, MOST_PATH);
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned()).filter(|text| !text.is_empty())
    }

    fn memory(&self) -> Option<super::source::Of> {
        self.source.memory(self.process).filter(|_| self.depth == Depth::Memory)
    }

    /// The kernel lists a lock, and below it with an arrow those that wait for it.
    fn file_lock(&self, descriptor: Option<u64>) -> Wait {
        let locks = self.source.text("proc/locks").unwrap_or_default();
        let mut holder = None;
        let mut found = None;
        for line in locks.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let waits = fields.get(1) == Some(&"->");
            let process = fields.get(if waits { 5 } else { 4 }).and_then(|process| process.parse::<u32>().ok());
            match waits {
                false => holder = process,
                true if process == Some(self.process) => found = holder,
                true => {}
            }
        }
        Wait::FileLock(self.file("locks", descriptor), found)
    }

    fn device(&self, descriptor: Option<u64>) -> Wait {
        let link = descriptor.and_then(|descriptor| self.link(descriptor));
        link.map_or(Wait::Unknown, |link| Wait::Device(link.to_owned()))
    }

    fn socket(&self, descriptor: Option<u64>, verb: &'static str) -> Wait {
        let link = descriptor.and_then(|descriptor| self.link(descriptor)).unwrap_or_default();
        match self.connection(link) {
            Some((_, _, true)) => Wait::Listens(self.listens_at(descriptor.unwrap_or(0))),
            // The process has accepted it: a client may ask at any time.
            Some(((_, own), _, false)) if verb == "an answer" && self.serves(own) => Wait::Listens(String::new()),
            Some((own, other, false)) => {
                let link = (self.depth == Depth::Memory).then(|| self.socket_between(&other, &own)).flatten();
                let (host, port) = other;
                Wait::Peer(Peer { verb, host, port, link })
            }
            None => Wait::Socket,
        }
    }

    fn listens_at(&self, descriptor: u64) -> String {
        let connection = self.link(descriptor).and_then(|link| self.connection(link));
        connection.map_or_else(String::new, |((host, port), ..)| at_port(&host, port))
    }

    /// Whether the process listens at a port.
    fn serves(&self, port: u16) -> bool {
        let own = self.descriptors.iter().filter(|one| one.link.starts_with("socket:"));
        own.filter_map(|one| self.connection(&one.link)).any(|((_, at), _, listens)| listens && at == port)
    }

    /// Both ends of a TCP connection, and whether it listens.
    fn connection(&self, link: &str) -> Option<(End, End, bool)> {
        let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
        self.find_socket(|fields| {
            (*fields.get(9)? == inode).then_some((end(fields.get(1)?)?, end(fields.get(2)?)?, *fields.get(3)? == "0A"))
        })
    }

    /// The link of the socket between these ends; none where no process has accepted the connection.
    fn socket_between(&self, own: &End, other: &End) -> Option<String> {
        let is_it = |fields: &[&str]| Some(end(fields.get(1)?)? == *own && end(fields.get(2)?)? == *other);
        let inode =
            self.find_socket(|fields| is_it(fields)?.then(|| fields.get(9).map(|inode| (*inode).to_owned())))??;
        (inode != "0").then(|| format!("socket:[{inode}]"))
    }

    fn find_socket<T>(&self, take: impl Fn(&[&str]) -> Option<T>) -> Option<T> {
        ["tcp", "tcp6"].iter().find_map(|table| {
            let text = self.source.text(&format!("proc/{}/net/{table}", self.process))?;
            text.lines().skip(1).find_map(|line| take(&line.split_ascii_whitespace().collect::<Vec<_>>()))
        })
    }

    fn polls(&self, at: Option<u64>, count: Option<u64>) -> Wait {
        let count = count.unwrap_or(0).min(1 << 20) as usize;
        if at.is_some() && count == 0 {
            return Wait::Sleeps;
        }
        let Some(memory) = at.and_then(|_| self.memory()) else { return Wait::Any(Vec::new()) };
        let bytes = memory.bytes(at.unwrap_or(0), count.min(MOST_POLLED) * 8);
        let one = |bytes: &[u8]| {
            let number = |at: usize, length| {
                bytes[at..at + length].iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
            };
            let descriptor = number(0, 4);
            (descriptor < 1 << 31).then(|| self.polled(descriptor, number(4, 2) & 1 != 0))
        };
        Wait::Any(bytes.chunks_exact(8).filter_map(one).collect())
    }

    /// Three sets of bits: to read, to write, and exceptions.
    fn selects(&self, count: u64, sets: [Option<u64>; 3]) -> Wait {
        let Some(memory) = self.memory() else { return Wait::Any(Vec::new()) };
        let count = (count & 0xffff_ffff).min(MOST_POLLED as u64 * 8);
        let mut waits = Vec::new();
        for (number, at) in sets.into_iter().enumerate() {
            let Some(at) = at.filter(|at| *at != 0) else { continue };
            let bits = memory.bytes(at, count.div_ceil(8) as usize);
            let is_set = |descriptor: &u64| {
                bits.get((descriptor / 8) as usize).is_some_and(|byte| byte >> (descriptor % 8) & 1 != 0)
            };
            waits.extend((0..count).filter(is_set).map(|descriptor| self.polled(descriptor, number == 0)));
        }
        Wait::Any(waits)
    }

    fn polled(&self, descriptor: u64, reads: bool) -> Wait {
        let link = self.link(descriptor).unwrap_or_default();
        match () {
            () if descriptor == 0 && !link.starts_with("socket:") => Wait::Input,
            () if link.starts_with("pipe:") => Wait::Pipe { link: link.to_owned(), writes: !reads },
            () if link.starts_with("socket:") => {
                self.socket(Some(descriptor), if reads { "an answer" } else { "room to send" })
            }
            () if link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") => Wait::Input,
            () if link.starts_with("/dev/") => Wait::Device(link.to_owned()),
            () if link.contains("timerfd") => Wait::Sleeps,
            () if link.starts_with('/') => Wait::Pipe { link: link.to_owned(), writes: !reads },
            () => Wait::Event,
        }
    }

    /// The kernel lists what an epoll waits for.
    fn epoll(&self, descriptor: Option<u64>) -> Wait {
        let Some(descriptor) = descriptor else { return Wait::Any(Vec::new()) };
        let about = self.source.text(&format!("proc/{}/fdinfo/{descriptor}", self.process)).unwrap_or_default();
        let targets = about.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_ascii_whitespace().next());
        let targets = targets.filter_map(|target| target.parse().ok()).take(MOST_POLLED);
        Wait::Any(targets.map(|target| self.polled(target, true)).collect())
    }

    fn futex(&self, at: u64, operation: Option<u64>, expected: Option<u64>) -> Wait {
        /// In the low bits of a lock's word: the thread that has it, of a priority-inheriting or robust one.
        const OWNER: u32 = 0x3fff_ffff;
        const COMMAND: u64 = 0x7f;
        const LOCK_PI: [u64; 2] = [6, 13];
        // A thread that joins another waits until that one's id is gone from this word, and the kernel wakes it as if it were another process.
        const JOINS: u64 = 0x109;
        if let Some(thread) = expected.filter(|thread| operation == Some(JOINS) && *thread != 0) {
            return Wait::Futex { at, owner: u32::try_from(thread).ok() };
        }
        let memory = self.memory();
        let word = |at: u64| memory.as_ref()?.array(at).map(u32::from_le_bytes);
        let is_pi = operation.is_some_and(|operation| LOCK_PI.contains(&(operation & COMMAND)));
        let owner = match word(at) {
            Some(word) if is_pi => Some(word & OWNER),
            // The GNU C library's mutex: the word is 2 while others wait, and its owner follows at 8 bytes.
            Some(2) => word(at.wrapping_add(8)),
            // A robust one has its owner in the word, with the bit of those that wait.
            Some(word) if word & 0x8000_0000 != 0 => Some(word & OWNER),
            _ => None,
        };
        Wait::Futex { at, owner: owner.filter(|owner| *owner != 0) }
    }

    /// A page that is read in: of one of the mapped files.
    fn fault(&self, thread: &At<'_>) -> Wait {
        if thread.state != 'D' && !is_of_storage(thread.function) {
            return Wait::Unknown;
        }
        let mut file = File { verb: "reads a page of".to_owned(), ..File::default() };
        if self.depth == Depth::Memory {
            let maps = self.source.text(&format!("proc/{}/maps", self.process)).unwrap_or_default();
            let mounts = mounts(self.source, self.process);
            let mut mapped: Vec<(String, Option<Mount>)> = Vec::new();
            for path in crate::stack::mappings(&maps).filter_map(|mapping| mapping.file().map(str::to_owned)) {
                if !mapped.iter().any(|(known, _)| *known == path) {
                    let mount = mount_of(mounts.clone(), &path);
                    mapped.push((path, mount));
                }
            }
            // A file system over a network is the likelier one to be waited for.
            let remote = mapped.iter().find(|(_, mount)| mount.as_ref().is_some_and(Mount::is_remote));
            (file.path, file.mount) = remote.cloned().map_or((None, None), |(path, mount)| (Some(path), mount));
        }
        Wait::File(file)
    }
}

/// Whether a thread that serves others is in this call: it has a limit, after which the thread looks round and waits again.
pub(super) fn looks_round(call: Option<&InKernel>, kind: Option<Kind>) -> bool {
    const MILLIS: u32 = 1000;
    let limit = match kind {
        Some(Kind::Poll) => 2,
        Some(Kind::Epoll) => 3,
        _ => return false,
    };
    let arguments = call.and_then(|call| match call {
        InKernel::Call { arguments, .. } => Some(arguments),
        _ => None,
    });
    arguments.is_some_and(|arguments| arguments[limit] as u32 <= MILLIS)
}

type End = (String, u16);

impl Mount {
    /// Whether a network or a program answers for it.
    pub fn is_remote(&self) -> bool {
        const KINDS: [&str; 15] = [
            "nfs",
            "cifs",
            "smb",
            "fuse",
            "ceph",
            "lustre",
            "gpfs",
            "beegfs",
            "9p",
            "afs",
            "ocfs2",
            "gfs2",
            "pvfs2",
            "virtiofs",
            "glusterfs",
        ];
        KINDS.iter().any(|kind| self.kind.starts_with(kind))
    }
}

fn mount_of(mounts: Vec<Mount>, path: &str) -> Option<Mount> {
    let holds = |mount: &Mount| {
        let rest = path.strip_prefix(mount.at.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // The later of two at one folder covers the first.
    mounts.into_iter().filter(holds).max_by_key(|mount| mount.at.len())
}

/// `0100007F:7405`, or 32 digits of an IPv6 address: words in the processor's order.
fn end(text: &str) -> Option<End> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_le_bytes).collect();
    let host = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => std::net::Ipv4Addr::from(four).to_string(),
        Err(_) => {
            let long = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?);
            long.to_ipv4_mapped().map_or_else(|| long.to_string(), |short| short.to_string())
        }
    };
    Some((host, u16::from_str_radix(port, 16).ok()?))
}

pub(super) fn at_port(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_connection_is_read() {
        assert_eq!(end("0100007F:7405"), Some(("127.0.0.1".to_owned(), 29701)));
        assert_eq!(end("0000000000000000FFFF00000100007F:7405"), Some(("127.0.0.1".to_owned(), 29701)));
        assert_eq!(end("00000000000000000000000001000000:0016"), Some(("::1".to_owned(), 22)));
        assert_eq!((end("0100007F"), end("no:0016")), (None, None));
        assert_eq!(at_port("::1", 22), "[::1]:22");
    }

    #[test]
    fn the_innermost_mount_has_a_path() {
        let mount = |at: &str| Mount { at: at.to_owned(), ..Mount::default() };
        let of = |path: &str| mount_of(vec![mount("/"), mount("/data"), mount("/data/x")], path).unwrap().at;
        assert_eq!(
            (of("/data/x/y").as_str(), of("/data/xy").as_str(), of("/database").as_str()),
            ("/data/x", "/data", "/")
        );
    }
}
