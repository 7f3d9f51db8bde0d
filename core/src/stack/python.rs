//! The Python stacks of a process's threads, by the interpreter's structures in its memory.
//!
//! For 3.11 and 3.12 a constant has the offsets, as a C compiler gives them; from 3.13 on the interpreter has a table of them (`_PyRuntime`). No
//! thread is stopped: all is read twice, and a note names threads whose frames differ. (`py-spy` stops the process.)
//!
//! Must not: believe what is read: all counts are bounded, and a pointer that leads nowhere ends that stack.

use super::elf::Image;
use super::Memory;
use crate::map::{HashMap, HashSet};
use serde::{Deserialize, Serialize};

const MOST_INTERPRETERS: usize = 64;
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 256;
const MOST_TEXT: u64 = 4096;
const MOST_TABLE: u64 = 1 << 20;
const ATTEMPTS: usize = 4;

/// A Python frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonFrame {
    /// The source file.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
    /// The function.
    pub function: String,
}

impl PythonFrame {
    /// Whether its code is neither Python's own nor that of an installed package.
    pub fn is_of_the_program(&self) -> bool {
        const LIBRARIES: [&str; 4] = ["/lib/python", "/site-packages/", "/dist-packages/", "<frozen "];
        !LIBRARIES.iter().any(|part| self.file.contains(part))
    }

    /// `train.py:31`
    pub fn place(&self) -> String {
        format!("{}:{}", self.file.rsplit('/').next().unwrap_or(&self.file), self.line)
    }
}

/// The interpreter's threads, as its memory shows them.
#[derive(Default)]
pub struct Python {
    pub version: String,
    /// The frames of each thread, the innermost first.
    pub threads: HashMap<u32, Vec<PythonFrame>>,
    /// The threads whose frames changed while they were read.
    pub moving: HashSet<u32>,
    /// Whether a thread runs the interpreter's garbage collection; unknown is false.
    pub collects: bool,
    pub note: Option<String>,
}

/// The offsets of fields in the interpreter's structures.
struct Layout {
    interpreters: u64,
    /// The next interpreter, its threads.
    interpreter: [u64; 2],
    /// The next thread, the id of the C library, the id of the kernel.
    thread: [u64; 3],
    /// From a thread to its innermost frame: each is an offset, and what lies there is a pointer.
    innermost: [Option<u64>; 2],
    /// The frame before, the code, where in the code it is, its owner.
    frame: [u64; 4],
    /// File, name, first line, table of lines, where the code begins.
    code: [u64; 5],
    /// From an interpreter to the mark of a collection in progress.
    collects: Option<u64>,
    /// The letters where all are ASCII, and elsewhere.
    text: [u64; 2],
}

const IN_3_11: Layout = Layout {
    interpreters: 40,
    interpreter: [0, 16],
    thread: [8, 152, 160],
    innermost: [Some(56), Some(8)],
    frame: [48, 32, 56, 69],
    code: [112, 120, 72, 136, 184],
    text: [48, 72],
    collects: Some(848),
};

const IN_3_12: Layout = Layout {
    interpreter: [0, 72],
    thread: [8, 136, 144],
    innermost: [Some(56), Some(0)],
    frame: [8, 0, 56, 70],
    code: [112, 120, 68, 136, 192],
    text: [40, 56],
    collects: Some(312),
    ..IN_3_11
};

impl Layout {
    fn of(memory: &impl Memory, runtime: u64, minor: u8) -> Option<Self> {
        // The words of the interpreter's table that hold the places of the next thread, the frame before and the file.
        let [next_thread, previous, file] = match minor {
            11 => return Some(IN_3_11),
            12 => return Some(IN_3_12),
            13 => [21, 29, 35],
            14 => [24, 32, 40],
            _ => return None,
        };
        if memory.array(runtime)? != *b"xdebugpy" {
            return None;
        }
        // An offset is smaller than the structure that it is in.
        let field = |word: u64| memory.word(runtime.checked_add(word * 8)?).filter(|offset| *offset < 1 << 20);
        let is_free_threaded = field(2)? != 0;
        (!is_free_threaded).then_some(())?;
        Some(Self {
            interpreters: field(5)?,
            interpreter: [field(8)?, field(9)?],
            thread: [field(next_thread)?, field(next_thread + 3)?, field(next_thread + 4)?],
            innermost: [Some(field(next_thread + 2)?), None],
            frame: [field(previous)?, field(previous + 1)?, field(previous + 2)?, field(previous + 4)?],
            code: [field(file)?, field(file + 1)?, field(file + 4)?, field(file + 3)?, field(file + 8)?],
            // The table of 3.13 says where a collection is marked.
            collects: (minor == 13).then(|| field(10)?.checked_add(field(72)?)).flatten(),
            ..IN_3_12
        })
    }
}

