//! Finds where the run folder would go, whether it can be made there, and whether a recording can be mapped.
//!
//! Must not: leave anything behind, or make the folder itself.

use super::finding::Findings;
use super::machine::Machine;
use lazyguard_core::run_folder::{private_bases, FileSystem};
use lazyguard_core::settings::{expand_folder, FolderFacts, Settings, RANKS};
use rustix::process::{getrlimit, Resource};
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn look(machine: &Machine, settings: &Settings, found: &mut Findings) {
    let asked_for = settings.out.is_some();
    let wanted = settings.out.as_ref().map(|template| wanted(machine, template)).transpose();
    let folder = match wanted {
        Ok(wanted) => wanted.unwrap_or_else(|| private(machine, found)),
        Err(error) => {
            let what = format!("LAZYGUARD_OUT cannot be used: {error}");
            return found.problem(what, "set LAZYGUARD_OUT to an absolute path");
        }
    };
    let base = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let why = match asked_for {
        true => "LAZYGUARD_OUT",
        false if machine.variable("TMPDIR").is_some_and(|named| Path::new(named) == folder) => "TMPDIR",
        false => "no LAZYGUARD_OUT",
    };
    if let Err(error) = try_in(base) {
        let variable = if asked_for { "LAZYGUARD_OUT" } else { "LAZYGUARD_OUT or TMPDIR" };
        return found.problem(
            format!("no run folder can be made as {} ({why}): {}: {error}", folder.display(), base.display()),
            format!("set {variable} to a folder that can be written to; without one, nothing is kept of a run"),
        );
    }
    let shown = folder.display();
    found.ok(match asked_for {
        true => format!("run folders go to {shown} ({why}), and stay"),
        false => format!("private run folders go to {shown} ({why}); a clean exit without a hang removes them"),
    });
    let of_a_run = ["run.json", "log.jsonl", crate::folder::source::RECORDING];
    if asked_for && of_a_run.iter().any(|name| folder.join(name).exists()) {
        found.note(
            format!("{shown} holds a run already: the next one goes into a folder in it, named by its process"),
            "put %p (the process) or %t (the start time) into LAZYGUARD_OUT, or take the old run away",
        );
    }
    recording(base, asked_for, settings, found);
}

/// The base of private folders. Notes why the one in `TMPDIR` cannot be used.
fn private(machine: &Machine, found: &mut Findings) -> PathBuf {
    let named = machine.variable("TMPDIR").filter(|named| !named.is_empty());
    let bases = private_bases(named.map(ToOwned::to_owned));
    let tried = |base: &PathBuf| try_in(&machine.at(base));
    if let Some(error) = named.and_then(|_| tried(&bases[0]).err()) {
        found.note(
            format!("TMPDIR={} cannot be used: {error}", bases[0].display()),
            "none for the guard, which goes elsewhere; other programs may fail over it",
        );
    }
    bases.iter().find(|base| tried(base).is_ok()).unwrap_or(&bases[0]).clone()
}

fn recording(base: &Path, asked_for: bool, settings: &Settings, found: &mut Findings) {
    let bytes = settings.record_bytes;
    if bytes == 0 {
        return found
            .note("LAZYGUARD_RECORD=off: there is no recording, and after a kill nothing is known", "unset it");
    }
    let about = match rustix::fs::statfs(base) {
        Ok(about) => about,
        Err(error) => {
            return found.note(
                format!("{}: its file system cannot be asked: {error}", base.display()),
                "none: the guard looks again when it makes the recording",
            );
        }
    };
    let room = (about.f_bavail as u64).saturating_mul(u64::try_from(about.f_bsize).unwrap_or(0));
    let system = FileSystem { kind: about.f_type as u64, room, capacity: room };
    let limit = getrlimit(Resource::Fsize).current.filter(|&limit| limit < bytes);
    let limited = |limit| Err(format!("files may not be larger than {limit} bytes (ulimit -f)"));
    match limit.map_or_else(|| system.suits(asked_for, bytes), limited) {
        Ok(()) => found.ok(format!("the recording ({} MiB) is a file there; {} MiB are free", bytes >> 20, room >> 20),
        ),
        Err(why) => found.note(format!(
                "{why}: the recording is made smaller, or kept in memory and written at a hang and at an orderly end; a kill \
                 before that loses it"
            ),
            "set LAZYGUARD_OUT to a folder on a local disk or under /dev/shm, with room for four times LAZYGUARD_RECORD",
        ),
    }
}

fn wanted(machine: &Machine, template: &str) -> io::Result<PathBuf> {
    let host = machine.text("/proc/sys/kernel/hostname").unwrap_or_default();
    let rank = RANKS.iter().find_map(|name| machine.told(name));
    let start_seconds = crate::machine::system::unix_now().as_secs();
    let facts = FolderFacts { host: host.trim(), process: std::process::id(), rank: rank.as_deref(), start_seconds };
    std::path::absolute(expand_folder(template, &facts))
}

fn try_in(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".lazyguard-doctor-{}", std::process::id()));
    std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;

    #[test]
    fn a_folder_that_is_not_there_yet_is_tried_where_it_would_be_made() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-folder-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let out = root.join("a/%r/b");
        let settings = Settings { out: Some(out.display().to_string()), ..Settings::default() };
        let machine = Machine::played(Path::new("/"), &[("RANK", "7")]);
        let mut found = Findings::default();
        look(&machine, &settings, &mut found);
        let first = &found.all()[0];
        assert!(
            first.level == Level::Ok && first.what.contains(&root.join("a/7/b").display().to_string()),
            "{first:?}"
        );
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0, "something was left behind");
        // A file has the folder's name.
        std::fs::write(root.join("a"), "").unwrap();
        let mut found = Findings::default();
        look(&machine, &settings, &mut found);
        assert_eq!(found.all()[0].level, Level::Problem);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_folder_that_holds_a_run_is_said() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-reused-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("run.json"), "{}").unwrap();
        let settings = Settings { out: Some(root.display().to_string()), ..Settings::default() };
        let mut found = Findings::default();
        look(&Machine::played(Path::new("/"), &[]), &settings, &mut found);
        assert!(
            found.all().iter().any(|f| f.level == Level::Note && f.what.contains("holds a run")),
            "{:?}",
            found.all()
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}
