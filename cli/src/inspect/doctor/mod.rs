//! Says what the guard will and will not see, here and in a program, before it is needed.
//!
//! Each finding is `ok`, `note` or `problem`, and for the last two says what to do. Exit code 0 if there is no problem, else 1.
//!
//! Must not: load the driver or the program into this process, or leave anything behind.

mod calls;
mod closure;
mod devices;
mod driver;
mod finding;
mod folder;
mod gpu_dump;
mod kernel;
mod limits;
mod loader;
mod machine;
mod preloaded;
pub(crate) mod program;
pub(crate) mod sanitizer;
mod start;

use crate::machine::{library, own_machine, Elf};
use crate::words::on_hang::KILL;
use crate::words::{Format, Outcome};
use closure::{loader_of, Closure};
use finding::{About, Findings};
use lazyguard_core::settings::{Settings, ON_HANG, SETTINGS};
use loader::{Answer, LOADER};
use machine::Machine;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use start::child as start_driver;

/// Examines this machine and, where one is named, a program; `library` is what the user has named.
pub(crate) fn examine(
    library: Option<PathBuf>,
    program: Option<&Path>,
    start_limit: Duration,
    format: Format,
) -> Outcome {
    let machine = Machine::this();
    let mut found = Findings::default();
    let settings = settings(&machine, &mut found);
    let library = self::library(library, found.about(About::Library));

    let mut about_program = Findings::default();
    let about_program = about_program.about(About::Program);
    let program = program.and_then(|name| program::read(&machine, name, about_program));
    let closure = program.map(Closure::of);
    found.needed = closure.as_ref().is_some_and(Closure::needs_driver);

    let preloaded = preloaded(&machine, closure.as_ref().and_then(Closure::program), library.as_ref());
    let linked = closure.as_ref().and_then(|closure| closure.driver.clone());
    let driver = driver::look(&machine, &preloaded, linked, found.about(About::Driver));
    devices::look(&machine, driver.as_ref().is_some_and(|driver| !driver.is_simulated), found.about(About::Devices));
    // A driver for another machine does not start on this one.
    let own = driver.as_ref().filter(|driver| driver.elf.machine == own_machine());
    let devices = own.map(|own| start::look(own, start_limit, found.about(About::Start))).unwrap_or_default();
    preloaded::look(&machine, &preloaded, found.about(About::Preloaded));
    folder::look(&machine, &settings, found.about(About::Folder));
    limits::look(&machine, &settings, found.about(About::Limits));
    kernel::look(found.about(About::Kernel));
    gpu_dump::look(&machine, &settings, &devices, found.about(About::Settings));
    if let Some((closure, program)) = closure.as_ref().and_then(|closure| Some((closure, closure.program()?))) {
        let libc = closure.files.iter().find(|file| file.soname.as_deref() == Some("libc.so.6"));
        if program::bears(&machine, program, library.as_ref(), libc, about_program) {
            calls::look(closure, driver.as_ref(), &settings, about_program);
            sanitizer::look(&machine, closure, about_program);
        }
    }
    found.append(about_program);
    found.print(format)
}

/// The files for the names in `LD_PRELOAD` and for the driver, by the folders that the program names.
fn preloaded(machine: &Machine, program: Option<&Elf>, library: Option<&Elf>) -> Answer {
    let names = format!("{} {}", machine.told("LD_PRELOAD").unwrap_or_default(), driver::NAME);
    let of_program = program.and_then(|program| Some((loader_of(program)?, program.path.as_path())));
    let other = library.map_or(Path::new("/bin/sh"), |library| library.path.as_path());
    let (loader, file) = of_program.unwrap_or((Path::new(LOADER), other));
    Answer::of(loader, file, &names)
}

fn library(named: Option<PathBuf>, found: &mut Findings) -> Option<Elf> {
    const NAME_IT: &str = "name it with --library FILE, or put liblazyguard.so beside this command or into ../lib";
    let path = library::find(named).map_err(|failure| (failure.to_string(), NAME_IT));
    let unfit = |why| (why, "take the one that was built with this command");
    let elf = path.and_then(|path| library::look_into(&path).map_err(unfit));
    let elf = elf.map_err(|(what, todo)| found.problem(what, todo)).ok()?;
    let needs = elf.glibc.map(|(a, b)| format!(", which needs glibc {a}.{b}")).unwrap_or_default();
    found.ok(format!("{}{needs}", elf.path.display()));
    Some(elf)
}

fn settings(machine: &Machine, found: &mut Findings) -> Settings {
    // `lazyguard run` acts on `kill` itself, and does not pass it to the guard.
    let of_run = |name: &str, value: &str| name == ON_HANG && value.trim() == KILL;
    let (settings, complaints) = Settings::read(machine.texts().filter(|(name, value)| !of_run(name, value)));
    if machine.told(ON_HANG).is_some_and(|value| of_run(ON_HANG, &value)) {
        found.note(
            format!("{ON_HANG}={KILL} is understood by `lazyguard run` alone"),
            "start the program with `lazyguard run`, or say abort",
        );
    }
    let count = complaints.len();
    for complaint in complaints {
        found.problem(complaint, "correct or unset it; `lazyguard run --help` has what there is");
    }
    if !settings.enabled {
        found.note("LAZYGUARD=off: the guard leaves every call untouched", "unset it");
    }
    let set = SETTINGS.iter().filter_map(|row| Some(format!("{}={}", row.name, machine.told(row.name)?)));
    let set: Vec<_> = set.collect();
    match (count, set.is_empty()) {
        (0, true) => found.ok("all settings have their defaults"),
        (0, false) => found.ok(format!("set here: {}", set.join(" "))),
        _ => {}
    }
    settings
}
