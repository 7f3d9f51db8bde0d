//! How the processes under `lazyguard run` ended, which it writes into its mark, `supervised.json`.
//!
//! Must not: guess. A process that another parent reaped has no entry.

use crate::machine::files;
use lazyguard_core::api::counted;
pub(crate) use lazyguard_core::run_folder::file::MARK;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::low_level::signal_name;
use std::path::Path;

pub(crate) const KEY: &str = "ended";
/// How many ends have no room.
pub(crate) const LEFT_OUT: &str = "ended_left_out";

/// The most ends in a mark.
const MOST_ENDS: usize = 2048;
/// The most bytes of a mark's command, as JSON.
const MOST_OF_A_COMMAND: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    /// The process's number, as it is known to the process itself.
    pub process: u32,
    /// When it started, in clock ticks since boot: identifies it among processes with this id. `None` where it could not be read.
    pub start_ticks: Option<u64>,
    pub exit_code: Option<i32>,
    /// The signal that ended it. Both are `None` where another process reaped it.
    pub signal: Option<i32>,
    /// Whether `lazyguard run` asked it to end, or killed it.
    pub ended_by_run: bool,
    /// Whether a signal or a debugger had stopped it when `lazyguard run` came to end it.
    #[serde(default)]
    pub stopped: bool,
    /// When `lazyguard run` saw it, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// When `lazyguard run` was about to send it the first signal to end it, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_unix_ns: Option<u64>,
}

impl ProcessEnd {
    pub fn in_words(&self) -> String {
        match (self.ended_by_run, self.signal, self.exit_code) {
            (true, Some(signal), _) => format!("was ended by `lazyguard run`, by {}", signal_in_words(signal)),
            (true, None, Some(code)) => {
                format!("was told to end by `lazyguard run`, and ended with exit status {code}")
            }
            (true, None, None) => "was ended by `lazyguard run`".to_owned(),
            (false, Some(signal), _) => format!("was ended by {}", signal_in_words(signal)),
            (false, None, Some(code)) => format!("ended with exit status {code}"),
            (false, None, None) => UNKNOWN.to_owned(),
        }
    }
}

pub(crate) const UNKNOWN: &str = "ended, how is not known";

/// The end as the run has seen it, unless an orderly end with status 0 needs no more; else as the recording says.
pub(crate) fn words(seen: Option<ProcessEnd>, orderly: bool, recorded: impl FnOnce() -> String) -> String {
    let says_no_more = |end: &ProcessEnd| orderly && end.exit_code == Some(0) && !end.ended_by_run;
    seen.filter(|end| !says_no_more(end)).map_or_else(recorded, |end| end.in_words())
}

/// `signal 11 (SIGSEGV)`.
pub(crate) fn signal_in_words(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), |known| format!("signal {signal} ({known})"))
}

/// The ends for which a mark has room, in their order. Those of which a report says no more than the recording go first, and of each the oldest.
pub(crate) fn with_room<'a>(ends: &[&'a ProcessEnd]) -> Vec<&'a ProcessEnd> {
    let says_more = |end: &ProcessEnd| end.exit_code != Some(0) || end.ended_by_run;
    let mut places: Vec<usize> = (0..ends.len()).collect();
    places.sort_by_key(|place| (!says_more(ends[*place]), ends.len() - place));
    places.truncate(MOST_ENDS);
    places.sort_unstable();
    places.into_iter().map(|place| ends[place]).collect()
}

/// The command for which a mark has room: its last words and the end of a long one are left out, which the last word says.
pub(crate) fn command_with_room(command: &[String]) -> Vec<String> {
    let length = |word: &str| serde_json::to_string(word).map_or(0, |text| text.len() + ", ".len());
    let (mut kept, mut room) = (Vec::new(), MOST_OF_A_COMMAND);
    for word in command {
        let Some(left) = room.checked_sub(length(word)) else { break };
        room = left;
        kept.push(word.clone());
    }
    let left_out = command.len() - kept.len();
    if left_out > 0 {
        // A character takes six bytes at most; beyond that room is there for the command's own word.
        kept.extend(command.first().filter(|_| kept.is_empty()).map(|word| word.chars().take(4096).collect()));
        kept.push(format!("({} more)", counted(left_out, "word")));
    }
    kept
}