impl Python {
    /// `images`: those that may have the interpreter. `native`: the kernel's ids of the process's threads.
    pub fn of<'a>(
        memory: &impl Memory,
        mut images: impl Iterator<Item = &'a Image>,
        native: impl IntoIterator<Item = u32>,
    ) -> Option<Self> {
        let (image, runtime) = images.find_map(|image| Some((image, image.variable(memory, "_PyRuntime")?)))?;
        let version = image.variable(memory, "Py_Version").and_then(|at| memory.word(at));
        let minor = version.filter(|version| version >> 24 & 0xff == 3).map(|version| (version >> 16 & 0xff) as u8);
        let version = minor.map_or_else(|| "older than 3.11".to_owned(), |minor| format!("3.{minor}"));
        let mut python = Self { version, ..Self::default() };
        let Some(layout) = minor.and_then(|minor| Layout::of(memory, runtime, minor)) else {
            python.note = Some(match minor {
                None => "Python older than 3.11 is not read".to_owned(),
                Some(minor) => {
                    format!("Python 3.{minor} is not read: 3.11 to 3.14 are, except for free-threaded builds")
                }
            });
            return Some(python);
        };
        let reader = Reader { memory, layout, native: native.into_iter().collect() };
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
        python.collects = reader.collects(runtime);
        python.threads = last;
        Some(python)
    }
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

    fn collects(&self, runtime: u64) -> bool {
        let first = self.pointer(runtime, self.layout.interpreters).zip(self.layout.collects);
        first.is_some_and(|(interpreter, mark)| self.int(interpreter, mark) == Some(1))
    }

    fn all(&self, runtime: u64) -> HashMap<u32, Vec<PythonFrame>> {
        let layout = &self.layout;
        let mut found = HashMap::default();
        let ([next_interpreter, threads], [next_thread, ..]) = (layout.interpreter, layout.thread);
        let mut interpreter = self.pointer(runtime, layout.interpreters);
        for _ in 0..MOST_INTERPRETERS {
            let Some(at) = interpreter else { break };
            let mut thread = self.pointer(at, threads);
            for _ in 0..MOST_THREADS {
                let Some(at) = thread else { break };
                if let Some(native) = self.native_id(at) {
                    found.insert(native, self.frames(at));
                }
                thread = self.pointer(at, next_thread);
            }
            interpreter = self.pointer(at, next_interpreter);
        }
        found
    }

    /// The C library's structure is right after a fork as well, where the interpreter's field may be the parent's.
    fn native_id(&self, thread: u64) -> Option<u32> {
        /// `tid` in the GNU C library's `struct pthread` on x86-64, which is where `pthread_self` points.
        const TID: u64 = 720;
        let is_there = |id: &u32| self.native.contains(id);
        let [_, in_c_library, in_kernel] = self.layout.thread;
        let pthread = self.pointer(thread, in_c_library).filter(|_| cfg!(target_arch = "x86_64"));
        let of_c_library = pthread.and_then(|pthread| self.memory.array(pthread.checked_add(TID)?));
        let own = || u32::try_from(self.word(thread, in_kernel)?).ok().filter(is_there);
        of_c_library.map(u32::from_le_bytes).filter(is_there).or_else(own)
    }

    fn frames(&self, thread: u64) -> Vec<PythonFrame> {
        /// Frames with this owner or a greater one are the interpreter's own.
        const INTERPRETER: u8 = 3;
        let [previous, _, _, owner] = self.layout.frame;
        let mut frame = self.layout.innermost.iter().flatten().try_fold(thread, |at, offset| self.pointer(at, *offset));
        let mut found = Vec::new();
        for _ in 0..MOST_FRAMES {
            let Some(at) = frame else { break };
            if self.memory.array(at.wrapping_add(owner)).is_none_or(|[owner]| owner < INTERPRETER) {
                let Some(frame) = self.frame(at) else { break };
                found.push(frame);
            }
            frame = self.pointer(at, previous);
        }
        found
    }

    fn frame(&self, at: u64) -> Option<PythonFrame> {
        let ([_, code, position, _], [file, name, first_line, lines, begin]) = (self.layout.frame, self.layout.code);
        // From 3.14 on the lowest bits of the pointer say how it is counted.
        let code = self.pointer(at, code)? & !7;
        let text = |offset| self.text(self.pointer(code, offset)?);
        let (file, mut function) = (text(file)?, text(name)?);
        if function == "__del__" {
            // The qualified name follows: it has the class.
            function = text(name + 8).unwrap_or(function);
        }
        let first = i64::from(self.int(code, first_line)?);
        let table = self.pointer(code, lines).and_then(|table| self.bytes(table)).unwrap_or_default();
        let offset = self.word(at, position)?.wrapping_sub(code.wrapping_add(begin)) as i64;
        let line = line_in_locations(&table, first, offset).unwrap_or(first);
        Some(PythonFrame { file, line: u32::try_from(line).unwrap_or(0), function })
    }

    fn bytes(&self, object: u64) -> Option<Vec<u8>> {
        const LENGTH: u64 = 16;
        const BEGIN: u64 = 32;
        Some(self.memory.bytes(object.checked_add(BEGIN)?, self.word(object, LENGTH)?.min(MOST_TABLE) as usize))
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
        let [ascii, other] = self.layout.text;
        let bytes = self.memory.bytes(object.checked_add(if is_ascii { ascii } else { other })?, length * size);
        if bytes.len() < length * size {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let letter = |bytes| char::from_u32(number(bytes)).unwrap_or(char::REPLACEMENT_CHARACTER);
        Some(bytes.chunks(size).map(letter).collect())
    }
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
    fn lines_are_found_in_the_table() {
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
                line_in_locations(&table, 1, offset);
            }
        }
    }
}
