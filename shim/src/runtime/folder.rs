//! The run folder.
//!
//! With `LAZYGUARD_OUT` it is where the user wants it, and stays. Without, it is a new folder under the system's folder for
//! temporary files, readable by its owner only, and a clean exit without a hang removes it. What a process leaves behind
//! that is killed or leaves by `_exit` is evidence; without a report of a hang, it is taken away after a day.
//!
//! No file is held open: a program may close descriptors that are not its own, and open its own files on their numbers.

use super::standard_error;
use lazyguard_core::settings::{expand_folder, FolderFacts};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names of the files in a run folder.
pub const LOG: &str = "log.jsonl";
/// The account of the run.
pub const RUN: &str = "run.json";
/// The report of the newest hang.
pub const HANG: &str = "hang.json";

/// Where the ranks of a job are told, by the launchers in use.
const RANKS: [&str; 5] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// See the module.
pub struct RunFolder {
    path: PathBuf,
    asked_for: bool,
}

impl RunFolder {
    /// Makes the folder, or says in one line why the one that was asked for could not be made.
    pub fn make(template: Option<&str>) -> Option<Self> {
        let process = std::process::id();
        match template {
            None => Self::private(process).map(|path| Self { path, asked_for: false }),
            Some(template) => match Self::wanted(template, process) {
                Ok(path) => Some(Self { path, asked_for: true }),
                Err(error) => {
                    standard_error::line(&format!(
                        "LAZYGUARD_OUT={template:?} cannot be used: {error}; keeping no files"
                    ));
                    None
                }
            },
        }
    }

    fn wanted(template: &str, process: u32) -> io::Result<PathBuf> {
        let host = host_name();
        let rank = RANKS.iter().find_map(|name| std::env::var(name).ok());
        let start_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let facts = FolderFacts { host: &host, process, rank: rank.as_deref(), start_seconds };
        let mut folder = std::path::absolute(expand_folder(template, &facts))?;
        fs::create_dir_all(&folder)?;
        if folder.join(LOG).exists() || folder.join(RUN).exists() {
            // Another process of the same job was given the same folder.
            folder.push(process.to_string());
            fs::create_dir_all(&folder)?;
        }
        // Taking the folder also finds out whether it can be written to.
        OpenOptions::new().append(true).create(true).open(folder.join(LOG))?;
        Ok(folder)
    }

    fn private(process: u32) -> Option<PathBuf> {
        // SAFETY: takes no arguments and cannot fail.
        let user = unsafe { libc::getuid() };
        let base = std::env::temp_dir();
        sweep(&base, &format!("lazyguard-{user}-"));
        let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
        (0..8).find_map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path = base.join(format!("lazyguard-{user}-{process}-{seed:08x}"));
            // Fails if the name exists: nobody else's folder or link is ever used.
            DirBuilder::new().mode(0o700).create(&path).ok().map(|()| path)
        })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces a file as a whole: a reader finds the former content or the new.
    pub fn replace(&self, name: &str, content: &str) -> io::Result<()> {
        let fresh = self.path.join(format!(".{name}.new"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&fresh)?;
        file.write_all(content.as_bytes())?;
        drop(file);
        fs::rename(&fresh, self.path.join(name))
    }

    /// Takes the folder away, unless it was asked for.
    pub fn remove_unless_asked_for(&self) {
        if self.asked_for {
            return;
        }
        for name in [LOG, RUN, HANG] {
            // What is not there needs no removing.
            let _ = fs::remove_file(self.path.join(name));
        }
        // Fails, and rightly, if somebody put something else there.
        let _ = fs::remove_dir(&self.path);
    }
}

/// How long the private folder of a process that ended without an exit, and without a hang, is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The most folders looked at: this is done while a program starts.
const MOST_SWEPT: usize = 256;

/// Takes away old private folders that hold no report: those of processes that left by `_exit` or were killed.
fn sweep(base: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let ours = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)).take(MOST_SWEPT);
    for entry in ours {
        let name = entry.file_name().to_string_lossy().into_owned();
        let alive = name[prefix.len()..].split('-').next().is_some_and(|p| Path::new("/proc").join(p).exists());
        let old = entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEPT));
        let folder = RunFolder { path: entry.path(), asked_for: false };
        if old && !alive && !folder.path.join(HANG).exists() {
            folder.remove_unless_asked_for();
        }
    }
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for writing; its last byte stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let end = name.iter().position(|&b| b == 0).unwrap_or(0);
    if failed || end == 0 {
        return "host".to_owned();
    }
    // A host name with a slash would lead elsewhere.
    String::from_utf8_lossy(&name[..end]).replace('/', "_")
}
