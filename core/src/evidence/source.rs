//! The source of a look: the kernel's files of processes and control groups, or a written tree of them.
//!
//! Must not: open a path that a process names, read without a bound, or fail except by finding less.

use crate::folder::entries_of;
use crate::stack::{Machine, Memory};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

const MOST_BYTES: u64 = 4 << 20;
const MOST_ENTRIES: usize = 1 << 15;

/// `/proc` and `/sys/fs/cgroup`, or a written tree of them.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    pub(super) machine: Machine,
}

impl Source {
    pub fn machine() -> Self {
        Self::at("/")
    }

    /// A tree with `proc` and `sys/fs/cgroup` beneath this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), machine: Machine::OWN }
    }

    /// The processor whose system calls the files number.
    pub fn of(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim_end_matches('\n').to_owned())
    }

    /// The text of a link, which may lead to a file system that does not answer.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.root.join(path)).ok().map(|link| link.to_string_lossy().into_owned())
    }

    /// The names in a folder that are numbers.
    pub(super) fn numbers(&self, path: &str) -> Vec<u32> {
        let numbers = entries_of(&self.root.join(path)).filter_map(|entry| entry.name().to_str()?.parse().ok());
        let mut found: Vec<u32> = numbers.take(MOST_ENTRIES).collect();
        found.sort_unstable();
        found
    }

    pub(super) fn memory(&self, process: u32) -> Option<Of> {
        File::open(self.root.join(format!("proc/{process}/mem"))).ok().map(Of)
    }
}

/// The memory of a process.
pub(super) struct Of(File);

impl Memory for Of {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, address).unwrap_or(0)
    }
}

/// The value behind a name, in lines as `rchar: 6976` and `nr_throttled 5`.
pub(super) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([':', ' ']).map(str::trim))
}

pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    value(text, name)?.parse().ok()
}
