//! The marker of a job: a file by which a process that hangs reaches the other processes of its job. `lazyguard run` asks its descendants itself;
//! processes of other launchers or machines share only the folder that `LAZYGUARD_OUT` names. A process belongs to the job where its launcher gives it
//! a rank, or once it is a rank of a communicator of NCCL.
//!
//! Protocol: the log's thread makes the file, empty. The watchdog writes a line into it when it reports a hang (the time, the machine, the process and its
//! rank), and once more when it fails its blocked calls: with the word `fail`, or with `revoke:` and the ids of the communicators. The last line wins, and
//! keeps the former ids. A process whose calls wait for the revokes adds its ranks to the count behind each id. The others' log threads see another line than
//! before, but for those counts, and answer as they answer the last request for a report ([`super::requests`]). A second line, which begins with `late`, is
//! the question of a rank that waits for its peers: the others say what they do, by files
//! beside the marker ([`super::statements`]). Each look opens the file: at an open, a network file system asks its server.
//!
//! Must not: believe a file that another user can write, or be used on a thread of the program's.

use super::run_folder::{self, RunFolder};
use crate::runtime::{clock, door, environment, files};
use lazyguard_core::late::QUESTION;
use lazyguard_core::run_folder::file::OF_A_JOB;
use lazyguard_core::settings::{self, OnHang, Settings};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// The ranks of a job report one hang one after the other: no second answer within this time.
const ONE_HANG: Nanos = 60_000_000_000;
/// Most answers of a process, which Python's stacks fork.
const MOST_ANSWERS: u32 = 3;
/// Ends the line of a process that fails its blocked calls.
const FAILS: &[u8] = b" fail\n";
const MOST_BYTES: u64 = 2048;
const HOLDS_WITHIN_MS: u32 = 50;

pub struct Marker {
    path: PathBuf,
    look_every: Nanos,
    /// Whether the others' hangs and failures are read as well: `lazyguard run` asks its descendants itself.
    hears_hangs: bool,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// An answer to a hang is due.
    pub answer: bool,
    /// The other process fails its blocked calls.
    pub fails: bool,
    /// A rank that waits asks what this process does.
    pub asks: bool,
}

const REVOKES: &str = " revoke:";

/// A communicator that is to be revoked, by its id, and how many ranks have acknowledged that.
pub type Acknowledged = (u64, u32);

#[derive(Default)]
struct Seen {
    begun: bool,
    /// The line of a hang, and that of a rank that waits.
    content: Vec<u8>,
    late: Vec<u8>,
    next_look: Nanos,
    answers: u32,
    quiet_until: Nanos,
}

impl Marker {
    /// `None` where the process shares no folder.
    pub fn of(folder: Option<&RunFolder>, settings: &Settings) -> Option<Self> {
        let shared = folder?.shared.clone();
        // The ids of communicators are in markers alone.
        let hears_hangs = shared.is_some() || settings.on_hang == OnHang::Revoke;
        let of_run = || folder?.of_run().filter(|_| hears_hangs || settings.waits_for_late_ranks());
        let folder = shared.or_else(of_run)?;
        // A folder of every user's, such as `/tmp`.
        let is_everybodys = fs::metadata(&folder).is_ok_and(|about| about.mode() & 0o1002 == 0o1002);
        let job = settings::job(environment::present_text);
        let marker = || Self { hears_hangs, ..Self::in_folder(&folder, job.as_deref(), settings) };
        (!is_everybodys).then(marker)
    }

