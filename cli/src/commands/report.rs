//! `lazyguard report`: reports a run, from its folder or from the process that is still running.
//!
//! A running process that keeps no recording in a file is asked ([`dump`]); one that is not guarded is looked at from outside ([`attach`]).

use crate::folder::{gpu_core, is_process_folder, runs, Run};
use crate::forms::one::report_one;
use crate::forms::report::{self, Format as FindingsFormat};
use crate::forms::timing;
use crate::inspect::{attach, dump};
use crate::judge::collect::holds_processes;
use crate::words::{printed, Failure, Format, Outcome};
use lazyguard_core::report::Detail;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, its folder, or the folder of a run; of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER", required_unless_present = "gpu_core")]
    what: Option<PathBuf>,
    /// Report a GPU core dump of the driver: its kernels, and where their threads stand.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "list", "hazards", "cold_start", "blocking"])]
    gpu_core: Option<PathBuf>,
    /// List the runs in a folder with start and command, and report none.
    #[arg(long, conflicts_with_all = ["hazards", "cold_start", "blocking", "format"])]
    list: bool,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: FindingsFormat,
    /// Print the hazards: the deadlocks that did not happen this time.
    #[arg(long, conflicts_with_all = ["cold_start", "blocking"])]
    hazards: bool,
    /// A file that names reviewed hazards, which are marked as suppressed.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    suppress: Vec<PathBuf>,
    /// A baseline of `lazyguard run`, whose hazards are marked as known.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    baseline: Option<PathBuf>,
    /// Write the report as one page for a browser, and print one line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "format", "hazards", "cold_start", "blocking"])]
    html: Option<PathBuf>,
    /// List also the hazards that are only possible, which are counted otherwise.
    #[arg(long, conflicts_with_all = ["list", "html", "cold_start", "blocking", "gpu_core"])]
    all: bool,
    /// Print names, stacks and frames whole, which a person rarely needs.
    #[arg(long, conflicts_with_all = ["list", "html"])]
    verbose: bool,
    #[command(flatten)]
    timing: timing::Arguments,
}

pub(crate) fn report(arguments: &Arguments) -> Outcome {
    let Arguments { what, gpu_core, list, format, hazards, suppress, baseline, html, all, verbose, timing } = arguments;
    let detail = if *verbose { Detail::Whole } else { Detail::Short };
    if let Some(file) = gpu_core {
        return gpu_core::report(file, plain(*format)?);
    }
    // There is one, or the options were refused.
    let Some(what) = what else { return Ok(ExitCode::FAILURE) };
    if *list {
        return runs::list(what);
    }
    let what = &runs::newest_in(what);
    if let Some(file) = html {
        return printed(|out| report::report_page(what, file, out));
    }
    if *hazards {
        return printed(|out| report::report_hazards(what, *format, suppress, baseline.as_deref(), *all, out));
    }
    let format = plain(*format)?;
    if timing.wanted() {
        return timing::report(what, timing, format);
    }
    if let Some(process) = Run::without_a_recording(what) {
        return match dump::can_be_asked(process) {
            true => dump::ask(process, format, PATIENCE),
            false => attach::look_at(process, format),
        };
    }
    let run = Run::find(what)?;
    if run.process.is_none() && !is_process_folder(what) && holds_processes(what) {
        return printed(|out| report::report_all(what, format, detail, *all, out));
    }
    printed(|out| report_one(&run, format, detail, *all, out))
}

fn plain(format: FindingsFormat) -> Result<Format, Failure> {
    match format {
        FindingsFormat::Text => Ok(Format::Text),
        FindingsFormat::Json => Ok(Format::Json),
        FindingsFormat::Sarif | FindingsFormat::Junit => {
            Err(Failure::Usage("this format is one of hazards and hangs together: say --hazards".to_owned()))
        }
    }
}
