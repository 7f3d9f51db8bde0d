//! The file of stacks: a minidump, as debuggers and crash reporters read it.
//!
//! It holds the blocked threads, the part of each one's stack that does not change, the registers of its innermost frame, and the files of code
//! with their build ids. The writer copies the stacks through a small buffer, and writes the directory last. `minidump-writer` stops threads by
//! `ptrace`, and makes the whole file in memory.

use super::{Machine, Memory, Module};
use std::io::{self, Seek, SeekFrom, Write};

pub const STACKS: &str = "stacks.dmp";

const SIGNATURE: u32 = u32::from_le_bytes(*b"MDMP");
const VERSION: u32 = 0xa793;
const HEADER_BYTES: u32 = 32;
const DIRECTORY_BYTES: u32 = 12;
const STREAMS: usize = 7;
const CHUNK: usize = 1 << 16;

pub mod stream {
    pub const THREADS: u32 = 3;
    pub const MODULES: u32 = 4;
    pub const MEMORY: u32 = 5;
    pub const SYSTEM: u32 = 7;
    pub const MISC: u32 = 15;
    pub const THREAD_NAMES: u32 = 24;
    pub const LINUX_MAPS: u32 = 0x4767_0009;
}

const PLATFORM_LINUX: u32 = 0x8201;
/// `BpEL`, before a build id.
pub const BUILD_ID: u32 = 0x4270_454c;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpThread {
    pub thread: u32,
    pub name: String,
    pub address: u64,
    pub stack: u64,
    pub frame: u64,
    pub memory: Kept,
}

#[derive(Clone, Copy, Debug)]
pub struct DumpModule<'a> {
    pub module: &'a Module,
    pub build_id: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    begin: u64,
    bytes: u32,
    at: u32,
}

pub struct DumpFile<W> {
    out: W,
    at: u32,
    streams: Vec<(u32, u32, u32)>,
}

