//! `lazyguard run`: the program in this process's place, with the library preloaded.

use crate::{Failure, Outcome};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Replaces this process with the program. Returns only if that cannot be done.
pub(crate) fn run(library: Option<PathBuf>, program: &[String]) -> Outcome {
    let library = find_library(library)?;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::Input("no program was given".to_owned()));
    };
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let error = Command::new(name).args(arguments).env("LD_PRELOAD", preload).exec();
    eprintln!("lazyguard: cannot run {name}: {error}");
    Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
}

/// The library: the one that was named, else the one beside this command.
pub(crate) fn find_library(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => path,
        None => std::env::current_exe()
            .map_err(|error| Failure::Input(format!("cannot tell where this command is: {error}")))?
            .with_file_name("liblazyguard.so"),
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
