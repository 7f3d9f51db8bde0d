//! The reader of `stacks.dmp`: the part of the minidump format that the library writes. It is total: on any bytes, reading ends.
//!
//! Why no library: `minidump` adds 32 crates, and refuses a whole list whose count is damaged. The tests read the written dumps with it.

use lazyguard_core::stack::stream::{MODULES, SYSTEM, THREADS};
use lazyguard_core::stack::{DumpContext, Machine, BUILD_ID};

const MOST_THREADS: u32 = 1 << 12;
const MOST_MODULES: u32 = 1 << 16;
const MOST_STREAMS: u32 = 256;
const MOST_NAME: usize = 1 << 13;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dump<'a> {
    pub machine: Machine,
    pub threads: Vec<Thread<'a>>,
    pub modules: Vec<Module>,
}

/// A thread, and its stack from the point where it is blocked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Thread<'a> {
    pub thread: u32,
    pub address: u64,
    pub stack: u64,
    pub frame: u64,
    pub memory_at: u64,
    pub memory: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Module {
    pub base: u64,
    pub end: u64,
    pub path: String,
    pub build_id: Vec<u8>,
    /// When the dump was made, in seconds since 1970.
    pub dumped: u32,
}

pub(super) fn read(bytes: &[u8]) -> Result<Dump<'_>, &'static str> {
    let bytes = Bytes(bytes);
    if bytes.0.get(..4) != Some(b"MDMP") || bytes.u32(4).is_none_or(|version| version & 0xffff != 0xa793) {
        return Err("not a minidump");
    }
    let (count, directory, dumped) =
        (bytes.u32(8).unwrap_or(0), bytes.u32(12).unwrap_or(0), bytes.u32(20).unwrap_or(0));
    let stream = |wanted: u32| {
        (0..count.min(MOST_STREAMS))
            .map(|number| directory as usize + number as usize * 12)
            .find(|at| bytes.u32(*at) == Some(wanted))
            .and_then(|at| bytes.part(bytes.u32(at + 8)?, bytes.u32(at + 4)?))
    };
    let machine = match stream(SYSTEM).and_then(|system| system.u16(0)) {
        Some(number) => DumpContext::of_number(number).ok_or("of a processor that this build does not know")?,
        None => return Err("it does not say of which processor it is"),
    };
    let context = DumpContext::of(machine);
    let list = |kind, most: u32, size: usize| {
        let stream = stream(kind).unwrap_or(Bytes(&[]));
        let count = stream.u32(0).unwrap_or(0).min(most) as usize;
        (0..count).map_while(move |number| Some(Bytes(stream.0.get(4 + number * size..)?.get(..size)?)))
    };
    let thread = |entry: Bytes<'_>| {
        let registers = bytes.part(entry.u32(44)?, entry.u32(40)?)?;
        Some(Thread {
            thread: entry.u32(0)?,
            address: registers.u64(context.address)?,
            stack: registers.u64(context.stack)?,
            frame: registers.u64(context.frame)?,
            memory_at: entry.u64(24)?,
            memory: bytes.part(entry.u32(36)?, entry.u32(32)?).map_or(&[], |part| part.0),
        })
    };
    let module = |entry: Bytes<'_>| {
        let base = entry.u64(0)?;
        let id = bytes.part(entry.u32(80)?, entry.u32(76)?).filter(|id| id.u32(0) == Some(BUILD_ID));
        Some(Module {
            base,
            end: base.checked_add(u64::from(entry.u32(8)?))?,
            path: bytes.name(entry.u32(20)?)?,
            build_id: id.and_then(|id| id.0.get(4..)).unwrap_or_default().to_owned(),
            dumped,
        })
    };
    Ok(Dump {
        machine,
        threads: list(THREADS, MOST_THREADS, 48).filter_map(thread).collect(),
        modules: list(MODULES, MOST_MODULES, 108).filter_map(module).collect(),
    })
}

