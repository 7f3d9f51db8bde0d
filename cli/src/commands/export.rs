//! `lazyguard export`: writes a recording in the format of another program.

use crate::folder::{duration, hang_in, one_process, Opened, Recorded};
use crate::forms::cuda::reproducer;
use crate::forms::perfetto::judged::{of_recording, of_report, over};
use crate::forms::perfetto::timeline::Timeline;
use crate::machine::files;
use crate::words::{write_line, Failure, Outcome, Output};
use lazyguard_core::diagnose::SnapshotBuilder;
use lazyguard_core::report::HangReport;
use lazyguard_core::run_folder::file::{REPRODUCER, TIMELINE};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// A timeline for ui.perfetto.dev.
    Perfetto,
    /// For a hang, a small CUDA program that hangs alike.
    Cuda,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, or a run folder.
    #[arg(value_name = "PID|FOLDER")]
    what: PathBuf,
    /// The format.
    #[arg(long, value_enum)]
    to: Format,
    /// The file; `-` is standard output [default: trace.perfetto-trace or reproducer.cu in the run folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only calls entered at this time or later: 1.5, 250ms; in seconds since the guard was armed, without a unit.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<u64>,
    /// Only calls entered up to this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    until: Option<u64>,
}

pub(crate) fn export(arguments: &Arguments) -> Outcome {
    let run = one_process(&arguments.what)?;
    let opened = run.must_open()?;
    // An unreadable report does not prevent the rest; lazyguard report says what is wrong with it.
    let hang = run.folder.as_deref().and_then(|folder| hang_in(folder).ok().flatten());
    match arguments.to {
        Format::Perfetto => timeline(arguments, &opened, hang.as_ref()),
        Format::Cuda if arguments.since.or(arguments.until).is_some() => {
            Err(Failure::Input("--since and --until are about --to perfetto".to_owned()))
        }
        Format::Cuda => program(arguments, opened, hang.as_ref()),
    }
}

fn program(arguments: &Arguments, opened: Opened, hang: Option<&HangReport>) -> Outcome {
    let recorded = Recorded::read(opened)?;
    let told = hang.map(|hang| (&hang.snapshot, &hang.verdicts));
    let (snapshot, verdicts) = told.unwrap_or((&recorded.snapshot, &recorded.diagnosis.verdicts));
    let text = reproducer(&recorded.opened, snapshot, verdicts)?;
    write_out(arguments, &recorded.opened, REPRODUCER, |out, failed| {
        out.write_all(text.as_bytes()).map_err(failed)?;
        Ok(format!("{} lines; its second line says how to compile it", text.lines().count()))
    })
}

fn write_out(
    arguments: &Arguments,
    opened: &Opened,
    name: &str,
    write: impl Fn(&mut dyn Write, &dyn Fn(io::Error) -> Failure) -> Result<String, Failure>,
) -> Outcome {
    let path = arguments.output.clone().unwrap_or_else(|| opened.path.with_file_name(name));
    let mut out = Output::standard();
    let is_standard = |path: &PathBuf| files::descriptor(path) == Some(libc::STDOUT_FILENO);
    if path.as_os_str() == OsStr::new("-") || arguments.output.as_ref().is_some_and(is_standard) {
        write(&mut out.raw(), &Failure::Output)?;
    } else {
        let failed = |error: io::Error| Failure::Input(format!("cannot write {}: {error}", path.display()));
        // A link is followed only if the user named the file.
        let made = match &arguments.output {
            Some(path) => files::made_anew(path, 0),
            None => files::create_in(path.parent().unwrap_or(Path::new("")), name),
        };
        let what = write(&mut made.map_err(failed)?, &failed).inspect_err(|_| discard(&path))?;
        write_line!(out, "{}: {what}", path.display())?;
    }
    out.flush()?;
    opened.cut_short().map_or(Ok(ExitCode::SUCCESS), Err)
}

fn timeline(arguments: &Arguments, opened: &Opened, hang: Option<&HangReport>) -> Outcome {
    let range = arguments.since.unwrap_or(0)..=arguments.until.unwrap_or(u64::MAX);
    write_out(arguments, opened, TIMELINE, |out, failed| {
        let mut timeline = Timeline::new(&opened.recording, opened.callers(), out).map_err(failed)?;
        hang.into_iter().flat_map(of_report).for_each(|shown| timeline.judge(shown));
        let mut builder = SnapshotBuilder::new(&opened.recording);
        opened.each_record(|entry| {
            builder.push(entry);
            if range.contains(&entry.record.entered) {
                timeline.see(entry).map_err(failed)?;
            }
            Ok(())
        })?;
        let in_progress = opened.calls_in_progress();
        let calls: Vec<_> = in_progress.iter().map(|call| (call.thread, call.record.entered)).collect();
        let over = hang.map(|hang| over(hang, &opened.recording, &calls));
        if let Some(Some(over)) = over {
            timeline.judged_until(over);
        }
        // A reported hang that still lasts has its own verdicts.
        if over != Some(None) {
            of_recording(&opened.standstill(&mut builder)).into_iter().for_each(|shown| timeline.judge(shown));
        }
        let mut in_range = in_progress.iter().filter(|call| range.contains(&call.record.entered));
        in_range.try_for_each(|call| timeline.see(call)).map_err(failed)?;
        let (slices, bytes) = timeline.finish(&opened.end_in_words(), &range).map_err(failed)?;
        let size = bytes as f64 / 1e6;
        Ok(format!("{slices} slices in {size:.1} MB; open it at https://ui.perfetto.dev"))
    })
}

/// Removes an incomplete file, unless it is a device, a pipe or a link, such as `/dev/stderr`.
fn discard(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        let _ = fs::remove_file(path);
    }
}
