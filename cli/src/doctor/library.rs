//! The library that is preloaded.

use super::elf::{machine_name, own_machine, Elf};
use super::finding::{About, Findings};
use crate::run::find_library;
use std::path::PathBuf;

/// Finds it, and says whether it can be preloaded.
pub(super) fn look(named: Option<PathBuf>, found: &mut Findings) -> Option<Elf> {
    let path = match find_library(named) {
        Ok(path) => path,
        Err(failure) => {
            found.problem(
                About::Library,
                failure.to_string(),
                "name it with --library FILE, or put liblazyguard.so beside this command",
            );
            return None;
        }
    };
    let todo = "take the one that was built with this command";
    let elf = match Elf::read(&path) {
        Ok(elf) => elf,
        Err(error) => {
            found.problem(About::Library, format!("{} {error}", path.display()), todo);
            return None;
        }
    };
    if elf.machine != own_machine() {
        let (its, own) = (machine_name(elf.machine), machine_name(own_machine()));
        found.problem(About::Library, format!("{} is for {its}, and this is {own}", path.display()), todo);
        return None;
    }
    if !elf.exports("cuInit") || !elf.exports("dlsym") {
        found.problem(About::Library, format!("{} is not LazyGuard's library", path.display()), todo);
        return None;
    }
    let needs = elf.glibc.map(|(a, b)| format!(", which needs glibc {a}.{b}")).unwrap_or_default();
    found.ok(About::Library, format!("{}{needs}", path.display()));
    Some(elf)
}
