//! A process that is looked at: its memory, the files that it has mapped, and its threads.
//!
//! Must not: take names from a file whose build id is not the mapped one's (`stacks`).

use crate::folder::{refused, Status};
use crate::machine::files;
use crate::stacks::CodeModule;
use lazyguard_core::stack::{mappings, modules, undeleted, Image, Memory, Module, Python};
use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

const MOST_THREADS: usize = 4096;

pub(super) const DRIVER: &str = "libcuda.so";

/// The kernel's page with functions such as `clock_gettime`, which a thread that spins may be in.
const VDSO: &str = "[vdso]";

pub(super) struct Target {
    pub process: u32,
    started: Option<u64>,
    pub memory: ProcessMemory,
    pub regions: Vec<(u64, u64)>,
    pub modules: Vec<Module>,
    images: Vec<OnceCell<Option<Image>>>,
    named: OnceCell<Vec<CodeModule>>,
}

pub(super) struct ProcessMemory(File);

impl Memory for ProcessMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, address).unwrap_or(0)
    }
}

impl Target {
    pub fn open(process: u32) -> Result<Self, String> {
        let path = |name: &str| files::about_memory(process, name);
        let read = files::read_lossy(path("maps")).and_then(|maps| Ok((maps, files::open(path("mem"))?)));
        let (maps, memory) = read.map_err(|error| refused::why(process, &error))?;
        if maps.is_empty() {
            return Err(refused::NO_MEMORY.to_owned());
        }
        let modules = with_code(&maps);
        let regions = mappings(&maps).map(|mapping| (mapping.begin, mapping.end)).collect();
        let images = modules.iter().map(|_| OnceCell::new()).collect();
        let started = Status::of(process).started();
        Ok(Self { process, started, memory: ProcessMemory(memory), regions, modules, images, named: OnceCell::new() })
    }

    pub fn has_other_modules_now(&self) -> bool {
        files::read_lossy(files::about_memory(self.process, "maps")).is_ok_and(|maps| with_code(&maps) != self.modules)
    }

    /// Whether it is still the process that was opened: ids are used again.
    pub fn is_still_there(&self) -> bool {
        let status = Status::of(self.process);
        status != Status::Gone && status.started() == self.started
    }

    pub fn threads(&self) -> Vec<u32> {
        let numbers = files::numbered(format!("/proc/{}/task", self.process));
        let mut threads: Vec<u32> = numbers.take(MOST_THREADS).collect();
        threads.sort_unstable();
        threads
    }

    pub fn of_thread(&self, thread: u32, name: &str) -> Option<String> {
        files::read_lossy(format!("/proc/{}/task/{thread}/{name}", self.process)).ok()
    }

    pub fn command(&self) -> Vec<String> {
        let text = files::read_lossy(format!("/proc/{}/cmdline", self.process)).unwrap_or_default();
        text.strip_suffix('\0').unwrap_or(&text).split('\0').map(str::to_owned).collect()
    }

    pub fn image(&self, number: usize) -> Option<&Image> {
        let (module, image) = (self.modules.get(number)?, self.images.get(number)?);
        image.get_or_init(|| Image::read(&self.memory, module.base)).as_ref()
    }

    pub fn python(&self) -> Option<Python> {
        let images = (0..self.modules.len()).filter_map(|number| self.image(number));
        Python::of(&self.memory, images, self.threads())
    }

    pub fn named(&self) -> &[CodeModule] {
        self.named.get_or_init(|| {
            let now = crate::machine::system::unix_now().as_secs();
            let root = root_of(self.process);
            let one = |(number, module): (usize, &Module)| CodeModule {
                base: module.base,
                end: module.end,
                path: match module.path.starts_with('/') {
                    true => format!("{root}{}", undeleted(&module.path)),
                    false => module.path.clone(),
                },
                build_id: self.image(number).map(|image| image.build_id.clone()).unwrap_or_default(),
                dumped: u32::try_from(now).unwrap_or(u32::MAX),
            };
            self.modules.iter().enumerate().map(one).collect()
        })
    }

    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name().starts_with(name))
    }
}

fn with_code(maps: &str) -> Vec<Module> {
    let mut found = modules(maps);
    found.extend(mappings(maps).filter(|mapping| mapping.path == VDSO).map(|mapping| Module {
        base: mapping.begin,
        end: mapping.end,
        path: VDSO.to_owned(),
        code: vec![(mapping.begin, mapping.end)],
    }));
    found
}

/// Whether a file belongs to the driver: `libcuda.so.1`, the compiler that it loads, and the device code that the simulated driver runs.
pub(super) fn is_of_the_driver(file: &str) -> bool {
    [DRIVER, "libnvidia-", "memfd:lgsim-image"].iter().any(|name| file.starts_with(name))
}

/// The path from this command's root to that of a process: empty, where both have the same root and the same mounts.
fn root_of(process: u32) -> String {
    let root = format!("/proc/{process}/root");
    let number = |path: &str| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let mounts = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    let is_same = number(&root) == number("/") && mounts(&process.to_string()) == mounts("self");
    match is_same || number(&root).is_none() {
        true => String::new(),
        false => root,
    }
}
