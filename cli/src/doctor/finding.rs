//! What the doctor has found, and how it is printed.

use crate::output::{write_line, Output};
use crate::Outcome;
use serde::Serialize;
use std::process::ExitCode;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// How findings are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A line a finding, and a line with what to do.
    Text,
    /// One JSON object.
    Json,
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    Settings,
    /// The place of a run folder.
    Folder,
    /// Threads, core files, address space, filtered system calls.
    Limits,
    /// Refused system calls and kernel files.
    Kernel,
    /// The program and its libraries.
    Program,
}

impl About {
    fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Driver => "driver",
            Self::Devices => "devices",
            Self::Start => "start",
            Self::Preloaded => "preloaded",
            Self::Settings => "settings",
            Self::Folder => "folder",
            Self::Limits => "limits",
            Self::Kernel => "kernel",
            Self::Program => "program",
        }
    }
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

/// What `lazyguard doctor --format json` prints.
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

/// What was found about one thing after the other.
#[derive(Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub fn ok(&mut self, about: About, what: impl Into<String>) {
        self.0.push(Finding { level: Level::Ok, about, what: what.into(), todo: None });
    }

    pub fn note(&mut self, about: About, what: impl Into<String>, todo: impl Into<String>) {
        self.0.push(Finding { level: Level::Note, about, what: what.into(), todo: Some(todo.into()) });
    }

    pub fn problem(&mut self, about: About, what: impl Into<String>, todo: impl Into<String>) {
        self.0.push(Finding { level: Level::Problem, about, what: what.into(), todo: Some(todo.into()) });
    }

    /// A problem where `in_the_way`, else a note.
    pub fn note_or_problem(
        &mut self,
        in_the_way: bool,
        about: About,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) {
        match in_the_way {
            true => self.problem(about, what, todo),
            false => self.note(about, what, todo),
        }
    }

    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    #[cfg(test)]
    pub fn all(&self) -> &[Finding] {
        &self.0
    }

    fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }

    /// Prints the findings. The exit code is a failure if one is a problem.
    pub fn print(&self, format: Format) -> Outcome {
        let mut out = Output::standard();
        match format {
            Format::Json => {
                let (problems, notes) = (self.count(Level::Problem), self.count(Level::Note));
                let all = Examination { schema: SCHEMA, problems, notes, findings: &self.0 };
                writeln!(out.raw(), "{:#}", serde_json::json!(all))?;
            }
            Format::Text => self.0.iter().try_for_each(|finding| {
                let level = match finding.level {
                    Level::Ok => "ok      ",
                    Level::Note => "note    ",
                    Level::Problem => "problem ",
                };
                write_line!(out, "{level} {}: {}", finding.about.name(), finding.what)?;
                finding.todo.iter().try_for_each(|todo| write_line!(out, "         do: {todo}"))
            })?,
        }
        out.flush()?;
        Ok(if self.count(Level::Problem) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
