//! The guard's library, which is preloaded.

use super::finding::Findings;
use crate::elf::Elf;
use crate::library;
use std::path::PathBuf;

pub(super) fn look(named: Option<PathBuf>, found: &mut Findings) -> Option<Elf> {
    let path = match library::find(named) {
        Ok(path) => path,
        Err(failure) => {
            found.problem(
                failure.to_string(),
                "name it with --library FILE, or put liblazyguard.so beside this command or into ../lib",
            );
            return None;
        }
    };
    let elf = match library::look_into(&path) {
        Ok(elf) => elf,
        Err(why) => {
            found.problem(why, "take the one that was built with this command");
            return None;
        }
    };
    let needs = elf.glibc.map(|(a, b)| format!(", which needs glibc {a}.{b}")).unwrap_or_default();
    found.ok(format!("{}{needs}", path.display()));
    Some(elf)
}
