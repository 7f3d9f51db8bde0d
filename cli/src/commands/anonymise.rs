//! `lazyguard anonymise`: copies the recordings of a run without what names the user, the machine, or the program's own code.
//!
//! Must not: decide what is kept (the core does), write over anything, or name a folder as the user or the machine is named.

use crate::folder::{is_process_folder, newest_in, process_folders, Opened, Run, RECORDING};
use crate::machine::files;
use crate::words::{print, say, size, write_line, Failure, Outcome, Output};
use lazyguard_core::anonymise::{anonymise as copy_of, evidence, Pseudonyms};
use lazyguard_core::api::counted;
use lazyguard_core::evidence::Evidence;
use lazyguard_core::run_folder::file::EVIDENCE;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, its folder, the folder of a run, or a recording; of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER|RECORDING")]
    what: PathBuf,
    /// The folder to write, which must not be there yet or be empty; of a recording, the file to write, which must not be there.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Keep only so many records of each kind (work, waits, rare events), the newest. A rank that lacks its oldest records is not
    /// compared in full.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Keep the names of all kernels, also of the program's own.
    #[arg(long)]
    keep_kernel_names: bool,
}

pub(crate) fn anonymise(arguments: &Arguments) -> Outcome {
    let most = arguments.last.map_or(usize::MAX, |last| last as usize);
    let pseudonyms = Pseudonyms::new(arguments.keep_kernel_names);
    print(|out| Copier { most, pseudonyms, out }.copy_what(&newest_in(&arguments.what), &arguments.out))
}

struct Copier<'a, 'o> {
    most: usize,
    pseudonyms: Pseudonyms,
    out: &'a mut Output<'o>,
}

impl Copier<'_, '_> {
    fn copy_what(&mut self, what: &Path, out: &Path) -> Result<(), Failure> {
        let run = Run::find(what)?;
        match &run.folder {
            Some(folder) if run.process.is_none() && !is_process_folder(folder) => return self.copy_all(folder, out),
            Some(_) => {
                let opened = run.must_open()?;
                make_empty(out)?;
                self.copy(&opened, &out.join(RECORDING))?;
            }
            None => self.copy(&run.must_open()?, out)?,
        }
        self.say_what_stays()
    }

    fn copy_all(&mut self, folder: &Path, out: &Path) -> Result<(), Failure> {
        let mut problems = Vec::new();
        let folders = process_folders(folder, &mut problems, |_| true);
        let open = |folder: &PathBuf| {
            Run::find(folder).and_then(|run| run.must_open()).map_err(|failure| problems.push(failure.to_string())).ok()
        };
        let opened: Vec<_> = folders.iter().filter_map(open).collect();
        if opened.is_empty() {
            problems.iter().for_each(say);
            return Err(Failure::Input(format!("{}: holds no recording that can be read", folder.display())));
        }
        make_empty(out)?;
        for one in &opened {
            self.copy(one, &make_one_of(out, &name_of(one))?.join(RECORDING))?;
        }
        self.say_what_stays()?;
        let last = problems.pop();
        problems.iter().for_each(say);
        last.map_or(Ok(()), |last| Err(Failure::Input(last)))
    }

    fn say_what_stays(&mut self) -> Result<(), Failure> {
        let line = "times and process ids stay. Look through it before you post it: lazyguard log prints its records and names";
        Ok(write_line!(self.out, "{line}")?)
    }

    fn copy(&mut self, opened: &Opened, to: &Path) -> Result<(), Failure> {
        let unreadable = |error| Failure::at(&opened.path, error);
        let copy = copy_of(&opened.recording, self.most, &mut self.pseudonyms).map_err(unreadable)?;
        files::create_new(to, 0o666)
            .and_then(|mut file| file.write_all(&copy.bytes))
            .map_err(|error| Failure::at(to, error))?;
        self.copy_evidence(&opened.path, to)?;
        let (records, bytes) = (counted(copy.records, "record"), size(copy.bytes.len() as u64));
        let of = size(opened.recording.facts().file_bytes);
        write_line!(self.out, "{}: {records} ({bytes} of {of})", to.display())?;
        for (count, why) in [
            (copy.older, "older"),
            (copy.unknown, "of a kind that this build does not know"),
            (copy.passed_over, "stretches of records that the process wrote over meanwhile"),
            (opened.recording.missing_bytes(), "bytes that the recording lacks at its end"),
        ] {
            if count > 0 {
                write_line!(self.out, "  left out: {count} {why}")?;
            }
        }
        Ok(())
    }
}

impl Copier<'_, '_> {
    /// Beside the copy of a process's recording lies that of its evidence.
    fn copy_evidence(&mut self, from: &Path, to: &Path) -> Result<(), Failure> {
        let folder = from.parent().filter(|_| to.file_name().is_some_and(|name| name == RECORDING));
        let Some(seen) = folder.and_then(|folder| files::json_in::<Evidence>(folder, EVIDENCE)) else { return Ok(()) };
        let copy = serde_json::to_vec(&evidence(&seen, &mut self.pseudonyms)).unwrap_or_default();
        let to = to.with_file_name(EVIDENCE);
        let written = files::create_new(&to, 0o666).and_then(|mut file| file.write_all(&copy));
        written.map_err(|error| Failure::at(&to, error))
    }
}

/// The name of the copy's folder. The user may have named the recording's own.
fn name_of(opened: &Opened) -> String {
    let facts = opened.recording.facts();
    let who = facts.rank.parse::<u32>().map_or_else(|_| "process".to_owned(), |rank| format!("rank{rank}"));
    format!("{who}-{}", facts.process)
}

fn make_empty(folder: &Path) -> Result<(), Failure> {
    match fs::create_dir_all(folder).and_then(|()| Ok(fs::read_dir(folder)?.next().is_none())) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Input(format!("{}: is not empty, and nothing is written over", folder.display()))),
        Err(error) => Err(Failure::at(folder, error)),
    }
}

/// Makes a folder of this name in one that this command has made: processes of two machines may have one id.
fn make_one_of(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let names = std::iter::once(name.to_owned()).chain((2_u64..).map(|number| format!("{name}-{number}")));
    let path = names.map(|name| folder.join(name)).find(|path| !path.exists()).unwrap_or_default();
    fs::create_dir(&path).map_err(|error| Failure::at(&path, error))?;
    Ok(path)
}