impl<W: Write + Seek> DumpFile<W> {
    pub fn new(mut out: W) -> io::Result<Self> {
        let begin = HEADER_BYTES + STREAMS as u32 * DIRECTORY_BYTES;
        out.write_all(&vec![0; begin as usize])?;
        Ok(Self { out, at: begin, streams: Vec::new() })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<u32> {
        let at = self.at;
        let length = u32::try_from(bytes.len()).ok();
        self.at = length.and_then(|length| at.checked_add(length)).ok_or(io::ErrorKind::FileTooLarge)?;
        self.out.write_all(bytes)?;
        Ok(at)
    }

    fn put_stream(&mut self, kind: u32, bytes: &[u8]) -> io::Result<()> {
        let at = self.put(bytes)?;
        self.streams.push((kind, bytes.len() as u32, at));
        Ok(())
    }

    fn put_name(&mut self, name: &str) -> io::Result<u32> {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let length = units.len() as u32;
        self.put(&[&length.to_le_bytes()[..], &units, &[0, 0]].concat())
    }

    pub fn memory(&mut self, memory: &impl Memory, begin: u64, end: u64) -> io::Result<Kept> {
        let (mut chunk, at) = (vec![0; CHUNK], self.at);
        let mut next = begin;
        while next < end {
            let wanted = CHUNK.min(usize::try_from(end - next).unwrap_or(CHUNK));
            let read = memory.read(next, &mut chunk[..wanted]);
            self.put(&chunk[..read])?;
            next += read as u64;
            if read < wanted {
                break;
            }
        }
        Ok(Kept { begin, bytes: self.at - at, at })
    }

    /// The rest and the directory. `seconds` since 1970; `maps` is the text of what is mapped.
    pub fn finish(
        mut self,
        process: u32,
        seconds: u64,
        threads: &[DumpThread],
        modules: &[DumpModule<'_>],
        maps: &str,
    ) -> io::Result<()> {
        self.put_threads(threads)?;
        self.put_modules(modules)?;
        let list = Bytes::default().u32(threads.len() as u32);
        let list = threads.iter().fold(list, |list, thread| list.place(thread.memory));
        self.put_stream(stream::MEMORY, &list.0)?;
        let version = self.put_name("")?;
        // Architecture; level, revision, processors and product; three numbers of a version; platform; the version's text.
        let system = Bytes::default().u16(DumpContext::of(Machine::OWN).number).zeros(18);
        let system = system.u32(PLATFORM_LINUX).u32(version).zeros(28);
        self.put_stream(stream::SYSTEM, &system.0)?;
        self.put_stream(stream::MISC, &Bytes::default().u32(24).u32(1).u32(process).zeros(12).0)?;
        self.put_stream(stream::LINUX_MAPS, maps.as_bytes())?;
        let head = Bytes::default().u32(SIGNATURE).u32(VERSION).u32(self.streams.len() as u32).u32(HEADER_BYTES);
        let head = head.u32(0).u32(seconds as u32).u64(0);
        let of_stream = |head: Bytes, (kind, bytes, at): &(u32, u32, u32)| head.u32(*kind).u32(*bytes).u32(*at);
        let head = self.streams.iter().fold(head, of_stream);
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&head.0)?;
        self.out.flush()
    }

    fn put_threads(&mut self, threads: &[DumpThread]) -> io::Result<()> {
        let mut list = Bytes::default().u32(threads.len() as u32);
        let mut names = Bytes::default().u32(threads.len() as u32);
        for thread in threads {
            let registers = DumpContext::of(Machine::OWN).registers(thread);
            let at = self.put(&registers)?;
            list = list.u32(thread.thread).zeros(12).u64(0).place(thread.memory).u32(registers.len() as u32).u32(at);
            names = names.u32(thread.thread).u64(u64::from(self.put_name(&thread.name)?));
        }
        self.put_stream(stream::THREADS, &list.0)?;
        self.put_stream(stream::THREAD_NAMES, &names.0)
    }

    fn put_modules(&mut self, modules: &[DumpModule<'_>]) -> io::Result<()> {
        let mut list = Bytes::default().u32(modules.len() as u32);
        for DumpModule { module, build_id } in modules {
            let name = self.put_name(&module.path)?;
            let id = [&BUILD_ID.to_le_bytes()[..], build_id].concat();
            let (bytes, at) = if build_id.is_empty() { (0, 0) } else { (id.len() as u32, self.put(&id)?) };
            let size = u32::try_from(module.end.saturating_sub(module.base)).unwrap_or(u32::MAX);
            // Base, size, checksum, time, name; the file's version; the build id; what Windows has beside it.
            list = list.u64(module.base).u32(size).zeros(8).u32(name).zeros(52).u32(bytes).u32(at).zeros(24);
        }
        self.put_stream(stream::MODULES, &list.0)
    }
}

/// The places of a processor's registers in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpContext {
    pub number: u16,
    bytes: usize,
    /// The word that says which registers are given, and its value: control and integers.
    flags: (usize, u32),
    pub address: usize,
    pub stack: usize,
    pub frame: usize,
}

impl DumpContext {
    pub const fn of(machine: Machine) -> Self {
        match machine {
            Machine::X86_64 => {
                Self { number: 9, bytes: 1232, flags: (0x30, 0x0010_0003), address: 0xf8, stack: 0x98, frame: 0xa0 }
            }
            // x0 is at 8, and 31 registers of eight bytes before the stack pointer.
            Machine::Aarch64 => Self {
                number: 12,
                bytes: 912,
                flags: (0, 0x0040_0003),
                address: 8 + 32 * 8,
                stack: 8 + 31 * 8,
                frame: 8 + 29 * 8,
            },
        }
    }

    pub fn of_number(number: u16) -> Option<Machine> {
        [Machine::X86_64, Machine::Aarch64].into_iter().find(|machine| Self::of(*machine).number == number)
    }

    fn registers(self, thread: &DumpThread) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        bytes[self.flags.0..self.flags.0 + 4].copy_from_slice(&self.flags.1.to_le_bytes());
        for (at, value) in [(self.stack, thread.stack), (self.frame, thread.frame), (self.address, thread.address)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn place(self, kept: Kept) -> Self {
        self.u64(kept.begin).u32(kept.bytes).u32(kept.at)
    }
}
