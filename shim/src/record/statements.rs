//! The statements of the job's processes about themselves while a rank waits (`lazyguard_core::late`): a file each, beside the job's marker.
//!
//! One that a killed process has left is removed by the next process of this machine that reads the folder.
//!
//! Must not: believe a file that another user can write, leave one at the end of the process, or be used on a thread of the program's but at exit.

use super::marker::Marker;
use super::run_folder;
use crate::runtime::files;
use lazyguard_core::evidence::Source;
use lazyguard_core::folder::entries_of;
use lazyguard_core::late::{self, Statement};
use lazyguard_core::report::json;
use lazyguard_core::run_folder::file::LATE;
use lazyguard_core::settings::Settings;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// More processes than a job has ranks on most machines; one that is not read may be late.
const MOST_READ: usize = 4096;

pub struct Statements {
    folder: PathBuf,
    /// Begins the names of the job's files.
    prefix: String,
    own: String,
    is_written: AtomicBool,
    has_ended: AtomicBool,
    /// The watchdog has found that this process waits for its peers itself, and writes the file.
    pub waits: AtomicBool,
}

impl Statements {
    pub fn beside(marker: &Marker, settings: &Settings) -> Option<Self> {
        Self::of(marker.path(), std::process::id()).filter(|_| settings.waits_for_late_ranks())
    }

    fn of(marker: &Path, process: u32) -> Option<Self> {
        let prefix = late::prefix(marker.file_name()?.to_str()?)?;
        let own = format!("{prefix}{}-{process}", run_folder::host_name());
        let (folder, no) = (marker.parent()?.to_owned(), || AtomicBool::new(false));
        Some(Self { folder, prefix, own, is_written: no(), has_ended: no(), waits: no() })
    }

    /// Writing it again changes the folder, so that a network file system lists it anew.
    pub fn write(&self, statement: &Statement) {
        let (to, fresh) = (self.folder.join(&self.own), self.folder.join(format!("{}{}", self.own, late::UNFINISHED)));
        // Without it, this process says nothing.
        let _ = files::replace(&to, &fresh, 0o600, &mut |file| file.write_all(json(statement).as_bytes()));
        self.is_written.store(true, Ordering::SeqCst);
        // The exiting thread has set it before it removed the file, or removes this one.
        if self.has_ended.load(Ordering::SeqCst) {
            self.remove();
        }
    }

    /// The process is at its end: no later file stays.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.remove();
    }

    pub fn remove(&self) {
        if self.is_written.swap(false, Ordering::SeqCst) {
            let _ = fs::remove_file(self.folder.join(&self.own));
        }
    }

    pub fn end_of_a_wait(&self) {
        self.waits.store(false, Ordering::Relaxed);
        self.remove();
    }

    /// The other processes' statements, by their files' names.
    pub fn others(&self) -> Vec<(String, Statement)> {
        let names = entries_of(&self.folder).filter_map(|entry| entry.name().to_str().map(str::to_owned));
        let others = names.filter(|name| name.starts_with(LATE) && *name != self.own).take(MOST_READ);
        let said: Vec<_> = others.filter_map(|name| Some((self.read(&name).ok()?, name))).collect();
        let (source, host) = (Source::machine(), run_folder::host_name());
        let (left, says): (Vec<_>, Vec<_>) =
            said.into_iter().partition(|(says, _)| says.is_of_a_former_process(&source, &host));
        left.iter().for_each(|(_, name)| drop(fs::remove_file(self.folder.join(name))));
        let of_this_job = |name: &str| name.starts_with(&self.prefix) && !name.ends_with(late::UNFINISHED);
        says.into_iter().filter(|(_, name)| of_this_job(name)).map(|(says, name)| (name, says)).collect()
    }

    fn read(&self, name: &str) -> io::Result<Statement> {
        let file = files::open_unlinked(&self.folder.join(name))?;
        files::trusted(&file.metadata()?, "another user can write it")?;
        let mut bytes = Vec::new();
        file.take(late::MOST_BYTES).read_to_end(&mut bytes)?;
        Statement::read(&bytes).ok_or_else(|| io::Error::other("it is no statement"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt as _};

    #[test]
    fn the_others_of_the_job_are_read_and_what_another_user_can_write_is_not() {
        let folder = std::env::temp_dir().join(format!("lazyguard-statements-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let of = |job: &str, process| Statements::of(&folder.join(format!(".lazyguard-hang{job}")), process).unwrap();
        let [own, other, third, of_another_job] = [of("-a", 1), of("-a", 2), of("-a", 3), of("-a-b", 4)];
        let says = |process: u32| Statement { process, moved: 7, ..Statement::default() };
        own.write(&says(1));
        other.write(&says(2));
        third.write(&says(3));
        of_another_job.write(&says(4));
        let begun = |process| Statement::of(&Source::machine(), String::new(), run_folder::host_name(), process);
        let own_process = begun(std::process::id());
        let killed = of("-b", 7);
        killed.write(&Statement { began: own_process.began + 1, ..own_process });
        let read = |by: &Statements| {
            let mut read: Vec<_> = by.others().into_iter().map(|(_, says)| (says.process, says.moved)).collect();
            read.sort_unstable();
            read
        };
        assert_eq!((read(&own), read(&of_another_job)), (vec![(2, 7), (3, 7)], vec![]));
        let path = |of: &Statements| folder.join(&of.own);
        assert!(!path(&killed).exists(), "its process is another one");
        fs::set_permissions(path(&other), fs::Permissions::from_mode(0o602)).unwrap();
        fs::rename(path(&third), folder.join("elsewhere")).unwrap();
        symlink(folder.join("elsewhere"), path(&third)).unwrap();
        assert_eq!(read(&own), []);
        fs::write(path(&of("-a", 5)), "{cut").unwrap();
        fs::write(folder.join(format!("{}.new", of("-a", 6).own)), json(&says(6))).unwrap();
        assert_eq!(read(&own), [], "damaged, and unfinished");
        own.remove();
        of("-a", 5).remove();
        assert!(!path(&own).exists() && path(&of("-a", 5)).exists(), "only one that it has written itself");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read(&own), []);
        own.write(&says(1));
        assert!(!folder.exists());
    }
}