    fn in_folder(folder: &Path, job: Option<&str>, settings: &Settings) -> Self {
        let path = folder.join(of_a_job(OF_A_JOB, job));
        Self { path, look_every: settings.marker_nanos(), hears_hangs: true, seen: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the process belongs to a job: the file is there.
    pub fn has_begun(&self) -> bool {
        lock(&self.seen).begun
    }

    /// Makes the file, unless it is there, and notes its content, an earlier hang.
    pub fn begin_if(&self, is_of_a_job: impl FnOnce() -> bool) {
        let mut seen = lock(&self.seen);
        if !seen.begun && is_of_a_job() {
            // Else another process makes it.
            let _ = self.open(&mut writing());
            let content = self.read().unwrap_or_default();
            let (hang, late) = parts(&content);
            (seen.begun, seen.content, seen.late) = (true, without_counts(hang), late.to_vec());
        }
    }

    /// Another process's news since the last look.
    pub fn look(&self, now: Nanos) -> Raised {
        let mut seen = lock(&self.seen);
        if !seen.begun || now < seen.next_look {
            return Raised::default();
        }
        seen.next_look = now + self.look_every;
        let Ok(content) = self.read() else { return Raised::default() };
        let (content, late) = parts(&content);
        let asks = late != seen.late;
        seen.late = late.to_vec();
        let content = without_counts(content);
        if content == seen.content || !self.hears_hangs {
            return Raised { asks, ..Raised::default() };
        }
        let answer = seen.answers < MOST_ANSWERS && now >= seen.quiet_until;
        if answer {
            seen.quiet_until = now + ONE_HANG;
            seen.answers += 1;
        }
        let fails = content.ends_with(FAILS) || revoked_in(&content).is_some();
        seen.content = content;
        Raised { answer, fails, asks }
    }

    pub fn raise(&self, process: u32, rank: &str, fails: bool) {
        self.write(process, rank, |before, since| match revoked_in(before) {
            Some((_, ids)) if !fails => revoking(&ids),
            // A process that hangs at the same time must not take that word back.
            _ if fails || is_failure_since(before, since) => FAILS.to_owned(),
            _ => b"\n".to_vec(),
        });
    }

    pub fn revoked(&self) -> Vec<Acknowledged> {
        self.read().ok().and_then(|content| Some(revoked_in(parts(&content).0)?.1)).unwrap_or_default()
    }

    /// So many ranks of this process acknowledge that each of these communicators is to be revoked.
    pub fn acknowledge(&self, ranks: &[Acknowledged]) {
        // The others wait longer for one that cannot write.
        let _ = self.rewrite(|content| {
            let (hang, late) = parts(content);
            let Some((head, mut all)) = revoked_in(hang) else { return content.to_vec() };
            for (id, count) in &mut all {
                *count += ranks.iter().filter(|(own, _)| own == id).map(|(_, more)| more).sum::<u32>();
            }
            [head, &revoking(&all), late].concat()
        });
    }

    /// Asks the others what they do. Each question is another line.
    pub fn ask(&self, process: u32, rank: &str) {
        let mut seen = lock(&self.seen);
        let line = [QUESTION, &line(process, rank), b"\n"].concat();
        if seen.begun && self.rewrite(|content| [parts(content).0, &line].concat()).is_ok() {
            seen.late = line;
        }
    }

    /// The ids are to be revoked by the others as well.
    pub fn raise_revoked(&self, process: u32, rank: &str, ids: &[u64]) {
        self.write(process, rank, |before, since| {
            let recent = Some(before).filter(|before| is_since(before, since)).and_then(revoked_in);
            let mut all = recent.map_or_else(Vec::new, |(_, ids)| ids);
            all.extend(ids.iter().map(|id| (*id, 0)));
            // The first one of an id has its count.
            all.sort_by_key(|(id, count)| (*id, Reverse(*count)));
            all.dedup_by_key(|(id, _)| *id);
            revoking(&all)
        });
    }

    /// `word` makes the line's end of the former line, and of the time since when that is of the same hang.
    fn write(&self, process: u32, rank: &str, word: impl FnOnce(&[u8], u64) -> Vec<u8>) {
        let mut seen = lock(&self.seen);
        if !seen.begun {
            return;
        }
        let since = (clock::unix_nanos() + clock::now()).saturating_sub(ONE_HANG);
        let mut own = Vec::new();
        let written = self.rewrite(|content| {
            let (before, late) = parts(content);
            own = [line(process, rank).as_slice(), &word(before, since)].concat();
            [&own, late].concat()
        });
        seen.content = written.map_or_else(|_| std::mem::take(&mut seen.content), |()| without_counts(&own));
    }

    fn rewrite(&self, content_of: impl FnOnce(&[u8]) -> Vec<u8>) -> io::Result<()> {
        let mut file = self.open(writing().read(true))?;
        hold(&file, libc::F_WRLCK);
        let content = content_of(&content(&file)?);
        file.rewind()?;
        file.write_all(&content)?;
        file.set_len(content.len() as u64)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let file = self.open(OpenOptions::new().read(true))?;
        hold(&file, libc::F_RDLCK);
        content(&file)
    }

    /// Opens the marker if only this user or the superuser can write it.
    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let file = files::open_with(&self.path, options, libc::O_NOFOLLOW)?;
        files::trusted(&file.metadata()?, "another user can write it")?;
        Ok(file)
    }
}

/// A name for a job, hidden: the folder is the user's.
pub fn of_a_job(name: &str, job: Option<&str>) -> String {
    job.map_or_else(|| name.to_owned(), |job| format!("{name}-{job}"))
}

/// The line of a hang, and that of a rank that waits.
fn parts(content: &[u8]) -> (&[u8], &[u8]) {
    let begins = |line: &[u8]| line.starts_with(QUESTION);
    let second = content.iter().position(|&b| b == b'\n').map_or(content.len(), |end| end + 1);
    content.split_at(if begins(content) { 0 } else { second })
}

fn line(process: u32, rank: &str) -> Vec<u8> {
    let now = clock::unix_nanos() + clock::now();
    format!("{now} {} {process} {rank}", run_folder::host_name()).into_bytes()
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

/// No other process writes it, or reads it meanwhile, until it is closed; for a short time at most, and not without locks.
fn hold(file: &File, kind: libc::c_int) {
    // SAFETY: a structure of integers.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    (whole.l_type, whole.l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    // SAFETY: the structure outlives the call, which does not wait.
    let is_held = || unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole) } == 0;
    for _ in 0..HOLDS_WITHIN_MS {
        if is_held() {
            return;
        }
        door::pause(Duration::from_millis(1));
    }
}

