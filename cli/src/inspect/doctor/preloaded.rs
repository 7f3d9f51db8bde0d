//! The libraries that the environment, the system or the driver loads into programs beside the guard.
//!
//! docs/DOCTOR.md has which orders of LD_PRELOAD work; scripts/check-neighbours runs them.

use super::finding::Findings;
use super::loader::Answer;
use super::machine::Machine;
use crate::machine::library::LIBRARY;
use crate::machine::Elf;

pub(super) fn look(machine: &Machine, files: &Answer, found: &mut Findings) {
    let by_environment = names(&machine.told("LD_PRELOAD").unwrap_or_default());
    let system = machine.text("/etc/ld.so.preload").unwrap_or_default();
    let by_system: Vec<_> = system.lines().flat_map(|line| names(line.split('#').next().unwrap_or_default())).collect();
    if by_environment.is_empty() && by_system.is_empty() {
        found.ok("nothing else is preloaded");
    }
    let guard = by_environment.iter().position(|name| is_own(name));
    for (position, name) in by_environment.iter().enumerate() {
        match is_own(name) {
            true => own(name, position, found),
            false => one(name, "LD_PRELOAD", guard.map(|guard| guard < position), files, found),
        }
    }
    // The linker loads these behind those of the environment.
    by_system.iter().for_each(|name| one(name, "/etc/ld.so.preload", guard.map(|_| true), files, found));
    for (name, what, todo) in [
        (
            "CUDA_INJECTION64_PATH",
            "a tool is loaded into the driver as well; its calls pass untouched, and what it submits is not seen",
            "unset it if the guard's report misses work, or if the tool does not bear the guard",
        ),
        (
            "LD_AUDIT",
            "an auditor of the dynamic linker may bind calls past everything that is preloaded",
            "unset it if `lazyguard report` shows no driver calls",
        ),
    ] {
        if let Some(value) = machine.told(name) {
            found.note(format!("{name}={value}: {what}"), todo);
        }
    }
    if machine.told("CUDA_MODULE_LOADING").is_some_and(|mode| mode.eq_ignore_ascii_case("EAGER")) {
        found.note(
            "CUDA_MODULE_LOADING=EAGER: the driver loads everything at start; there is nothing left to preload",
            "unset it: the guard prevents the deadlocks of lazy loading without its price",
        );
    }
}

fn is_own(name: &str) -> bool {
    name.rsplit('/').next() == Some(LIBRARY)
}

fn own(name: &str, position: usize, found: &mut Findings) {
    match position {
        0 => found.ok(format!("LD_PRELOAD has the guard already: {name}")),
        _ => found.note(
            format!("LD_PRELOAD has the guard behind another library: {name}"),
            "put it first, so that it answers the look-ups of all others",
        ),
    }
}

/// `is_behind` says whether the linker loads it behind the guard; without the guard in `LD_PRELOAD`, `lazyguard run` puts that in front.
fn one(name: &str, place: &str, is_behind: Option<bool>, files: &Answer, found: &mut Findings) {
    let elf = match files.file(name).map(|file| Elf::read(&file)) {
        Ok(Ok(elf)) => elf,
        unreadable => {
            let why = unreadable.map_or_else(str::to_owned, |_| "its file cannot be read".to_owned());
            return found.note(
                format!(
                    "{place} names {name}, which cannot be loaded: {why}; the dynamic linker says so at each start"
                ),
                "correct the name, or take it out",
            );
        }
    };
    let drivers = elf.symbols.iter().filter(|symbol| symbol.defined && symbol.is_the_drivers());
    let drivers: Vec<_> = drivers.map(|symbol| symbol.name.as_str()).collect();
    let functions = match drivers[..] {
        [] => None,
        [one] => Some(format!("defines {one}")),
        [first, ..] => Some(format!("defines {} of the driver's functions ({first}, …)", drivers.len())),
    };
    let defines = match (functions, elf.exports("dlsym")) {
        (None, false) => {
            let what = "which defines neither functions of the driver nor dlsym: it gets between no driver call";
            return found.ok(format!("{place} names {name}, {what}"));
        }
        (Some(functions), false) => {
            let what = "both orders work; the guard sees what it calls of the driver";
            return found.ok(format!("{place} names {name}, which {functions}: {what}"));
        }
        (None, true) => "defines dlsym".to_owned(),
        (Some(functions), true) => format!("defines dlsym, and {functions}"),
    };
    let what = format!("{place} names {name}, which {defines}: it works behind the guard alone");
    match is_behind {
        Some(false) => found.problem(format!("{what}; here it is in front, and what programs look up goes past the guard"),
            "put liblazyguard.so first, or start the program with `lazyguard run`, which does",
        ),
        Some(true) => found.note(format!("{what}, as it is here"),
            "see in `lazyguard report` that driver calls are counted",
        ),
        None => found.note(what,
            "start the program with `lazyguard run`, which puts the guard in front; with LD_PRELOAD alone, name liblazyguard.so first",
        ),
    }
}

/// The linker splits at colons and at blanks.
fn names(list: &str) -> Vec<String> {
    list.split([':', ' ', '\t', '\n']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;
    use std::path::Path;

    #[test]
    fn what_is_preloaded_is_named_and_the_guards_place_matters() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-preloaded-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc")).unwrap();
        let seen = |environment: &[(&str, &str)]| {
            let machine = Machine::played(&root, environment);
            let mut found = Findings::default();
            look(&machine, &Answer::default(), &mut found);
            found.all().iter().map(|finding| (finding.level, finding.what.clone())).collect::<Vec<_>>()
        };
        assert_eq!(seen(&[])[0].0, Level::Ok);
        assert_eq!(seen(&[("LD_PRELOAD", " ")])[0].0, Level::Ok);
        let both = seen(&[("LD_PRELOAD", "/nowhere/libother.so:/x/liblazyguard.so")]);
        assert_eq!((both.len(), both[0].0, both[1].0), (2, Level::Note, Level::Note), "{both:?}");
        assert!(both[0].1.contains("cannot be loaded") && both[1].1.contains("behind"), "{both:?}");
        assert_eq!(seen(&[("LD_PRELOAD", "/x/liblazyguard.so")])[0].0, Level::Ok);
        std::fs::write(root.join("etc/ld.so.preload"), "# comment\n/nowhere/libsystem.so # another\n").unwrap();
        let system = seen(&[("CUDA_INJECTION64_PATH", "/t.so"), ("CUDA_MODULE_LOADING", "eager")]);
        assert_eq!(system.len(), 3, "{system:?}");
        assert!(system[0].1.contains("/etc/ld.so.preload names /nowhere/libsystem.so"), "{system:?}");
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_library_that_defines_nothing_of_the_drivers_is_well_in_any_order() {
        let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc =
            libc.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libgcc_s"));
        let library = libc.expect("Rust's programs load libgcc_s");
        for list in
            [library.to_owned(), format!("{library} /x/liblazyguard.so"), format!("/x/liblazyguard.so:{library}")]
        {
            let machine = Machine::played(Path::new("/"), &[("LD_PRELOAD", &list)]);
            let mut found = Findings::default();
            look(&machine, &Answer::default(), &mut found);
            let said = found.all().iter().find(|finding| finding.what.contains(library)).unwrap();
            assert_eq!(said.level, Level::Ok, "{said:?}");
        }
    }
}
