//! `lazyguard install`: copies this command and its library into a folder, as an init container does without a shell. Each copy is complete
//! before it gets its name.
//!
//! Must not: write to a file that is in use.

use crate::machine::files;
use crate::machine::library::{self, LIBRARY};
use crate::words::{print, write_line, Failure, Outcome};
use std::path::{Path, PathBuf};
use std::{fs, io};

const COMMAND: &str = "lazyguard";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder, which is made if missing. Files there with the names of the copies are replaced.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

pub(crate) fn install(arguments: &Arguments) -> Outcome {
    let command = library::own_command()
        .map_err(|error| Failure::Input(format!("cannot tell where this command is: {error}")))?;
    let library = library::find(None)?;
    library::look_into(&library).map_err(Failure::Input)?;
    let failed = |path: &Path, error: io::Error| Failure::at(path, error);
    let to = &arguments.to;
    fs::create_dir_all(to).map_err(|error| failed(to, error))?;
    print(|out| {
        // The library first: a command without its library would fail.
        for (file, name) in [(&library, LIBRARY), (&command, COMMAND)] {
            let written = files::read(file).map_err(|error| failed(file, error))?;
            let path = to.join(name);
            files::replace(&path, &written, Some(0o755)).map_err(|error| failed(&path, error))?;
            write_line!(out, "{}", path.display())?;
        }
        Ok(())
    })
}