pub(crate) fn of(folder: &Path, process: u32, start_ticks: Option<u64>) -> Option<ProcessEnd> {
    let folder = folder.canonicalize().ok()?;
    // An unreadable mark is not reported: the process's folder may be intact.
    let mut mark: Value = files::json_in(folder.parent()?, MARK)?;
    let ended: Vec<ProcessEnd> = serde_json::from_value(mark.get_mut(KEY)?.take()).ok()?;
    let is_it = |end: &ProcessEnd| {
        let other = start_ticks.zip(end.start_ticks).is_some_and(|(own, its)| own != 0 && own != its);
        end.process == process && !other
    };
    ended.into_iter().rfind(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: ProcessEnd = ProcessEnd {
        process: 42,
        start_ticks: Some(7),
        exit_code: None,
        signal: Some(11),
        ended_by_run: false,
        stopped: false,
        at_unix_ns: 1,
        told_unix_ns: None,
    };

    #[test]
    fn the_end_of_a_process_is_found_in_the_mark_above_its_folder() {
        let root = std::env::temp_dir().join(format!("lazyguard-ends-{}", std::process::id()));
        let folder = root.join("rank0-42");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(of(&folder, 42, Some(7)), None);
        let earlier = ProcessEnd { start_ticks: Some(3), signal: None, exit_code: Some(0), ..END };
        let mark = serde_json::json!({ "schema": 1, KEY: [earlier, END] });
        std::fs::write(root.join(MARK), mark.to_string()).unwrap();
        assert_eq!(of(&folder, 42, Some(7)), Some(END));
        assert_eq!(of(&folder, 42, Some(3)), Some(earlier));
        assert_eq!(of(&folder, 42, None), Some(END), "the newest of this number");
        assert_eq!((of(&folder, 42, Some(8)), of(&folder, 43, None)), (None, None));
        std::fs::write(root.join(MARK), "{cut").unwrap();
        assert_eq!(of(&folder, 42, Some(7)), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_mark_with_any_command_and_any_number_of_ends_has_less_than_a_mebibyte() {
        let well = ProcessEnd { signal: None, exit_code: Some(0), start_ticks: Some(u64::MAX), ..END };
        let ends: Vec<_> = (0..100_000).map(|process| ProcessEnd { process, ..well }).collect();
        let (first, last) = (ProcessEnd { process: 1, ..END }, ProcessEnd { process: 99_999, ..well });
        let all: Vec<_> = [&first].into_iter().chain(&ends).collect();
        let kept = with_room(&all);
        assert_eq!((kept.len(), kept[0], kept[kept.len() - 1]), (MOST_ENDS, &first, &last), "a fault, and the newest");
        assert_eq!(with_room(&all[..3]), all[..3]);
        for command in [vec!["\u{1}".repeat(2 << 20); 3], vec!["\u{1}".repeat(100); 20_000]] {
            let command = command_with_room(&command);
            assert!(command[0].starts_with('\u{1}') && command.last().unwrap().ends_with(" more)"));
            let mark = serde_json::json!({ "command": command, KEY: kept });
            let length = format!("{mark:#}").len();
            assert!(length < 1 << 20, "{length}");
        }
        let whole = ["sh", "-c", "true"].map(str::to_owned);
        assert_eq!(command_with_room(&whole), whole);
    }

    #[test]
    fn every_end_has_its_words() {
        assert_eq!(END.in_words(), "was ended by signal 11 (SIGSEGV)");
        assert_eq!(ProcessEnd { signal: Some(35), ..END }.in_words(), "was ended by signal 35");
        let by_run = ProcessEnd { ended_by_run: true, ..END };
        assert_eq!(by_run.in_words(), "was ended by `lazyguard run`, by signal 11 (SIGSEGV)");
        assert_eq!(ProcessEnd { signal: None, ..by_run }.in_words(), "was ended by `lazyguard run`");
        assert_eq!(ProcessEnd { signal: None, exit_code: Some(3), ..END }.in_words(), "ended with exit status 3");
        assert_eq!(ProcessEnd { signal: None, ..END }.in_words(), UNKNOWN);
    }
}
