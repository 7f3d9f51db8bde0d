//! One run of the program under a schedule: a `lazyguard run` of its own, which ends it if it hangs.
//!
//! Must not: write the program's output between this command's lines. It goes into a file beside the run's folder.

use super::schedule::{Points, Schedule};
use crate::judge::judged::Status;
use crate::judge::seen::Hung;
use crate::machine::{files, system};
use crate::run::{inherited_signals, wait_for, Caught, Tree, ATTEMPT};
use crate::words::{exit_code, Failure};
use lazyguard_core::report::MARK;
use lazyguard_core::settings::literal_folder;
use lazyguard_core::Nanos;
use rustix::process::{waitpid, Pid, WaitOptions, WaitStatus};
use serde_json::Value;
use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(super) struct Runner {
    /// The folder with each run's folder and files.
    pub root: PathBuf,
    /// Options of `lazyguard run`.
    pub options: Vec<OsString>,
    pub program: Vec<OsString>,
    pub caught: Caught,
    pub tree: Tree,
    /// How the run ended in which a signal ended it.
    pub interrupted: Cell<Option<WaitStatus>>,
}

#[derive(Clone, Default)]
pub(super) struct Ran {
    pub code: u8,
    /// As the findings have it: `exited`, `ended on hang`; empty where the program was not started.
    ended: String,
    /// The last line of its output.
    last_line: String,
    pub nanos: Nanos,
    pub hung: Option<Hung>,
    /// The functions of the blocked calls, and of the calls that they wait for.
    pub concerned: Vec<String>,
    /// By rank, and without one where there is only one; among several processes without one, the one with the most calls.
    pub ranks: Vec<Points>,
    pub hazards: Vec<HazardSeen>,
    /// The most processes with calls that ran one after the other: a schedule may hold each of them.
    pub in_turn: u64,
}

#[derive(Clone)]
pub(super) struct HazardSeen {
    pub key: String,
    pub thread: u32,
    /// When the call was entered, and when the other operation was submitted.
    pub at: [Nanos; 2],
    pub rank: String,
}

const MOST_OF_A_LINE: usize = 200;

impl Ran {
    pub fn has_exited(&self) -> bool {
        self.ended == "exited"
    }

    /// How it ended without a hang to report, in words.
    pub fn end(&self) -> String {
        match self.ended.as_str() {
            "" => format!("did not start: {}", self.last_line),
            "ended on hang" => "was ended for a hang that was over when its report was read".to_owned(),
            "timed out" => "was ended after the time of --timeout".to_owned(),
            _ => format!("ended with exit code {}", self.code),
        }
    }

    /// The same with the last line of its output.
    pub fn how(&self) -> String {
        match self.last_line.is_empty() || self.ended.is_empty() {
            true => self.end(),
            false => format!("{}; its last line: {}", self.end(), self.last_line),
        }
    }
}

impl Runner {
    pub fn schedule(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.schedule"))
    }

    /// Makes a run; a failure if a signal ends it. `more` are further options of `lazyguard run`, which override the common ones.
    pub fn run(&self, name: &str, schedule: &Schedule, more: &[OsString]) -> Result<Ran, Failure> {
        let file = |extension: &str| self.root.join(format!("{name}.{extension}"));
        let (hung, found, output) = (file("hung"), file("json"), file("output"));
        // The run would write behind it.
        if fs::symlink_metadata(self.root.join(name)).is_ok_and(|about| about.is_symlink()) {
            return Err(Failure::Input(format!(
                "{}: it is a symbolic link, and none is followed",
                self.root.join(name).display()
            )));
        }
        files::write(&hung, "[]")?;
        files::write(&self.schedule(name), &schedule.text())?;
        let both = files::create_in(&self.root, &format!("{name}.output"))
            .and_then(|output| Ok((output.try_clone()?, output)));
        let (out, error) = both.map_err(|error| Failure::at(&output, error))?;
        let own = std::env::current_exe().map_err(|error| Failure::at("this command", error))?;
        let folder = literal_folder(&self.root.join(name).display().to_string());
        let mut command = Command::new(own);
        command.args(["run", "--annotations", "off", "--keep", "--out", &folder]).arg(ATTEMPT).arg(&hung);
        command.arg("--schedule").arg(self.schedule(name)).args(&self.options).args(more);
        if !more.iter().any(|option| option == "--json") {
            command.arg("--json").arg(&found);
        }
        command.arg("--").args(&self.program).stdin(Stdio::null()).stdout(out).stderr(error);
        system::begins_with(&mut command, inherited_signals());
        let child = command.spawn().map_err(|error| Failure::at("lazyguard run", error))?;
        let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let child = child.ok_or_else(|| Failure::Input("lazyguard run has no number".to_owned()))?;
        let (status, interrupted) = wait_for(child, &self.caught)?;
        // Daemons of the program would stay, one for each run.
        self.tree.end();
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
        if interrupted {
            self.interrupted.set(Some(status));
            self.forget(name);
            return Err(Failure::Input("ended by a signal".to_owned()));
        }
        let code = status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::OWN_FAILURE);
        let written = more.iter().position(|option| option == "--json").map(|at| PathBuf::from(&more[at + 1]));
        let text = files::read_text(written.unwrap_or(found)).unwrap_or_default();
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        let said = files::read_lossy(output).unwrap_or_default();
        // The program's own, or where it did not start, why not.
        let counts = |line: &&str| !line.is_empty() && (found.is_null() || !line.starts_with(MARK));
        let last_line = said.lines().map(str::trim).rfind(counts).unwrap_or_default().trim_start_matches(MARK);
        // A program may have this code too.
        if code == exit_code::OWN_FAILURE && found["run"]["exit_code"] != code {
            return Err(Failure::Input(match last_line {
                "" => "a run failed".to_owned(),
                line => line.to_owned(),
            }));
        }
        let mut ran = read(&found);
        (ran.code, ran.last_line) = (code, last_line.chars().take(MOST_OF_A_LINE).collect());
        let all: Vec<Hung> = files::json_in(&self.root, &format!("{name}.hung")).unwrap_or_default();
        // A program may exit with the same code.
        let has_hung = code == exit_code::HANG && !ran.has_exited();
        ran.hung = all.into_iter().next().filter(|_| has_hung);
        Ok(ran)
    }

    pub fn forget(&self, name: &str) {
        // A file that stays costs space until the root goes.
        let _ = fs::remove_dir_all(self.root.join(name));
        for extension in ["hung", "json", "output", "schedule"] {
            let _ = fs::remove_file(self.root.join(format!("{name}.{extension}")));
        }
    }
}

