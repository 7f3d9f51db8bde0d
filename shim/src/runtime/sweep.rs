//! Private folders that processes have left which ended without an exit, and without a hang: a few are kept, for a day.
//!
//! Containers that share their memory (`--ipc=host`) or their temporary files see each other's folders and not each other's
//! processes. So a folder's name also says in which namespace its process has its number. Of another one, the recording tells
//! whether the process is alive: it is stamped ten times a second.
//!
//! Must not: take away what a living process has, whoever it belongs to; or look at many folders, for a program is starting.

use super::folder::{RunFolder, HANG, TRACE};
use lazyguard_core::place::{private_namespace, private_prefix};
use lazyguard_core::trace::layout::{header, HEADER_BYTES, WORD};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the private folder of a process that ended without an exit, and without a hang, is kept; and of how many.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
const MOST_KEPT: usize = 8;
/// The most folders looked at.
const MOST_SWEPT: usize = 256;
/// For how long a process may not have stamped its recording and still be alive.
const SILENT: Duration = Duration::from_secs(60);

/// The namespace in which this process has its number, as much of it as a name holds.
pub fn namespace() -> u16 {
    let link = fs::read_link("/proc/self/ns/pid").ok();
    let name = link.as_deref().and_then(Path::to_str).unwrap_or_default();
    let number = name.trim_start_matches("pid:[").trim_end_matches(']').parse::<u64>();
    number.map_or(0, |number| number as u16)
}

/// Takes away this user's private folders that hold no report, of processes that left by `_exit` or were killed, but for the
/// newest. `own` is this process's namespace.
pub fn sweep(base: &Path, user: u32, own: u16) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let prefix = private_prefix(user, None);
    let ours = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).take(MOST_SWEPT);
    let mut without_report: Vec<_> = ours
        .filter_map(|entry| {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let process = name[prefix.len()..].split('-').next().unwrap_or_default();
            let here = !process.is_empty() && Path::new("/proc").join(process).exists();
            // Anybody may put something of such a name here: of a link, this is the link itself.
            let about = entry.metadata().ok().filter(|about| about.is_dir() && about.uid() == user)?;
            let since = about.modified().ok()?;
            let alive = here || private_namespace(&name) != Some(own) && is_stamped(&path, since);
            (!alive && !path.join(HANG).exists()).then_some((since, path))
        })
        .collect();
    without_report.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
    // The process that is starting leaves a folder as well.
    for (kept, (since, path)) in without_report.iter().enumerate() {
        if kept + 1 >= MOST_KEPT || since.elapsed().is_ok_and(|age| age > KEPT) {
            RunFolder::remove(path);
        }
    }
}

/// Whether a process that cannot be seen from here has stamped its recording lately. Where that is no file, its folder may have
/// stood as it is for as long as such folders are kept.
fn is_stamped(folder: &Path, since: SystemTime) -> bool {
    let mut bytes = [0; HEADER_BYTES];
    // Whatever it is, opening it waits for nobody.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(TRACE));
    let opened = opened.and_then(|file| file.metadata().map(|about| (about.is_file(), file)));
    let read = match opened {
        Ok((true, file)) => file.read_exact_at(&mut bytes, 0),
        Ok((false, _)) => return false,
        Err(error) => Err(error),
    };
    if read.is_err() {
        return since.elapsed().map_or(true, |age| age <= KEPT);
    }
    let word = |number: usize| bytes[number * WORD..][..WORD].try_into().map_or(0, u64::from_le_bytes);
    let stamped = word(header::ARMED_UNIX_NANOS).saturating_add(word(header::LAST_SEEN));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(stamped)) <= SILENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::place::private_suffix;
    use std::path::PathBuf;

    /// No process has this number: it is beyond what the kernel gives.
    const NOBODY: u32 = 4_194_999;

    fn user() -> u32 {
        fs::metadata("/proc/self").unwrap().uid()
    }

    struct Base(PathBuf);

    impl Base {
        fn folder(&self, process: u32, namespace: u16, random: u16, stamped_ago: Option<u64>) -> PathBuf {
            let path = self.0.join(private_prefix(user(), Some(process)) + &private_suffix(namespace, random));
            fs::create_dir(&path).unwrap();
            if let Some(ago) = stamped_ago {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
                let mut words = vec![0u64; HEADER_BYTES / WORD];
                words[header::LAST_SEEN] = 5_000_000_000;
                words[header::ARMED_UNIX_NANOS] = now - 5_000_000_000 - ago * 1_000_000_000;
                let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                fs::write(path.join(TRACE), bytes).unwrap();
            }
            path
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_a_living_process_has_stays_also_if_it_cannot_be_seen() {
        let base = Base(std::env::temp_dir().join(format!("lazyguard-sweep-{}", std::process::id())));
        fs::create_dir(&base.0).unwrap();
        let living: Vec<_> = (0..10).map(|n| base.folder(NOBODY, 2, n, Some(1))).collect();
        let without_a_recording: Vec<_> = (0..3).map(|n| base.folder(NOBODY, 3, n, None)).collect();
        let own: Vec<_> = (0..3).map(|n| base.folder(std::process::id(), 1, n, Some(3600))).collect();
        let dead_here: Vec<_> = (0..10).map(|n| base.folder(NOBODY, 1, n, Some(1))).collect();
        let dead_elsewhere: Vec<_> = (10..20).map(|n| base.folder(NOBODY, 2, n, Some(3600))).collect();
        // Whoever puts something in the way holds nobody up.
        let in_the_way = base.folder(NOBODY, 4, 1, None).join(TRACE);
        assert!(std::process::Command::new("mkfifo").arg(&in_the_way).status().unwrap().success());
        sweep(&base.0, user(), 1);
        let there = |folders: &[PathBuf]| folders.iter().filter(|folder| folder.exists()).count();
        assert_eq!((there(&living), there(&without_a_recording), there(&own)), (10, 3, 3));
        assert!(there(&dead_here) + there(&dead_elsewhere) < MOST_KEPT);
    }

    #[test]
    fn the_namespace_is_that_of_this_process() {
        let known = fs::read_link("/proc/self/ns/pid").is_ok();
        assert_eq!(namespace() != 0, known);
        assert_eq!(namespace(), namespace());
    }
}