#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    fn part(self, at: u32, length: u32) -> Option<Self> {
        self.0.get(at as usize..)?.get(..length as usize).map(Self)
    }

    fn name(self, at: u32) -> Option<String> {
        let length = self.u32(at as usize)? as usize;
        let text = self.0.get(at as usize + 4..)?.get(..length.min(MOST_NAME))?;
        let units: Vec<_> = text.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
        Some(String::from_utf16_lossy(&units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::stack::{modules, DumpFile, DumpModule, DumpThread, Memory};
    use std::io::Cursor;

    const STACK: u64 = 0x7fff_0000_1000;

    struct Words;

    impl Memory for Words {
        /// Every word holds its own address, as far as the third page.
        fn read(&self, address: u64, into: &mut [u8]) -> usize {
            let there = (STACK + 3 * 4096).saturating_sub(address).min(into.len() as u64) as usize;
            for (at, byte) in into[..there].iter_mut().enumerate() {
                let place = address + at as u64;
                *byte = (place & !7).to_le_bytes()[place as usize % 8];
            }
            there
        }
    }

    fn written() -> Vec<u8> {
        let maps =
            "55000000-55002000 r-xp 00000000 fe:00 1 /opt/prög\n7f000000-7f001000 r-xp 00000000 fe:00 2 /lib/a.so\n";
        let modules = modules(maps);
        let mut bytes = Cursor::new(Vec::new());
        let mut file = DumpFile::new(&mut bytes).unwrap();
        let mut thread = |thread, begin| DumpThread {
            thread,
            name: format!("t{thread}"),
            address: 0x5500_0010,
            stack: begin,
            frame: begin + 64,
            memory: file.memory(&Words, begin, begin + (1 << 20)).unwrap(),
        };
        let threads = [thread(7, STACK + 16), thread(8, STACK + 4096)];
        let modules: Vec<_> = modules
            .iter()
            .zip([&b"0123456789abcdefghij"[..], b""])
            .map(|(module, build_id)| DumpModule { module, build_id })
            .collect();
        file.finish(99, 1_750_000_000, &threads, &modules, maps).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn what_a_guard_writes_is_read_back() {
        let bytes = written();
        let dump = read(&bytes).unwrap();
        let threads: Vec<_> =
            dump.threads.iter().map(|t| (t.thread, t.address, t.stack, t.frame, t.memory_at, t.memory.len())).collect();
        assert_eq!(
            threads,
            [
                (7, 0x5500_0010, STACK + 16, STACK + 80, STACK + 16, 3 * 4096 - 16),
                (8, 0x5500_0010, STACK + 4096, STACK + 4160, STACK + 4096, 2 * 4096),
            ]
        );
        assert_eq!(dump.threads[1].memory[..8], (STACK + 4096).to_le_bytes());
        let modules: Vec<_> =
            dump.modules.iter().map(|m| (m.base, m.end, m.path.as_str(), m.build_id.as_slice())).collect();
        assert_eq!(
            modules,
            [
                (0x5500_0000, 0x5500_2000, "/opt/prög", &b"0123456789abcdefghij"[..]),
                (0x7f00_0000, 0x7f00_1000, "/lib/a.so", b""),
            ]
        );
    }

    /// Another reader of the format finds the same in it.
    #[test]
    fn it_is_a_minidump_to_others() {
        use minidump::{MinidumpMemoryList, MinidumpModuleList, MinidumpSystemInfo, MinidumpThreadList};
        use minidump::{MinidumpMiscInfo, MinidumpThreadNames, Module as _};
        let bytes = written();
        let dump = minidump::Minidump::read(bytes.as_slice()).unwrap();
        let system = dump.get_stream::<MinidumpSystemInfo>().unwrap();
        assert_eq!((system.cpu, system.os), (minidump::system_info::Cpu::X86_64, minidump::system_info::Os::Linux));
        assert_eq!(dump.get_stream::<MinidumpMiscInfo>().unwrap().raw.process_id(), Some(&99));
        assert_eq!(dump.header.time_date_stamp, 1_750_000_000);
        let memory = dump.get_stream::<MinidumpMemoryList<'_>>().unwrap();
        assert_eq!(memory.iter().map(|m| m.bytes.len()).collect::<Vec<_>>(), [3 * 4096 - 16, 2 * 4096]);
        let modules = dump.get_stream::<MinidumpModuleList>().unwrap();
        let module = modules.module_at_address(0x5500_0010).unwrap();
        assert_eq!(module.code_file(), "/opt/prög");
        assert_eq!(module.code_identifier().unwrap().as_str(), "303132333435363738396162636465666768696a");
        let threads = dump.get_stream::<MinidumpThreadList<'_>>().unwrap();
        let thread = threads.get_thread(7).unwrap();
        let registers = thread.context(&system, None).unwrap();
        assert_eq!((registers.get_instruction_pointer(), registers.get_stack_pointer()), (0x5500_0010, STACK + 16));
        assert_eq!(registers.get_register_always("rbp"), STACK + 80);
        let names = dump.get_stream::<MinidumpThreadNames>().unwrap();
        assert_eq!(names.get_name(8).as_deref(), Some("t8"));
    }

    #[test]
    fn any_bytes_are_read_to_an_end() {
        let whole = written();
        let total = |bytes: &[u8]| {
            if let Ok(dump) = read(bytes) {
                assert!(dump.threads.iter().all(|thread| thread.memory.len() <= bytes.len()));
                assert!(dump.threads.len() <= bytes.len() / 48 && dump.modules.len() <= bytes.len() / 108);
            }
        };
        (0..whole.len()).step_by(7).for_each(|length| total(&whole[..length]));
        let late: Vec<_> =
            whole.len().checked_sub(3000).map(|from| (0..116).chain(from..whole.len())).unwrap().collect();
        for seed in 1..20_000_u64 {
            let mut bytes = whole.clone();
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for _ in 0..1 + seed % 7 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // The dump has its numbers in the directory at the beginning, and in the lists at the end.
                let at = late[random as usize % late.len()];
                let odd = [0, 1, 0x7f, 0x80, 0xff, (random >> 40) as u8];
                let end = bytes.len().min(at + 1 + (random >> 50) as usize % 4);
                bytes[at..end].fill(odd[(random >> 33) as usize % odd.len()]);
            }
            total(&bytes);
        }
        let mut random = 1_u64;
        for length in [0, 3, 4, 8, 31, 32, 200, 5000] {
            let noise = (0..length).map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as u8
            });
            total(&[&b"MDMP\x93\xa7\0\0"[..], &noise.collect::<Vec<_>>()].concat());
        }
        assert_eq!(read(b"MDM"), Err("not a minidump"));
    }
}
