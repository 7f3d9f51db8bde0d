//! The doctor's findings, and how they are printed.

use crate::words::{print, write_line, Format, Outcome};
use serde::Serialize;
use std::process::ExitCode;

const SCHEMA: u32 = 1;

/// A finding's weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// The guard does less than it could, or behaviour may surprise.
    Note,
    /// The guard or the program does not work here.
    Problem,
}

/// A finding's subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum About {
    /// The library to preload.
    Library,
    /// The driver, and the guard's use of it.
    Driver,
    /// The device files, and `CUDA_VISIBLE_DEVICES`.
    Devices,
    /// The start of the driver.
    Start,
    /// Other preloaded libraries.
    Preloaded,
    /// Every `LAZYGUARD_` variable.
    #[default]
    Settings,
    /// The place of a run folder.
    Folder,
    /// Threads, core files, address space.
    Limits,
    /// Refused system calls and kernel files.
    Kernel,
    /// The program and its libraries.
    Program,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// How serious it is.
    pub level: Level,
    /// The subject.
    pub about: About,
    /// The finding.
    pub what: String,
    /// The change to make.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

/// The object that `lazyguard doctor --format json` prints.
#[derive(Serialize)]
struct Examination<'a> {
    /// 1; raised when a key changes its meaning or goes away.
    schema: u32,
    /// How many problems.
    problems: usize,
    /// How many notes.
    notes: usize,
    /// In the text's order.
    findings: &'a [Finding],
}

#[derive(Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    about: About,
    pub needed: bool,
}

impl Findings {
    pub fn about(&mut self, about: About) -> &mut Self {
        self.about = about;
        self
    }

    fn add(&mut self, level: Level, what: impl Into<String>, todo: Option<String>) {
        self.all.push(Finding { level, about: self.about, what: what.into(), todo });
    }

    pub fn ok(&mut self, what: impl Into<String>) {
        self.add(Level::Ok, what, None);
    }

    pub fn note(&mut self, what: impl Into<String>, todo: impl Into<String>) {
        self.add(Level::Note, what, Some(todo.into()));
    }

    pub fn problem(&mut self, what: impl Into<String>, todo: impl Into<String>) {
        self.add(Level::Problem, what, Some(todo.into()));
    }

    pub fn obstacle(&mut self, what: impl Into<String>, todo: impl Into<String>) {
        self.add(if self.needed { Level::Problem } else { Level::Note }, what, Some(todo.into()));
    }

    pub fn append(&mut self, others: &mut Self) {
        self.all.append(&mut others.all);
    }

    fn count_of(&self, level: Level) -> usize {
        self.all.iter().filter(|finding| finding.level == level).count()
    }

    pub fn print(&self, format: Format) -> Outcome {
        let (problems, notes) = (self.count_of(Level::Problem), self.count_of(Level::Note));
        print(|out| match format {
            Format::Json => Ok(out.json(&Examination { schema: SCHEMA, problems, notes, findings: &self.all })?),
            Format::Text => Ok(self.all.iter().try_for_each(|finding| {
                let (level, about) = (format!("{:?}", finding.level), format!("{:?}", finding.about));
                write_line!(out, "{:8} {}: {}", level.to_lowercase(), about.to_lowercase(), finding.what)?;
                out.lines(finding.todo.iter().map(|todo| format!("         do: {todo}")))
            })?),
        })?;
        Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Findings {
        pub fn all(&self) -> &[Finding] {
            &self.all
        }
    }
}