/// The findings of a run, as `--json` writes them.
fn read(found: &Value) -> Ran {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let root = PathBuf::from(text(&found["root"]));
    let (mut ranks, mut concerned, mut lives) = (Vec::<Points>::new(), Vec::new(), Vec::new());
    for process in all(&found["processes"]) {
        let points = Points::read(&root.join(text(&process["folder"])), &text(&process["rank"]));
        let number = |key: &str| process[key].as_u64().unwrap_or(0);
        let since = number("armed_unix_ns");
        // One that leaves by `_exit` tells no time.
        lives.extend(points.calls.last().map(|last| [since, since + last.at.max(number("nanos"))]));
        match ranks.iter_mut().find(|known| known.rank == points.rank) {
            Some(known) if known.calls.len() < points.calls.len() => *known = points,
            Some(_) => {}
            None => ranks.push(points),
        }
        let hang = &process["hang"];
        let culprits = all(&hang["verdicts"]).into_iter().flat_map(|verdict| all(&verdict["culprits"]));
        let culprits = culprits.map(|culprit| culprit["operation"].clone());
        // Hazards are named without the symbol's version.
        let plain = |call: Value| text(&call["call"]).split("_v").next().unwrap_or_default().to_owned();
        concerned.extend(all(&hang["blocked"]).into_iter().chain(culprits).map(plain));
    }
    ranks.sort_by(|a, b| a.rank.cmp(&b.rank));
    if let [only] = &mut ranks[..] {
        only.rank.clear();
    }
    let hazard = |hazard: &Value| HazardSeen {
        key: text(&hazard["key"]),
        thread: hazard["first"]["thread"].as_u64().and_then(|thread| u32::try_from(thread).ok()).unwrap_or(0),
        at: ["at", "other_at"].map(|key| hazard["first"][key].as_u64().unwrap_or(0)),
        rank: text(&hazard["met_by"][0]["rank"]),
    };
    let counts = |hazard: &&Value| hazard["prevented"] != true && hazard["status"] == Status::New.word();
    let hazards = all(&found["hazards"]).iter().filter(counts).map(hazard).collect();
    let (ended, nanos) = (text(&found["run"]["ended"]), found["run"]["nanos"].as_u64().unwrap_or(0));
    Ran { ended, nanos, concerned, ranks, hazards, in_turn: in_turn(lives), ..Ran::default() }
}

fn in_turn(mut lives: Vec<[Nanos; 2]>) -> u64 {
    lives.sort_unstable_by_key(|[_, end]| *end);
    let mut last = 0;
    let follows = |[begin, end]: &&[Nanos; 2]| {
        let is_free = *begin >= last;
        last = if is_free { *end } else { last };
        is_free
    };
    lives.iter().filter(follows).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_run_one_after_the_other_are_told_from_those_side_by_side() {
        assert_eq!(in_turn(vec![]), 0);
        assert_eq!(in_turn(vec![[1, 9], [2, 8], [1, 10]]), 1, "ranks");
        assert_eq!(in_turn(vec![[20, 28], [1, 9], [10, 18], [10, 19], [1, 30]]), 3, "a script of ranks");
    }

    #[test]
    fn a_process_with_calls_lives_until_its_last_one_at_least() {
        let root = std::env::temp_dir().join(format!("lazyguard-once-{}", std::process::id()));
        for (folder, points) in [("a", "50 1 cuMemFree@218%a#1 0 -\n"), ("b", "5 1 cuMemFree@218%a#1 0 -\n"), ("c", "")]
        {
            fs::create_dir_all(root.join(folder)).unwrap();
            files::write(&root.join(folder).join("points"), points).unwrap();
        }
        let process =
            |folder: &str, since: u64| serde_json::json!({"folder": folder, "armed_unix_ns": since, "nanos": 9});
        let ran = |b: u64| {
            let processes = [process("a", 100), process("b", b), process("c", 500)];
            read(&serde_json::json!({"root": root, "processes": processes})).in_turn
        };
        assert_eq!((ran(130), ran(160)), (1, 2));
        fs::remove_dir_all(root).unwrap();
    }
}
