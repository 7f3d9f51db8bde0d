//! The result of a search: lines on standard error, the schedule, and the reports of the last run.

use super::options::as_options;
use super::schedule::Schedule;
use super::{limits, threshold_of_run, Explorer, Found, Ran, PLAIN_REPLAYS};
use crate::judge::explored::{EndedOtherwise, Explored, HazardExplored};
use crate::judge::PROVOKED;
use crate::machine::files;
use crate::run::EXPLORED;
use crate::words::output::say;
use crate::words::{exit_code, shell_word, Failure};
use lazyguard_core::api::counted;
use lazyguard_core::settings::Settings;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

impl Explorer {
    pub fn report(&mut self, found: &Found) -> Result<u8, Failure> {
        let (sentence, file) = (found.sentence(), self.runner.root.join("schedule"));
        files::write(&file, &format!("# {sentence}\n{}", found.schedule.text()))?;
        let with_preloading = match self.arguments.preload.as_str() {
            "off" => Some(self.runner.run("defaults", &found.schedule, &["--preload".into(), "auto".into()])?.hung),
            _ => None,
        };
        self.runner.forget("defaults");
        self.runner.forget(&format!("run-{}", found.run));
        self.progress.clear();
        say(sentence);
        found.ran.hung.iter().for_each(|hang| say(&hang.sentence));
        let Found { run, again, replays, .. } = found;
        say(format!("found in run {run} with seed {}; {again} of {replays} replays hung", self.seed));
        say(format!("again: {}", self.again(&file)));
        with_preloading.iter().for_each(|hung| {
            let what = if hung.is_some() { "hung as well" } else { "passed" };
            say(format!("with preloading, which is the default, the same schedule {what}"));
        });
        self.say_rest();
        say(format!("the hang is kept: lazyguard report {}", shell_word(self.runner.root.join("hang"))));
        Ok(exit_code::HANG)
    }

    fn again(&self, schedule: &Path) -> String {
        let mut words = ["lazyguard", "run", "--preload", &self.arguments.preload].map(OsString::from).to_vec();
        let threshold = self.arguments.hang_after.map(|_| limits(self.threshold, None));
        words.extend(threshold.into_iter().flatten());
        words.extend(["--schedule".into(), schedule.into(), "--".into()]);
        words.iter().chain(&self.runner.program).map(shell_word).collect::<Vec<_>>().join(" ")
    }

    pub fn nothing_found(&mut self) -> Result<u8, Failure> {
        for _ in 0..=PLAIN_REPLAYS {
            let hung = self.last("last", &Schedule::default(), &self.learned())?.hung;
            self.progress.clear();
            let Some(hang) = hung else {
                say(format!("no hang in {} with seed {}", counted(self.made, "run"), self.seed));
                self.say_rest();
                self.runner.forget("hang");
                self.end();
                return Ok(0);
            };
            say(format!("the last run, with no thread held, hung ({}): {}", hang.code, hang.sentence));
        }
        self.say_rest();
        say(format!("the hang is kept: lazyguard report {}", shell_word(self.runner.root.join("last"))));
        Ok(exit_code::HANG)
    }

    pub fn learned(&self) -> Explored {
        let hazards = self.hazards.iter().map(|(key, provoked)| (key.clone(), self.status(*provoked)));
        let hazards = hazards.map(|(key, explored)| HazardExplored { key, explored }).collect();
        let otherwise = self.otherwise.clone().into_iter().map(|(how, runs)| EndedOtherwise { how, runs }).collect();
        Explored { runs: self.made, seed: self.seed, hazards, otherwise, ..Explored::default() }
    }

    pub fn last(&self, name: &str, schedule: &Schedule, explored: &Explored) -> Result<Ran, Failure> {
        self.runner.forget(name);
        let file = self.runner.root.join("explored.json");
        files::write(&file, &serde_json::to_string(explored).unwrap_or_default())?;
        let mut more = as_options(self.arguments.written());
        more.extend([EXPLORED.into(), file.into()]);
        if self.arguments.hang_after.is_none() {
            let threshold = threshold_of_run().max(self.threshold);
            // Longer by the wait that may still end, which is a hang after several thresholds.
            let patience = Settings { hang_after_nanos: threshold, ..Settings::default() }.patience_nanos();
            more.extend(limits(threshold, self.timeout.map(|time| time + Duration::from_nanos(patience))));
        }
        self.runner.run(name, schedule, &more)
    }

    /// Runs that ended otherwise, hangs that do not count, and the hazards.
    pub fn say_rest(&self) {
        let (all, made) = (self.otherwise.values().sum::<u64>(), counted(self.made, "run"));
        if all > 0 {
            let each = self.otherwise.iter().map(|(how, runs)| format!("{runs} {how}"));
            let each = each.collect::<Vec<_>>().join("; ");
            say(format!("{all} of {made} ended otherwise than the first one: {each}"));
        }
        self.failed.iter().for_each(say);
        self.hazards.iter().for_each(|(key, provoked)| say(format!("{key}: {}", self.status(*provoked))));
    }

    fn status(&self, provoked: bool) -> String {
        match provoked {
            true => PROVOKED.to_owned(),
            false => format!("not provoked in {}", counted(self.made, "run")),
        }
    }

    pub fn end(&self) {
        if self.arguments.out.is_none() && self.failed.is_empty() {
            // An empty folder does no harm.
            let _ = std::fs::remove_dir_all(&self.runner.root);
        }
    }
}
