//! What the environment, the system or the driver loads into programs beside the guard.

use super::finding::{About, Findings};
use super::linker::Linker;
use super::machine::Machine;
use crate::elf::Elf;

/// The guard's own file name.
const OWN: &str = "liblazyguard.so";

/// Examines everything that is preloaded.
pub(super) fn look(machine: &Machine, linker: &Linker<'_>, found: &mut Findings) {
    let by_environment = names(&machine.told("LD_PRELOAD").unwrap_or_default());
    let by_system = names(&without_comments(&machine.text("/etc/ld.so.preload").unwrap_or_default()));
    if by_environment.is_empty() && by_system.is_empty() {
        found.ok(About::Preloaded, "nothing else is preloaded");
    }
    for (place, names) in [("LD_PRELOAD", &by_environment), ("/etc/ld.so.preload", &by_system)] {
        for (position, name) in names.iter().enumerate() {
            one(name, place, position, linker, found);
        }
    }
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
            found.note(About::Preloaded, format!("{name}={value}: {what}"), todo);
        }
    }
    if machine.told("CUDA_MODULE_LOADING").is_some_and(|mode| mode.eq_ignore_ascii_case("EAGER")) {
        found.note(
            About::Preloaded,
            "CUDA_MODULE_LOADING=EAGER: the driver loads everything at start; there is nothing left to preload",
            "unset it: the guard prevents the deadlocks of lazy loading without its price",
        );
    }
}

fn one(name: &str, place: &str, position: usize, linker: &Linker<'_>, found: &mut Findings) {
    let file_name = name.rsplit('/').next().unwrap_or(name);
    if file_name == OWN && place == "LD_PRELOAD" {
        return match position {
            0 => found.ok(About::Preloaded, format!("{place} has the guard already: {name}")),
            _ => found.note(
                About::Preloaded,
                format!("{place} has the guard behind another library: {name}"),
                "put it first, so that it sees the calls as the program makes them",
            ),
        };
    }
    let elf = linker.find(name).and_then(|place| Elf::read(&place.path).ok());
    let Some(elf) = elf else {
        return found.note(
            About::Preloaded,
            format!(
                "{place} names {name}, which cannot be loaded: the dynamic linker says so at each start, and goes on"
            ),
            "correct the name, or take it out",
        );
    };
    let stands_between: Vec<_> = elf
        .symbols
        .iter()
        .filter(|symbol| symbol.defined && (symbol.name == "dlsym" || symbol.is_the_drivers()))
        .map(|symbol| symbol.name.as_str())
        .collect();
    match stands_between.first() {
        None => found.note(
            About::Preloaded,
            format!("{place} names {name}, which gets between no driver call"),
            "put liblazyguard.so first all the same",
        ),
        Some(first) => found.note(
            About::Preloaded,
            format!(
                "{place} names {name}, which gets between programs and the driver as well ({first}{}): behind the guard its \
                 own look-ups are not asked, before it the guard sees its calls instead of the program's",
                match stands_between.len() {
                    1 => String::new(),
                    more => format!(" and {} more functions", more - 1),
                }
            ),
            "put liblazyguard.so first, and see in `lazyguard report` that driver calls are counted; else run without the other",
        ),
    }
}

/// The linker splits at colons and at blanks.
fn names(list: &str) -> Vec<String> {
    list.split([':', ' ', '\t', '\n']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split('#').next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use crate::elf::own_machine;

    #[test]
    fn what_is_preloaded_is_named_and_the_guards_place_matters() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-preloaded-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc")).unwrap();
        let seen = |environment: &[(&str, &str)]| {
            let machine = Machine::played(&root, environment);
            let mut found = Findings::default();
            look(&machine, &Linker::new(&machine, own_machine()), &mut found);
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
}
