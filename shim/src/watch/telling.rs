//! The words of the watchdog about an open report: in the run folder, and on standard error. After the final summary it writes nothing.

use super::live_report::ends;
use super::stacks;
use crate::record::reports::{Reported, Waiting};
use crate::record::run_folder::{RunFolder, GPU_CORE, HANG, RUN};
use crate::record::Guard;
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::{json, Block, HangReport};
use lazyguard_core::sync::lock;
use lazyguard_core::trace::layout::header;
use lazyguard_core::Nanos;

/// Stands for the end in the summary of a running process.
const RUNNING: &str = "running";

/// Closes the open report at an orderly exit: a standstill whose calls have returned is over.
pub fn at_exit(guard: &Guard) {
    let Some(Reported { mut report, waiting }) = guard.reports.take_open() else { return };
    let still = |(thread, entered): &Waiting| {
        let mut calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published());
        calls.any(|call| call.thread == *thread && call.record.entered == *entered)
    };
    if !waiting.iter().any(still) {
        report.ends = ends(guard, &report);
        say_that_it_is_over(guard, report, guard.now());
    }
}

/// Reports the verdicts that a hang has gained since its report.
pub(super) fn say_what_is_beside(guard: &'static Guard, told: &mut HangReport, mut later: HangReport) {
    later.verdicts.retain(|verdict| !told.tells(verdict));
    later.places = stacks::places(later.addresses());
    guard.reports.add(&later.beside());
    told.verdicts.append(&mut later.verdicts);
    told.places.append(&mut later.places);
    keep(guard, told);
    if let Some(reported) = lock(&guard.reports.open).as_mut() {
        reported.report = told.copied();
    }
}

/// The report of a slow wait names the ranks that are late, once they have said what they do.
pub(super) fn name_the_late(guard: &Guard, told: &HangReport, is_new: bool) {
    if is_new {
        guard.reports.add(&told.late());
    }
    keep(guard, told);
    if let Some(reported) = lock(&guard.reports.open).as_mut() {
        reported.report = told.copied();
    }
}

/// From the moment of asking on, blocked calls may return an error: the report says so before.
pub(super) fn take_gpu_dump(guard: &Guard, mut report: Option<&mut HangReport>) {
    let Some(mut seen) = guard.gpu_dump.is_due(guard) else { return };
    if let (Some(report), true) = (&mut report, seen.taken && seen.fails) {
        report.gpu_dump = Some(seen.clone());
        say_that_it_is_due(guard, report);
    }
    guard.gpu_dump.take(guard, guard.folder.as_ref(), &mut seen);
    if seen.fails_calls() {
        guard.reports.add(&Block::marked(["the blocked calls return error 719, as LAZYGUARD_ON_HANG=fail says"]));
    }
    let core = |folder: &RunFolder| {
        format!("where the device's threads stand is in {}", folder.path().join(GPU_CORE).display())
    };
    guard.reports.add(&Block::marked(seen.missing_in_words().or_else(|| guard.folder.as_ref().map(core))));
    if let Some(report) = report {
        report.gpu_dump = Some(seen);
    }
}

/// `lazyguard run --on-hang kill` waits for this: the report is complete.
pub(super) fn say_that_it_is_due(guard: &Guard, report: &HangReport) {
    if let Some(reported) = lock(&guard.reports.open).as_mut() {
        reported.report.acts = true;
        reported.report.gpu_dump.clone_from(&report.gpu_dump);
        reported.report.revoked.clone_from(&report.revoked);
    }
    guard.unless_ended(|folder| {
        let kept = folder.replace(HANG, &report.json());
        if kept.is_err() && !guard.backing.in_file {
            folder.leave_empty(HANG);
        }
        tell_in_the_recording(guard, report);
    });
}

pub(super) fn keep_summary(guard: &Guard) {
    guard.unless_ended(|folder| drop(folder.replace(RUN, &json(&guard.summary(RUNNING)))));
}

pub(super) fn say_that_it_is_over(guard: &Guard, mut report: HangReport, now: Nanos) -> HangReport {
    guard.reports.over(&report.went_on(now));
    report.resolved = Some(now);
    keep(guard, &report);
    report
}

pub(super) fn keep(guard: &Guard, report: &HangReport) {
    guard.unless_ended(|folder| {
        let files = [(HANG, report.json()), (RUN, json(&guard.summary(RUNNING)))];
        let kept = files.iter().try_for_each(|(name, content)| folder.replace(name, content));
        folder.say_unless("report", kept.and_then(|()| guard.backing.save(folder)));
        tell_in_the_recording(guard, report);
    });
}

/// After the report was written, or could not be: a reader of the word need not wait for the file.
fn tell_in_the_recording(guard: &Guard, report: &HangReport) {
    let stands = report.status == Status::Hang && report.resolved.is_none();
    let word = if report.acts { header::HANG_IS_DUE } else { header::HANG_STANDS };
    guard.tracker.recorder().tell_of_a_hang(if stands { word } else { 0 });
}