/// The end of a line, with the ids and their counts.
fn revoking(ids: &[Acknowledged]) -> Vec<u8> {
    let one = |(id, count): &Acknowledged| match count {
        0 => format!("{id:x}"),
        count => format!("{id:x}/{count}"),
    };
    let ids: Vec<_> = ids.iter().map(one).collect();
    format!("{REVOKES}{}\n", ids.join(",")).into_bytes()
}

/// A line by which its news is known.
fn without_counts(line: &[u8]) -> Vec<u8> {
    let Some((head, ids)) = revoked_in(line) else { return line.to_vec() };
    let ids: Vec<_> = ids.into_iter().map(|(id, _)| (id, 0)).collect();
    [head, &revoking(&ids)].concat()
}

/// Whether a line is of a process that fails its calls, and as new.
fn is_failure_since(line: &[u8], since: u64) -> bool {
    line.ends_with(FAILS) && is_since(line, since)
}

fn is_since(line: &[u8], since: u64) -> bool {
    let at = line.split(|&b| b == b' ').next().and_then(|time| std::str::from_utf8(time).ok()?.parse::<u64>().ok());
    at.is_some_and(|at| at >= since)
}

/// The line before the ids, and these with their counts.
fn revoked_in(line: &[u8]) -> Option<(&[u8], Vec<Acknowledged>)> {
    let (head, ids) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(REVOKES)?;
    let one = |text: &str| {
        let (id, count) = text.split_once('/').unwrap_or((text, "0"));
        Some((u64::from_str_radix(id, 16).ok()?, count.parse().ok()?))
    };
    Some((head.as_bytes(), ids.split(',').map(one).collect::<Option<_>>()?))
}

fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt as _};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-marker-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// A process's marker, which has begun.
        fn marker(&self, job: Option<&str>) -> Marker {
            let marker = Marker::in_folder(&self.0, job, &Settings::default());
            marker.begin_if(|| true);
            marker
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_hang_is_seen_by_the_others_of_the_job_and_not_by_the_process_itself() {
        let folder = Folder::new("seen");
        let [hangs, other] = [(); 2].map(|()| folder.marker(Some("slurm-17")));
        let later = Marker::in_folder(&folder.0, Some("slurm-17"), &Settings::default());
        later.begin_if(|| false);
        let foreign = folder.marker(Some("slurm-18"));
        assert!(!other.look(0).answer);
        later.raise(4244, "2", false);
        assert!(!later.look(SECOND).answer, "a process of no job");
        hangs.raise(4242, "0", false);
        later.begin_if(|| true);
        assert!(!other.look(SECOND).answer, "it looks again too soon");
        assert!(other.look(2 * SECOND).answer);
        for (marker, at) in [(&hangs, 0), (&foreign, 0), (&later, 0), (&other, 4 * SECOND)] {
            assert!(!marker.look(at).answer, "{}", marker.path.display());
        }
        other.raise(4243, "1", false);
        assert!(hangs.look(6 * SECOND).answer && !other.look(6 * SECOND).answer);
    }

    #[test]
    fn a_hang_that_many_ranks_report_is_answered_once_and_a_process_answers_three_times() {
        let folder = Folder::new("often");
        let (hangs, other) = (folder.marker(None), folder.marker(None));
        let answers = (0..100).filter(|again| {
            hangs.raise(4242, &again.to_string(), false);
            other.look(again * 10 * SECOND).answer
        });
        assert_eq!(answers.collect::<Vec<_>>(), [0, 6, 12]);
    }

    #[test]
    fn what_another_user_can_write_and_what_is_no_file_is_not_believed() {
        let folder = Folder::new("trust");
        let marker = folder.marker(None);
        assert!(marker.read().is_ok());
        for mode in [0o620, 0o602, 0o666] {
            fs::set_permissions(&marker.path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(marker.read().is_err() && marker.open(&mut writing()).is_err(), "{mode:o}");
        }
        fs::remove_file(&marker.path).unwrap();
        fs::write(folder.0.join("file"), "another hang\n").unwrap();
        symlink(folder.0.join("file"), &marker.path).unwrap();
        assert!(marker.read().is_err() && marker.open(&mut writing()).is_err(), "a link");
        fs::remove_file(&marker.path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&marker.path).status().unwrap().success());
        assert!(marker.read().is_err() && marker.open(&mut writing()).is_err(), "a FIFO");
        assert!(!marker.look(0).answer);
        marker.raise(4242, "0", false);
        assert_eq!(fs::read(folder.0.join("file")).unwrap(), b"another hang\n");
    }

    #[test]
    fn the_question_of_a_rank_that_waits_and_the_line_of_a_hang_stand_side_by_side() {
        let folder = Folder::new("asks");
        let [waits, other, third] = [(); 3].map(|()| folder.marker(None));
        let asks = Raised { answer: false, fails: false, asks: true };
        waits.ask(4242, "0");
        assert_eq!((other.look(0), waits.look(0)), (asks, Raised::default()));
        waits.ask(4242, "0");
        assert_eq!(other.look(2 * SECOND), asks, "it asks again");
        assert_eq!(other.look(4 * SECOND), Raised::default());
        other.raise(4243, "1", true);
        waits.ask(4242, "0");
        assert_eq!(third.look(0), Raised { answer: true, fails: true, asks: true }, "no line takes the other back");
        let by_run = Marker { hears_hangs: false, ..Marker::in_folder(&folder.0, None, &Settings::default()) };
        by_run.begin_if(|| true);
        other.raise(4243, "1", true);
        waits.ask(4242, "0");
        assert_eq!(by_run.look(0), asks, "`lazyguard run` asks for the rest");
    }

    #[test]
    fn a_folder_that_is_gone_costs_nothing() {
        let folder = Folder::new("gone");
        let marker = folder.marker(None);
        fs::remove_dir_all(&folder.0).unwrap();
        marker.raise(4242, "0", false);
        assert!(!marker.look(0).answer && !folder.0.exists());
    }

    #[test]
    fn the_communicators_that_several_processes_revoke_are_named_together() {
        let folder = Folder::new("revokes");
        let [first, second, third] = [(); 3].map(|()| folder.marker(None));
        assert!(third.revoked().is_empty());
        first.raise(4242, "0", false);
        assert!(third.revoked().is_empty());
        first.raise_revoked(4242, "0", &[0xab, 7]);
        assert_eq!(third.look(2 * SECOND), Raised { answer: true, fails: true, asks: false });
        second.raise_revoked(4243, "1", &[7, u64::MAX]);
        assert_eq!(third.revoked(), [7, 0xab, u64::MAX].map(|id| (id, 0)));
        third.look(4 * SECOND);
        second.acknowledge(&[(7, 1), (8, 1)]);
        first.acknowledge(&[(7, 2), (u64::MAX, 1)]);
        assert_eq!(third.revoked(), [(7, 3), (0xab, 0), (u64::MAX, 1)]);
        assert_eq!(third.look(6 * SECOND), Raised::default(), "an acknowledgement is no hang");
        third.raise(4244, "2", false);
        second.raise_revoked(4243, "1", &[7, 9]);
        let all = [(7, 3), (9, 0), (0xab, 0), (u64::MAX, 1)];
        assert_eq!(first.revoked(), all, "a later report of a hang keeps them");
        for damaged in [" revoke:", " revoke:\n", " revoke:xyz\n", " revoke:7,\n", " revoke:7/\n", " revoke:7/-1\n"] {
            assert_eq!(revoked_in(format!("1 node7 4242 0{damaged}").as_bytes()), None, "{damaged:?}");
        }
        // As many as there are entries for fit into what is read.
        let all: Vec<_> = (0..48).map(|n| u64::MAX - n).collect();
        first.raise_revoked(4242, "0", &all);
        third.acknowledge(&third.revoked().iter().map(|(id, _)| (*id, 1000)).collect::<Vec<_>>());
        assert_eq!(first.revoked().iter().filter(|(_, count)| *count >= 1000).count(), 51);
    }

    #[test]
    fn a_failure_on_purpose_is_for_all_of_the_job_also_while_others_report_hangs() {
        let folder = Folder::new("fails");
        let [hangs, other, third, late] = [(); 4].map(|()| folder.marker(None));
        hangs.raise(4242, "0", false);
        assert_eq!(other.look(2 * SECOND), Raised { answer: true, fails: false, asks: false });
        hangs.raise(4242, "0", true);
        assert_eq!(
            other.look(4 * SECOND),
            Raised { answer: false, fails: true, asks: false },
            "it has answered, and fails all the same"
        );
        third.raise(4243, "1", false);
        assert_eq!(
            late.look(4 * SECOND),
            Raised { answer: true, fails: true, asks: false },
            "the last line has taken the word back"
        );
        assert_eq!(late.look(8 * SECOND), Raised::default());
        let line = |age: u64, end: &str| format!("{} node7 4242 0{end}", 100 * SECOND - age * SECOND).into_bytes();
        assert!(
            is_failure_since(&line(10, " fail\n"), 50 * SECOND) && !is_failure_since(&line(60, " fail\n"), 50 * SECOND)
        );
        assert!(!is_failure_since(&line(10, "\n"), 50 * SECOND) && !is_failure_since(b"damaged fail\n", 0));
    }
}
