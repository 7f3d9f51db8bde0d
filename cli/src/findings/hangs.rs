//! The hangs of a run, with what names them and where in the source they stand.

use super::collect::Process;
use crate::symbolize::SourceLine;
use lazyguard_core::diagnose::{Code, Verdict};
use lazyguard_core::report::{demangle, HangReport};

/// A hang of one process.
pub(super) struct HangSeen<'a> {
    pub process: &'a Process,
    pub report: &'a HangReport,
}

/// The hangs that have not gone on by themselves, in the order of the processes.
pub(super) fn hangs(processes: &[Process]) -> Vec<HangSeen<'_>> {
    processes.iter().filter_map(|process| Some(HangSeen { process, report: process.hang()? })).collect()
}

/// Whether a file is a library that starts programs and threads: a frame in it is around the program's own.
fn is_of_the_system(module: &str) -> bool {
    ["libc.so", "libc-", "libpthread", "libstdc++.so", "ld-linux"].iter().any(|start| module.starts_with(start))
}

impl HangSeen<'_> {
    fn verdict(&self) -> Option<&Verdict> {
        self.report.verdicts.first()
    }

    /// The code of the root cause.
    pub fn code(&self) -> Code {
        self.verdict().map_or(Code::LG299, |verdict| verdict.code)
    }

    /// What that means.
    pub fn title(&self) -> &str {
        self.verdict().map_or(Code::LG299.title(), |verdict| &verdict.title)
    }

    /// What tells hangs apart, the same from run to run: the code, what does not end, and the call that is blocked.
    pub fn key(&self) -> String {
        let culprit = self.verdict().and_then(|verdict| verdict.culprits.first());
        let culprit =
            culprit.map(|c| c.operation.function.as_deref().map_or_else(|| c.operation.call.clone(), demangle));
        let call = self.report.snapshot.blocked.first().map(|call| call.call.as_str());
        format!("{}|{}|{}", self.code(), culprit.as_deref().unwrap_or("-"), call.unwrap_or("-"))
    }

    /// Who waits for whom and what to change, a line each.
    pub fn steps(&self) -> impl Iterator<Item = String> + '_ {
        self.report
            .verdicts
            .iter()
            .flat_map(|verdict| verdict.chain.iter().cloned().chain(std::iter::once(format!("fix: {}", verdict.fix))))
    }

    /// The same in one text.
    pub fn explanation(&self) -> String {
        self.steps().chain(self.report.ends_in_words()).collect::<Vec<_>>().join("\n")
    }

    /// The line at which the first of the blocked threads entered the driver, where its stack has names. Where the program has no
    /// lines, those of the system's libraries above it tell a reader nothing.
    pub fn line(&self) -> Option<SourceLine> {
        let threads = self.verdict().map_or(&[][..], |verdict| &verdict.threads);
        let stacks = self.process.stacks.iter().filter(|stack| threads.contains(&stack.thread));
        let mut frames = stacks.flat_map(|stack| &stack.frames).filter(|frame| !is_of_the_system(&frame.module));
        frames.find_map(|frame| Some(SourceLine { file: frame.file.as_ref()?.into(), line: frame.line? }))
    }
}
