//! The Python stacks of a process's threads, by the interpreter's structures in its memory.
//!
//! For 3.8 to 3.12 [`LAYOUTS`] has the offsets, as a C compiler gives them; from 3.13 on the interpreter has a table of them (`_PyRuntime`). No
//! thread is stopped: all is read twice, and a note names threads whose frames differ. (`py-spy` stops the process.)
//!
//! Must not: believe what is read: all counts are bounded, and a pointer that leads nowhere ends that stack.

use super::target::Target;
use lazyguard_core::stack::Memory;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

const MOST_INTERPRETERS: usize = 64;
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 256;
const MOST_TEXT: u64 = 4096;
const MOST_TABLE: u64 = 1 << 20;
const ATTEMPTS: usize = 4;

/// A Python frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PythonFrame {
    /// The source file.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
    /// The function.
    pub function: String,
}

#[derive(Default)]
pub(super) struct Python {
    pub version: String,
    pub threads: HashMap<u32, Vec<PythonFrame>>,
    pub moving: HashSet<u32>,
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    interpreters: u64,
    next_interpreter: u64,
    threads: u64,
    next_thread: u64,
    thread_id: u64,
    native_id: Option<u64>,
    /// From a thread to its innermost frame: each is an offset, and what lies there is a pointer.
    frame: [Option<u64>; 2],
    previous: u64,
    code: u64,
    position: Position,
    /// Frames with this owner or a greater one are the interpreter's own.
    owner: Option<(u64, u8)>,
    file: u64,
    name: u64,
    first_line: u64,
    lines: u64,
    text: (u64, u64),
}

/// How a frame says where in its code it is; with that goes how the table of lines is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// A number of so many bytes each, at an offset in the frame: with one byte `co_lnotab`, with two `co_linetable` of 3.10.
    Number(u64, u32),
    /// A pointer at an offset in the frame, into the code, which begins at an offset in the code's object: `co_linetable` from 3.11 on.
    Pointer(u64, u64),
}

use Position::{Number, Pointer};

const BEFORE_3_10: [u64; 11] = [32, 8, 176, 24, 32, 104, 112, 40, 120, 48, 72];
const IN_3_11: [u64; 11] = [40, 16, 152, 48, 32, 112, 120, 72, 136, 48, 72];
const IN_3_12: [u64; 11] = [40, 72, 136, 8, 0, 112, 120, 68, 136, 40, 56];

const LAYOUTS: [(u8, Layout); 5] = [
    (8, layout(BEFORE_3_10, None, [Some(24), None], Number(104, 1), None)),
    (9, layout(BEFORE_3_10, None, [Some(24), None], Number(104, 1), None)),
    (10, layout(BEFORE_3_10, None, [Some(24), None], Number(96, 2), None)),
    (11, layout(IN_3_11, Some(160), [Some(56), Some(8)], Pointer(56, 184), None)),
    (12, layout(IN_3_12, Some(144), [Some(56), Some(0)], Pointer(56, 192), Some((70, 3)))),
];

const fn layout(
    [interpreters, threads, thread_id, previous, code, file, name, first_line, lines, ascii, other]: [u64; 11],
    native_id: Option<u64>,
    frame: [Option<u64>; 2],
    position: Position,
    owner: Option<(u64, u8)>,
) -> Layout {
    Layout {
        interpreters,
        next_interpreter: 0,
        threads,
        next_thread: 8,
        thread_id,
        native_id,
        frame,
        previous,
        code,
        position,
        owner,
        file,
        name,
        first_line,
        lines,
        text: (ascii, other),
    }
}

/// The places of the next thread, the frame before and the file in the table of 3.13 and of 3.14, counted in words of eight bytes.
const WORDS: [(u8, [u64; 3]); 2] = [(13, [21, 29, 35]), (14, [24, 32, 40])];

