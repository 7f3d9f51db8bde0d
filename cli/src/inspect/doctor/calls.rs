//! How a program and its libraries reach the driver, and what of that goes past the guard.
//!
//! The dynamic linker looks a name up in the program first, then in what is preloaded, then in the libraries.

use super::closure::Closure;
use super::driver::Driver;
use super::finding::Findings;
use crate::machine::Elf;
use lazyguard_core::preload::{nudge, Nudge, RuntimeInstance};
use lazyguard_core::settings::Settings;

pub(super) fn look(closure: &Closure, driver: Option<&Driver>, settings: &Settings, found: &mut Findings) {
    for (needed_by, name) in &closure.missing {
        found.problem(
            format!("{name}, which {needed_by} needs, is not found: the program does not start"),
            "set LD_LIBRARY_PATH to its folder, or install it",
        );
    }
    for (place, file) in closure.files.iter().enumerate() {
        followed(file, closure, found);
        own_functions(file, place == 0 && !file.is_library, driver, found);
        // A CUDA runtime calls `dlmopen` for profilers only.
        let is_a_runtimes = file.fat_binaries > 0 || file.is_named("libcudart");
        if file.imports("dlmopen") && !is_of_the_c_library(file) && !is_a_runtimes {
            found.note(format!("{} can open libraries in a namespace of their own (dlmopen): a driver that is opened there is not seen", file.name()),
                "see in `lazyguard report` that driver calls are counted",
            );
        }
    }
    let is_cudas = |file: &&Elf| ["libcudart.so", "libnccl.so"].iter().any(|name| file.is_named(name));
    for file in closure.files.iter().filter(is_cudas) {
        found.ok(format!("{} is {}", file.name(), file.path.display()));
    }
    device_code(closure, settings, found);
    if !closure.needs_driver() {
        found.note("neither the program nor a library that it is linked with knows the driver; what it opens or starts later may",
            "give that to the doctor as well: a program, or a library's file",
        );
    }
}

fn is_of_the_c_library(file: &Elf) -> bool {
    ["libc.so", "libdl.so", "libpthread.so", "ld-linux"].iter().any(|name| file.is_named(name))
}

fn followed(file: &Elf, closure: &Closure, found: &mut Findings) {
    let asked: Vec<_> = file.symbols.iter().filter(|symbol| !symbol.defined && symbol.is_the_drivers()).collect();
    if asked.is_empty() {
        return;
    }
    let followed = asked.iter().filter(|symbol| symbol.is_followed()).count();
    let linked = closure.linked_with_driver().any(|linked| linked.path == file.path);
    let linked = if linked { "" } else { ", and is not linked with it" };
    let counts = format!("{followed} of its driver functions are followed, and {} not", asked.len() - followed);
    found.ok(format!("{} calls the driver directly{linked}: {counts}", file.name()));
}

/// Names of the driver that a file defines itself. The guard takes the place of the driver's own functions alone.
fn own_functions(file: &Elf, is_program: bool, driver: Option<&Driver>, found: &mut Findings) {
    let is_the_driver = file.is_named("libcuda.so") || driver.is_some_and(|driver| driver.file == file.path);
    if is_the_driver || is_of_the_c_library(file) {
        return;
    }
    let name = file.name();
    if is_program && file.exports("dlsym") {
        found.problem(format!("{name} defines dlsym itself, and comes before everything that is preloaded: what it looks up goes past the guard"),
            "build it without a dlsym of its own",
        );
    }
    let exported = file.symbols.iter().filter(|symbol| symbol.defined && symbol.is_followed());
    let exported: Vec<_> = exported.map(|symbol| symbol.name.as_str()).collect();
    if let Some(first) = exported.first() {
        found.note(format!(
                "{name} defines {} names of the driver itself ({first}, …): references to them stay as they are and are not seen; what \
                 they hand on by dlsym or cuGetProcAddress is",
                exported.len()
            ),
            "see in `lazyguard report` that driver calls are counted",
        );
    }
}

fn device_code(closure: &Closure, settings: &Settings, found: &mut Findings) {
    let most = settings.nudge_fat_binaries;
    for file in closure.files.iter().filter(|file| file.has_device_code) {
        let (name, count) = (file.name(), file.fat_binaries);
        let binaries = if count == 1 { "fat binary" } else { "fat binaries" };
        let runtime = match file.imports("__cudaRegisterFatBinary") {
            true => "the shared CUDA runtime",
            false => "a CUDA runtime of its own",
        };
        if count == 0 {
            found.ok(format!("{name} holds device code that no CUDA runtime registers; it loads it itself"));
            continue;
        }
        let holds = format!("{name} holds {count} {binaries}, with {runtime}");
        let why = match nudge(settings, &RuntimeInstance { fat_binaries: count, driver_eager: false }) {
            Nudge::RegisterNow => {
                found.ok(format!("{holds}: all are registered at start (LAZYGUARD_NUDGE is {most})"));
                continue;
            }
            Nudge::TooMany => format!("more than LAZYGUARD_NUDGE ({most})"),
            Nudge::PolicyLeavesAlone | Nudge::NothingFound | Nudge::AlreadyEager => {
                "and LAZYGUARD_PRELOAD is not auto".to_owned()
            }
        };
        found.note(format!(
                "{holds}, {why}: kernels of a translation unit that is first used under a persistent kernel are not preloaded"
            ),
            format!("LAZYGUARD_PRELOAD=auto and LAZYGUARD_NUDGE={count}, if that happens; the first start then takes longer"),
        );
    }
}
