//! GPU core dumps: a file that the user names, and the one that lies in a process's folder.
//!
//! Must not: read a file as a whole. A core may hold the device's memory, and tables and device code are a small part of it.

use crate::machine::files;
use crate::words::{print, Failure, Format, Outcome};
use lazyguard_core::gpu_core::{self, GpuCore};
use lazyguard_core::report::HangReport;
use lazyguard_core::run_folder::file::GPU_CORE;
use object::ReadCache;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn report(path: &Path, format: Format) -> Outcome {
    let core = files::open(path).map_err(|error| error.to_string()).and_then(read);
    let core = core.map_err(|why| Failure::at(path, why))?;
    print(|out| match format {
        Format::Json => Ok(out.json(&core)?),
        Format::Text => Ok(out.lines(core.lines())?),
    })?;
    // The readable part has been reported; the exit code tells a script that there was another.
    Ok(if core.defects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn of_folder(folder: &Path) -> Option<Result<GpuCore, String>> {
    let opened = match files::open_in(folder, GPU_CORE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        opened => opened.map_err(|error| error.to_string()),
    };
    Some(opened.and_then(read).map_err(|why| format!("{}: {why}", folder.join(GPU_CORE).display())))
}

fn read(file: File) -> Result<GpuCore, String> {
    gpu_core::read(&ReadCache::new(file))
}

pub(crate) fn lines(core: &Result<GpuCore, String>, hang: Option<&HangReport>) -> Vec<String> {
    let title = "where the device stood when its core dump was taken:".to_owned();
    match core {
        Ok(core) => [vec![title], core.lines(), said(core, hang)].concat(),
        Err(why) => vec![unreadable(why)],
    }
}

/// The sentences that a core adds to the verdicts, or why there is none.
pub(crate) fn sentences(core: &Result<GpuCore, String>, hang: Option<&HangReport>) -> Vec<String> {
    core.as_ref().map_or_else(|why| vec![unreadable(why)], |core| said(core, hang))
}

pub(crate) fn unreadable(why: &str) -> String {
    format!("the core dump of the GPU cannot be read: {why}")
}

pub(crate) fn said(core: &GpuCore, hang: Option<&HangReport>) -> Vec<String> {
    hang.map_or_else(Vec::new, |hang| core.beside(&hang.verdicts))
}
