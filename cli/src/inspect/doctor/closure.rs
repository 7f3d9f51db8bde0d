//! A program with all the libraries that it is linked with, directly and through others.
//!
//! Libraries that the program opens while it runs are not included.

use super::loader::{Answer, LOADER};
use crate::machine::{own_machine, says, Elf};
use std::path::{Path, PathBuf};

pub(super) struct Closure {
    /// The program first, then its libraries, the nearest first. Neither the dynamic linker nor the driver is among them.
    pub files: Vec<Elf>,
    /// Libraries that are not found, each behind the first file that needs it.
    pub missing: Vec<(String, String)>,
    pub driver: Option<PathBuf>,
}

/// The glibc linker that loads a file; `None` where that is another one, or none of this machine.
pub(super) fn loader_of(file: &Elf) -> Option<&Path> {
    let loader = file.interpreter.as_deref().or(file.is_library.then_some(Path::new(LOADER)))?;
    (file.machine == own_machine() && file.other_loader().is_none() && loader.exists()).then_some(loader)
}

impl Closure {
    pub fn of(program: Elf) -> Self {
        let answer = loader_of(&program).map(|loader| Answer::of(loader, &program.path, "")).unwrap_or_default();
        let (drivers, libraries): (Vec<_>, Vec<_>) = answer.found.into_iter().partition(|(name, _)| is_driver(name));
        let libraries = libraries.iter().filter_map(|(_, file)| Elf::read(file).ok());
        let files: Vec<_> = std::iter::once(program).chain(libraries).collect();
        let needed_by = |name: &String| files.iter().find(|file| file.needed.contains(name)).map(Elf::name);
        let missing = answer.missing.into_iter().filter(|name| !is_driver(name));
        let missing = missing.map(|name| (needed_by(&name).unwrap_or_else(|| "a library".to_owned()), name)).collect();
        Self { missing, driver: drivers.into_iter().next().map(|(_, file)| file), files }
    }

    pub fn program(&self) -> Option<&Elf> {
        self.files.first()
    }

    pub fn linked_with_driver(&self) -> impl Iterator<Item = &Elf> {
        self.files.iter().filter(|file| file.needed.iter().any(|name| is_driver(name)))
    }

    /// Whether this needs a driver: something in it is linked with one, calls one, has code for a device, or opens one by name.
    pub fn needs_driver(&self) -> bool {
        self.linked_with_driver().next().is_some()
            || self.files.iter().any(|file| {
                file.has_device_code
                    || file.symbols.iter().any(|symbol| !symbol.defined && !symbol.weak && symbol.is_the_drivers())
                    || says(&file.path, "libcuda.so")
            })
    }
}

fn is_driver(name: &str) -> bool {
    name == "libcuda.so" || name.starts_with("libcuda.so.")
}
