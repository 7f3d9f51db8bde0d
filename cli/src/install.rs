//! `lazyguard install`: copies this command and its library into a folder.
//!
//! An init container of an image that holds nothing else runs it: it needs no shell, no `cp` and no C library.
//!
//! Protocol: each copy is complete before it gets its name, by a rename. So a process that starts meanwhile has the old file or the new one,
//! and a file that is in use is never written to.
//!
//! Must not: follow a link that has the name of a copy.

use crate::files;
use crate::library::{self, LIBRARY};
use crate::output::{write_line, Output};
use crate::{Failure, Outcome};
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The command's name.
const COMMAND: &str = "lazyguard";

/// Where to.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder, which is made if missing. Files there with the names of the copies are replaced.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

/// Copies both, and prints their paths.
pub(crate) fn install(arguments: &Arguments) -> Outcome {
    let command = library::own_command()
        .map_err(|error| Failure::Input(format!("cannot tell where this command is: {error}")))?;
    let library = library::find(None)?;
    library::look_into(&library).map_err(Failure::Input)?;
    let failed = |path: &Path, error: io::Error| Failure::Input(format!("{}: {error}", path.display()));
    let to = &arguments.to;
    fs::create_dir_all(to).map_err(|error| failed(to, error))?;
    let mut out = Output::standard();
    // The library first: a command without its library would fail.
    for (file, name) in [(&library, LIBRARY), (&command, COMMAND)] {
        let written = files::read(file).map_err(|error| failed(file, error))?;
        let path = to.join(name);
        copy(&written, &path).map_err(|error| failed(&path, error))?;
        write_line!(out, "{}", path.display())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a program or a library, with a name that nothing has until it is complete.
fn copy(content: &[u8], path: &Path) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let unfinished = path.with_file_name(name);
    let result = files::create_new(&unfinished).and_then(|mut file| {
        file.write_all(content)?;
        // As a program's: whatever the mask of this process is, others run it.
        file.set_permissions(Permissions::from_mode(0o755))?;
        fs::rename(&unfinished, path)
    });
    if result.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_copy_replaces_a_file_and_a_link_and_leaves_what_the_link_led_to() {
        let root = std::env::temp_dir().join(format!("lazyguard-install-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let (path, other) = (root.join("file"), root.join("other"));
        fs::write(&other, "other").unwrap();
        symlink(&other, &path).unwrap();
        for content in ["first", "second"] {
            copy(content.as_bytes(), &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        fs::create_dir(root.join("folder")).unwrap();
        assert!(copy(b"", &root.join("folder")).is_err(), "a folder is not replaced");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 3, "nothing unfinished stays");
        fs::remove_dir_all(&root).unwrap();
    }
}