impl Layout {
    fn in_runtime(memory: &impl Memory, runtime: u64, minor: u8) -> Option<Self> {
        let (_, [next_thread, previous, file]) = *WORDS.iter().find(|(known, _)| *known == minor)?;
        if memory.array(runtime)? != *b"xdebugpy" {
            return None;
        }
        // An offset is smaller than the structure that it is in.
        let field = |word: u64| memory.word(runtime.checked_add(word * 8)?).filter(|offset| *offset < 1 << 20);
        let is_free_threaded = field(2)? != 0;
        (!is_free_threaded).then_some(())?;
        Some(Self {
            interpreters: field(5)?,
            next_interpreter: field(8)?,
            threads: field(9)?,
            next_thread: field(next_thread)?,
            thread_id: field(next_thread + 3)?,
            native_id: Some(field(next_thread + 4)?),
            frame: [Some(field(next_thread + 2)?), None],
            previous: field(previous)?,
            code: field(previous + 1)?,
            position: Pointer(field(previous + 2)?, field(file + 8)?),
            owner: Some((field(previous + 4)?, 3)),
            file: field(file)?,
            name: field(file + 1)?,
            first_line: field(file + 4)?,
            lines: field(file + 3)?,
            text: (40, 56),
        })
    }
}

impl Python {
    pub fn of(target: &Target) -> Option<Self> {
        let memory = &target.memory;
        let (module, image, runtime) = target.modules.iter().enumerate().find_map(|(number, module)| {
            let image = target.image(number)?;
            Some((module, image, image.variable(memory, "_PyRuntime")?))
        })?;
        let said = image.variable(memory, "Py_Version").and_then(|at| memory.word(at));
        let said = said.filter(|version| version >> 24 & 0xff == 3).map(|version| (version >> 16 & 0xff) as u8);
        let minor = said.or_else(|| minor_in_name(module.name()));
        let mut python = Self {
            version: minor.map_or_else(|| "of an unknown version".to_owned(), |minor| format!("3.{minor}")),
            ..Self::default()
        };
        let known = LAYOUTS.iter().find(|(known, _)| Some(*known) == minor).map(|(_, layout)| *layout);
        let Some(layout) = known.or_else(|| Layout::in_runtime(memory, runtime, minor?)) else {
            python.note = Some(format!(
                "the structures of Python {} are not known here: those of 3.8 to 3.14 are, without those of free-threaded builds",
                python.version
            ));
            return Some(python);
        };
        let reader = Reader { memory, layout, native: target.threads().into_iter().collect() };
        let mut last = reader.all(runtime);
        for _ in 1..ATTEMPTS {
            let now = reader.all(runtime);
            let moves = |(thread, frames): &(&u32, &Vec<_>)| last.get(thread) != Some(*frames);
            python.moving = now.iter().filter(moves).map(|(thread, _)| *thread).collect();
            last = now;
            if python.moving.is_empty() {
                break;
            }
        }
        if last.is_empty() {
            python.note = Some(format!("no thread of Python {} could be read", python.version));
        }
        python.threads = last;
        Some(python)
    }
}

/// The version in the name of the interpreter's file: `python3.10`, `libpython3.8.so.1.0`.
fn minor_in_name(file: &str) -> Option<u8> {
    let (_, rest) = file.split_once("python3.")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

struct Reader<'a, M> {
    memory: &'a M,
    layout: Layout,
    native: HashSet<u32>,
}

