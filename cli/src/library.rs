//! The guard's library, which is preloaded: its path, and whether the file there is that library.
//!
//! Must not: load it.

use crate::elf::{machine_name, own_machine, Elf};
use crate::Failure;
use std::io;
use std::path::{Path, PathBuf};

/// Its name.
pub(crate) const LIBRARY: &str = "liblazyguard.so";

/// The path of this command; without `/proc`, from its argument 0.
pub(crate) fn own_command() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        let name = std::env::args_os().next().map(PathBuf::from).filter(|name| !name.as_os_str().is_empty());
        let Some(name) = name else { return Err(error) };
        if name.components().count() > 1 {
            return name.canonicalize();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|path| path.is_file());
        found.map_or(Err(error), |path| path.canonicalize())
    })
}

/// The library: the one that was named, else the one beside this command.
pub(crate) fn find(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => path,
        None => own_command()
            .map_err(|error| Failure::Input(format!("cannot tell where this command is: {error}")))?
            .with_file_name(LIBRARY),
    };
    // The dynamic linker looks a name without a slash up in its own places, and splits at colons and blanks.
    let path = path.canonicalize().map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    if path.to_string_lossy().contains([':', ' ']) {
        return Err(Failure::Input(format!(
            "{}: the dynamic linker cannot preload a path with a colon or a blank in it; use a copy or a link elsewhere",
            path.display()
        )));
    }
    Ok(path)
}

/// Its file; or why it cannot be preloaded here.
pub(crate) fn look_into(path: &Path) -> Result<Elf, String> {
    let elf = Elf::read(path).map_err(|error| format!("{} {error}", path.display()))?;
    if elf.machine != own_machine() {
        let (its, own) = (machine_name(elf.machine), machine_name(own_machine()));
        return Err(format!("{} is for {its}, and this is {own}", path.display()));
    }
    match elf.exports("cuInit") && elf.exports("dlsym") {
        true => Ok(elf),
        false => Err(format!("{} is not LazyGuard's library", path.display())),
    }
}
