//! What the processes of a run that does not end are doing, for the message of the test that fails.
//!
//! Must not: fail. A process may end while it is looked at.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The threads of all processes of the group, a line each: its state, its processor time in ticks, where it sleeps in the kernel, and the
/// system call that it is in.
pub(crate) fn of_group(group: u32) -> String {
    let mut said = String::new();
    for process in numbers(Path::new("/proc")) {
        let folder = format!("/proc/{process}");
        let Some(stat) = Stat::of(&folder) else { continue };
        if stat.group != group {
            continue;
        }
        let command = fs::read(format!("{folder}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let command: String = command.chars().take(120).collect();
        let _ = writeln!(said, "process {process}, child of {}: {command}", stat.parent);
        for thread in numbers(Path::new(&format!("{folder}/task"))) {
            let folder = format!("{folder}/task/{thread}");
            let Some(Stat { name, state, ticks, .. }) = Stat::of(&folder) else { continue };
            let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            let (place, call) = (read("wchan"), read("syscall"));
            let _ = writeln!(
                said,
                "  {thread} ({name}) {state}, {ticks} ticks, in {place}, system call {}",
                call.trim_end()
            );
        }
    }
    said
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<_> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Fields of proc(5)'s `stat`.
struct Stat {
    name: String,
    state: String,
    parent: u32,
    group: u32,
    ticks: u64,
}

impl Stat {
    fn of(folder: &str) -> Option<Self> {
        let text = fs::read_to_string(format!("{folder}/stat")).ok()?;
        // The name may hold anything, parentheses too.
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<_> = after.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok());
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks: ticks(11)? + ticks(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn the_threads_of_a_group_are_told_with_their_states() {
        let mut sleeps = std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let group = sleeps.id();
        let says_it = || of_group(group).contains("(sleep) S, ");
        let seen = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            says_it()
        });
        let said = of_group(group);
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
        assert!(
            seen && said.starts_with(&format!("process {group}, child of {}: sleep 60", std::process::id())),
            "{said}"
        );
        assert_eq!(of_group(group), "");
    }
}
