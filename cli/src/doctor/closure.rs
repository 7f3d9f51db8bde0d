//! A program with all the libraries that it is linked with, directly and through others.
//!
//! Libraries that the program opens while it runs are not included.

use super::linker::{handed_on, Linker, Place};
use crate::elf::Elf;
use std::collections::{HashSet, VecDeque};

/// More than any program has.
const MOST: usize = 1024;

/// A library that is needed and not there.
pub(super) struct Missing {
    pub name: String,
    pub needed_by: String,
}

/// See the module.
pub(super) struct Closure {
    /// The program first, then its libraries, the nearest first. The dynamic linker itself is left out.
    pub files: Vec<Elf>,
    pub missing: Vec<Missing>,
    /// Drivers that are linked, each with the file that is linked with it.
    pub drivers: Vec<(Place, String)>,
}

impl Closure {
    pub fn of(program: Elf, linker: &Linker<'_>) -> Self {
        let mut found = Self { files: Vec::new(), missing: Vec::new(), drivers: Vec::new() };
        let mut seen = HashSet::new();
        let mut waiting = VecDeque::from([(program, Vec::new())]);
        while let Some((file, inherited)) = waiting.pop_front() {
            for name in &file.needed {
                let is_driver = is_driver(name);
                // The linker loads a name once. A driver is still noted for each file: RPATH may find a different one.
                if name.starts_with("ld-linux") || !is_driver && !seen.insert(name.clone()) || seen.len() > MOST {
                    continue;
                }
                match linker.find_for(name, &file, &inherited) {
                    Some(place) if is_driver => found.drivers.push((place, file.name())),
                    Some(place) => {
                        // An unreadable library is skipped here.
                        if let Ok(library) = Elf::read(&place.path) {
                            waiting.push_back((library, handed_on(&file, &inherited)));
                        }
                    }
                    None if is_driver => {}
                    None => found.missing.push(Missing { name: name.clone(), needed_by: file.name() }),
                }
            }
            found.files.push(file);
        }
        found
    }

    /// The program itself.
    pub fn program(&self) -> Option<&Elf> {
        self.files.first()
    }

    /// The files that are linked with the driver.
    pub fn linked_with_driver(&self) -> impl Iterator<Item = &Elf> {
        self.files.iter().filter(|file| file.needed.iter().any(|name| is_driver(name)))
    }

    /// Whether this needs a driver: something in it is linked with one, calls one, has code for a device, or opens one by name.
    pub fn needs_driver(&self) -> bool {
        self.linked_with_driver().next().is_some()
            || self.files.iter().any(|file| {
                file.has_device_code
                    || file.names_the_driver
                    || file.symbols.iter().any(|symbol| !symbol.defined && !symbol.weak && symbol.is_the_drivers())
            })
    }
}

fn is_driver(name: &str) -> bool {
    name == "libcuda.so" || name.starts_with("libcuda.so.")
}