impl<M: Memory> Reader<'_, M> {
    fn word(&self, at: u64, offset: u64) -> Option<u64> {
        self.memory.word(at.checked_add(offset)?)
    }

    fn int(&self, at: u64, offset: u64) -> Option<i32> {
        self.memory.array(at.checked_add(offset)?).map(i32::from_le_bytes)
    }

    fn pointer(&self, at: u64, offset: u64) -> Option<u64> {
        self.word(at, offset).filter(|pointer| *pointer != 0)
    }

    fn all(&self, runtime: u64) -> HashMap<u32, Vec<PythonFrame>> {
        let layout = &self.layout;
        let mut found = HashMap::new();
        let mut interpreter = self.pointer(runtime, layout.interpreters);
        for _ in 0..MOST_INTERPRETERS {
            let Some(at) = interpreter else { break };
            let mut thread = self.pointer(at, layout.threads);
            for _ in 0..MOST_THREADS {
                let Some(at) = thread else { break };
                if let Some(native) = self.native_id(at) {
                    found.insert(native, self.frames(at));
                }
                thread = self.pointer(at, layout.next_thread);
            }
            interpreter = self.pointer(at, layout.next_interpreter);
        }
        found
    }

    /// The C library's structure is right after a fork as well, where the interpreter's field may be the parent's.
    fn native_id(&self, thread: u64) -> Option<u32> {
        /// `tid` in the GNU C library's `struct pthread` on x86-64, which is where `pthread_self` points.
        const TID: u64 = 720;
        let is_there = |id: &u32| self.native.contains(id);
        let pthread = self.pointer(thread, self.layout.thread_id).filter(|_| cfg!(target_arch = "x86_64"));
        let of_c_library = pthread.and_then(|pthread| self.memory.array(pthread.checked_add(TID)?));
        let own = || u32::try_from(self.word(thread, self.layout.native_id?)?).ok().filter(is_there);
        of_c_library.map(u32::from_le_bytes).filter(is_there).or_else(own)
    }

    fn frames(&self, thread: u64) -> Vec<PythonFrame> {
        let layout = &self.layout;
        let mut frame = layout.frame.iter().flatten().try_fold(thread, |at, offset| self.pointer(at, *offset));
        let mut found = Vec::new();
        for _ in 0..MOST_FRAMES {
            let Some(at) = frame else { break };
            let owner = layout.owner.map(|(offset, first)| (self.memory.array::<1>(at.wrapping_add(offset)), first));
            let is_own = matches!(owner, Some((Some([owner]), first)) if owner >= first);
            if !is_own {
                let Some(frame) = self.frame(at) else { break };
                found.push(frame);
            }
            frame = self.pointer(at, layout.previous);
        }
        found
    }

    fn frame(&self, at: u64) -> Option<PythonFrame> {
        let layout = &self.layout;
        // From 3.14 on the lowest bits of the pointer say how it is counted.
        let code = self.pointer(at, layout.code)? & !7;
        let text = |offset| self.text(self.pointer(code, offset)?);
        let (file, function) = (text(layout.file)?, text(layout.name)?);
        let first = i64::from(self.int(code, layout.first_line)?);
        let table = self.pointer(code, layout.lines).and_then(|table| self.bytes(table)).unwrap_or_default();
        let line = match layout.position {
            Number(field, unit) => {
                let offset = i64::from(self.int(at, field)?) * i64::from(unit);
                let in_table = if unit == 1 { line_in_notab } else { line_in_ranges };
                in_table(&table, first, offset)
            }
            Pointer(field, begin) => {
                let offset = self.word(at, field)?.wrapping_sub(code.wrapping_add(begin)) as i64;
                line_in_locations(&table, first, offset)
            }
        };
        Some(PythonFrame { file, line: u32::try_from(line.unwrap_or(first)).unwrap_or(0), function })
    }

    fn bytes(&self, object: u64) -> Option<Vec<u8>> {
        const LENGTH: u64 = 16;
        const BEGIN: u64 = 32;
        let length = self.word(object, LENGTH)?.min(MOST_TABLE);
        Some(self.memory.bytes(object.checked_add(BEGIN)?, length as usize))
    }

    fn text(&self, object: u64) -> Option<String> {
        const LENGTH: u64 = 16;
        const STATE: u64 = 32;
        let length = self.word(object, LENGTH)?.min(MOST_TEXT) as usize;
        // Two bits say whether it is interned, three the size of a letter, one each that the letters follow, and that all are ASCII.
        let state = self.int(object, STATE)?;
        let (size, is_compact, is_ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if !is_compact || !matches!(size, 1 | 2 | 4) {
            return None;
        }
        let (ascii, other) = self.layout.text;
        let bytes = self.memory.bytes(object.checked_add(if is_ascii { ascii } else { other })?, length * size);
        if bytes.len() < length * size {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let letter = |bytes| char::from_u32(number(bytes)).unwrap_or(char::REPLACEMENT_CHARACTER);
        Some(bytes.chunks(size).map(letter).collect())
    }
}

/// Pairs of bytes: by how much the address grows, and the line.
fn line_in_notab(table: &[u8], first: i64, offset: i64) -> Option<i64> {
    let (mut line, mut address) = (first, 0);
    for [grows, lines] in table.as_chunks().0 {
        address += i64::from(*grows);
        if address > offset {
            break;
        }
        line += i64::from(*lines as i8);
    }
    Some(line)
}

/// Pairs of bytes: the length of a range, and by how much its line differs from that of the range before; -128: it has no line.
fn line_in_ranges(table: &[u8], first: i64, offset: i64) -> Option<i64> {
    let (mut line, mut end) = (first, 0);
    for [length, lines] in table.as_chunks().0 {
        let has_line = *lines as i8 != -128;
        if has_line {
            line += i64::from(*lines as i8);
        }
        end += i64::from(*length);
        if offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// Entries of variable length, the first byte of each with bit 7 set: the kind in four bits, the length less 1 in three.
fn line_in_locations(table: &[u8], first: i64, offset: i64) -> Option<i64> {
    const UNIT: i64 = 2;
    let (mut line, mut end, mut at) = (first, 0, 0);
    while let Some(head) = table.get(at).filter(|head| **head & 0x80 != 0) {
        let kind = head >> 3 & 15;
        let rest = table.get(at + 1..)?;
        match kind {
            13 | 14 => line += signed(rest),
            11 | 12 => line += i64::from(kind - 10),
            _ => {}
        }
        end += (i64::from(head & 7) + 1) * UNIT;
        if offset < end {
            return (kind != 15).then_some(line);
        }
        at += 1 + rest.iter().take_while(|byte| **byte & 0x80 == 0).count();
    }
    None
}

/// A number in pieces of six bits, the lowest first; bit 6 says that there are more, and the number's lowest bit is its sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut number = 0_i64;
    for (count, byte) in bytes.iter().take(6).enumerate() {
        number |= i64::from(byte & 0x3f) << (6 * count);
        if byte & 0x40 == 0 {
            break;
        }
    }
    match number & 1 == 1 {
        true => -(number >> 1),
        false => number >> 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_of_the_file() {
        assert_eq!(minor_in_name("python3.10"), Some(10));
        assert_eq!(minor_in_name("libpython3.8.so.1.0"), Some(8));
        assert_eq!(minor_in_name("libpython3.7m.so.1.0"), Some(7));
        assert_eq!((minor_in_name("python"), minor_in_name("app")), (None, None));
    }

    #[test]
    fn lines_are_found_in_the_tables_of_each_kind() {
        // `def f():` on line 10, one statement on each of the next two lines, as Python 3.9, 3.10 and 3.11 write it.
        let notab = [0, 1, 8, 1];
        assert_eq!([0, 6, 8, 20].map(|at| line_in_notab(&notab, 10, at)), [Some(11), Some(11), Some(12), Some(12)]);
        assert_eq!(line_in_notab(&[4, 0xff], 10, 5), Some(9), "it goes back as well");
        let ranges = [8, 1, 2, 0x80, 4, 1];
        assert_eq!(
            [0, 7, 8, 10, 14].map(|at| line_in_ranges(&ranges, 10, at)),
            [Some(11), Some(11), None, Some(12), None]
        );
        let locations = [0x80, 0, 0xd8, 4, 9, 0xe8 | 1, 2, 0xf8, 0xf0, 3, 0, 1, 1];
        let found = [0, 2, 4, 7, 8, 10].map(|at| line_in_locations(&locations, 10, at));
        assert_eq!(found, [Some(10), Some(11), Some(12), Some(12), None, Some(11)]);
        assert_eq!(signed(&[0x41, 0x20]), -(0x800 >> 1));
    }

    #[test]
    fn any_table_is_read_to_an_end() {
        let mut random = 1_u64;
        for length in 0..2000 {
            let table: Vec<u8> = (0..length % 97)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) as u8
                })
                .collect();
            for offset in [-2, 0, 50, i64::MAX] {
                for read in [line_in_notab, line_in_ranges, line_in_locations] {
                    read(&table, 1, offset);
                }
            }
        }
    }
}
