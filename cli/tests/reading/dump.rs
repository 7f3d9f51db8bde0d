//! `lazyguard dump` of processes that do not answer. The end-to-end tests ask real ones, which do.

use super::process::blocked_process;
use super::{lazyguard, texts, Folder};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

const STATE: u64 = 7 * 8;
const ASKED: u64 = 26 * 8;
const ANSWERED: u64 = 27 * 8;

fn word(folder: &Folder, at: u64) -> u64 {
    let mut word = [0; 8];
    fs::File::open(folder.of("trace.lgt")).unwrap().read_exact_at(&mut word, at).unwrap();
    u64::from_le_bytes(word)
}

fn set(folder: &Folder, at: u64, value: u64) {
    let file = OpenOptions::new().write(true).open(folder.of("trace.lgt")).unwrap();
    file.write_all_at(&value.to_le_bytes(), at).unwrap();
}

/// The one line with which a dump fails.
fn refused(process: &str, more: &[&str]) -> String {
    let output = lazyguard(&[&["dump", process], more].concat()).output().unwrap();
    let (out, errors) = texts(&output);
    assert_eq!((output.status.code(), out.as_str(), errors.lines().count()), (Some(1), "", 1), "{errors}");
    errors
}

#[test]
fn an_older_library_is_not_asked() {
    let folder = Folder::new("older");
    let process = blocked_process(&folder, "LAZYGUARD_LOG=off");
    let line = refused(&process.id(), &[]);
    assert!(line.contains("does not take requests: its LazyGuard is older than this command"), "{line}");
    assert_eq!(word(&folder, ASKED), 0);
}

#[test]
fn one_that_does_not_answer_is_waited_for_as_long_as_is_said() {
    let folder = Folder::new("mute");
    let process = blocked_process(&folder, "LAZYGUARD_LOG=off");
    set(&folder, ANSWERED, 1);
    fs::set_permissions(folder.of("trace.lgt"), fs::Permissions::from_mode(0o400)).unwrap();
    let begin = Instant::now();
    let line = refused(&process.id(), &["--timeout", "300ms"]);
    assert!(line.contains("has not answered within 300ms"), "{line}");
    assert!((300..5000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    let (first, mode) = (word(&folder, ASKED), fs::metadata(folder.of("trace.lgt")).unwrap().permissions().mode());
    assert!(first > 1_700_000_000_000_000_000 && mode & 0o777 == 0o400, "{first} {mode:o}");
    // The number goes up, whatever the clock says.
    let ahead = u64::MAX / 4;
    set_past_the_mode(&folder, ahead);
    refused(&process.id(), &["--timeout", "10ms"]);
    // The request keeps the purpose of the number there, which no process has read.
    assert_eq!(word(&folder, ASKED), ahead + 4);
}

fn set_past_the_mode(folder: &Folder, value: u64) {
    fs::set_permissions(folder.of("trace.lgt"), fs::Permissions::from_mode(0o600)).unwrap();
    set(folder, ASKED, value);
    fs::set_permissions(folder.of("trace.lgt"), fs::Permissions::from_mode(0o400)).unwrap();
}

/// Another command asks at the same time, and overwrites this one's number with a smaller one.
#[test]
fn a_request_that_was_written_over_is_made_again_and_a_later_answer_will_do() {
    let folder = Folder::new("written_over");
    let process = blocked_process(&folder, "LAZYGUARD_LOG=off");
    set(&folder, ANSWERED, 1);
    let id = process.id();
    let asking = std::thread::spawn(move || lazyguard(&["dump", &id, "--timeout", "30s"]).output().unwrap());
    let raised = |least: u64| loop {
        let asked = word(&folder, ASKED);
        if asked > least {
            break asked;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let number = raised(0);
    fs::write(folder.of("dump.json"), format!("{{\"request\": {}}}", number - 1)).unwrap();
    set(&folder, ASKED, number - 1);
    assert!(raised(number - 1) >= number);
    fs::write(folder.of("dump.txt"), "as it is\n").unwrap();
    fs::write(folder.of("dump.json"), format!("{{\"request\": {}}}", number + 5)).unwrap();
    let output = asking.join().unwrap();
    assert_eq!((output.status.code(), texts(&output)), (Some(0), ("as it is\n".to_owned(), String::new())));
}

#[test]
fn a_guard_that_has_stepped_aside_is_not_waited_for() {
    let folder = Folder::new("aside");
    let process = blocked_process(&folder, "LAZYGUARD_LOG=off");
    set(&folder, ANSWERED, 1);
    set(&folder, STATE, 3);
    let begin = Instant::now();
    assert!(refused(&process.id(), &[]).contains("the guard has stepped aside"));
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_cannot_be_a_process_or_a_time_is_refused() {
    for arguments in [&["dump"][..], &["dump", "0"], &["dump", "train"], &["dump", "1", "--timeout", "soon"]] {
        assert_eq!(lazyguard(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}
