//! The answer to a CUDA runtime instance that asks for the loading mode. A runtime that is told EAGER hands all its fat binaries to the driver at start;
//! the driver itself stays lazy, and the guard loads the kernels once the context exists. Each instance asks once, through a pointer from
//! `cuGetProcAddress`. Its object's `.nvFatBinSegment` section shows how much it would register; large instances are left alone, because thousands of fat
//! binaries cost seconds.
//!
//! Must not: answer a program that asks for itself. That one reaches the export, or has not looked hundreds of names up before.

use super::loader::Loader;
use crate::lookup::driver;
use crate::lookup::link_map::{self, LinkMap};
use crate::lookup::{objects, proc_address};
use crate::runtime::environment;
use crate::runtime::files::{self, InFile, PROGRAM};
use crate::runtime::process::Process;
use lazyguard_core::preload::{nudge, Nudge, RuntimeInstance};
use lazyguard_core::report::NudgeAnswer;
use lazyguard_core::stack::section_bytes;
use std::ffi::{c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub const EAGER: i32 = 1;
/// Names looked up before the question: runtimes of 11.7 to 13.0 look up 300 to 440.
const LEAST_LOOKED_UP: u64 = 100;
/// Bytes of an entry in `.nvFatBinSegment`.
const WRAPPER: u64 = 24;
const LONGEST_PATH: usize = 4096;

pub fn answer(process: &Process, loader: &Loader, mode: &mut i32, caller: *const c_void) {
    if proc_address::looked_up() < LEAST_LOOKED_UP {
        return;
    }
    let Some(map) = link_map::object_of(caller) else { return };
    let path = path_of(map);
    if loader.summary(process.settings.preload).runtimes.iter().any(|known| known.object == path) {
        // A runtime asks once; another question is the program's.
        return;
    }
    let instance = RuntimeInstance { fat_binaries: fat_binaries(map), driver_eager: *mode == EAGER };
    let answer = nudge(&process.settings, &instance);
    if answer == Nudge::RegisterNow {
        *mode = EAGER;
        note_despite_lazy(loader, &path);
    }
    loader.answered(NudgeAnswer { object: path, fat_binaries: instance.fat_binaries, answer });
}

fn note_despite_lazy(loader: &Loader, path: &str) {
    if environment::present_text("CUDA_MODULE_LOADING").is_some_and(|v| v.eq_ignore_ascii_case("LAZY")) {
        loader.note(format!(
            "despite CUDA_MODULE_LOADING=LAZY, the runtime in {path} registers its libraries at start; \
             the driver stays lazy (LAZYGUARD_NUDGE=0 leaves it alone)"
        ));
    }
}

pub fn driver_is_eager() -> bool {
    driver::told(0, |mode| driver::loading_mode(mode)) == Some(EAGER)
}

fn path_of(map: &LinkMap) -> String {
    match map.path().to_bytes() {
        b"" => files::program().map_or_else(|| "the program".to_owned(), |path| path.display().to_string()),
        path => String::from_utf8_lossy(path).into_owned(),
    }
}

fn fat_binaries(map: &LinkMap) -> u64 {
    let own = fat_binaries_in(map.path().to_bytes());
    if own > 0 {
        return own;
    }
    let dynamic = map.dynamic();
    let Some(soname) = dynamic.soname() else { return 0 };
    let mut path = Vec::with_capacity(LONGEST_PATH);
    (0..).map_while(|number| path_of_user(soname, number, &mut path).then(|| fat_binaries_in(&path))).sum()
}

/// The path of an object of this number that needs this one; `false` behind the last. It may be unloaded after the visit.
fn path_of_user(soname: &CStr, number: usize, path: &mut Vec<u8>) -> bool {
    let mut users = 0;
    path.clear();
    objects::find(|object| {
        users += usize::from(object.dynamic().needed().any(|needed| needed == soname));
        (users > number).then(|| path.extend(object.path().to_bytes().iter().take(LONGEST_PATH)))
    })
    .is_some()
}

fn fat_binaries_in(object: &[u8]) -> u64 {
    let path = match object {
        // The link leads also to a deleted file.
        b"" if Path::new(PROGRAM).exists() => Some(PROGRAM.into()),
        b"" => files::program(),
        path => Some(OsStr::from_bytes(path).into()),
    };
    let file = path.and_then(|path| files::open(path).ok()).map(InFile);
    file.and_then(|file| section_bytes(&file, ".nvFatBinSegment")).map_or(0, |bytes| bytes / WRAPPER)
}
