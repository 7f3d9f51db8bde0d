//! `lazyguard profile`: what a profile holds, whether it is whole, and how it is kept small.

use crate::folder::profile::{read, Folder};
use crate::folder::profile_cache;
use crate::machine::files;
use crate::words::{printed, say, size, utc, write_line, Failure, Outcome, Output};
use lazyguard_core::api::counted;
use lazyguard_core::profile::{Course, ImageId, Place, Seen, IMAGES, MOST_BYTES};
use lazyguard_core::report::demangle;
use lazyguard_core::settings;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

const NANOS_OF_A_DAY: u64 = 86_400_000_000_000;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the modules that the program loads itself, the libraries that CUDA runtimes load, their kernels, and the local memory that kernels need.
    Show {
        /// The folder of the profile; without it, the profiles in the user's cache are listed.
        folder: Option<PathBuf>,
    },
    /// Check every file of a profile. The exit code is 1 if one cannot be used.
    Verify {
        /// The folder of the profile.
        folder: PathBuf,
    },
    /// Merge profiles into the first folder, and its parts into one.
    Merge {
        /// The folder that gets all, and the others, which stay as they are.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// Remove the images that were used longest ago, and those that no part names.
    Prune {
        /// The folder of the profile.
        folder: PathBuf,
        /// How much its images may take.
        #[arg(long, value_name = "SIZE", value_parser = most_bytes, default_value_t = MOST_BYTES)]
        most: u64,
    },
}

fn most_bytes(text: &str) -> Result<u64, String> {
    settings::size(text).ok_or_else(|| "not a size: 64MiB, 1GiB".to_owned())
}

pub(crate) fn profile(arguments: &Arguments) -> Outcome {
    printed(|out| match &arguments.action {
        Action::Show { folder: Some(folder) } => show(&profile_in(folder)?, out),
        Action::Show { folder: None } => list(out),
        Action::Verify { folder } => verify(&profile_in(folder)?, out),
        Action::Merge { folders } => merge(folders, out),
        Action::Prune { folder, most } => prune(Folder::read(folder)?, *most, out),
    })
}

/// The profile that a folder holds.
fn profile_in(folder: &Path) -> Result<Folder, Failure> {
    let read = Folder::read(folder)?;
    let has_any = !(read.parts.is_empty() && read.damaged.is_empty() && read.images().is_empty());
    has_any.then_some(read).ok_or_else(|| Failure::at(folder, "holds no profile"))
}

/// The date of a day since 1970.
fn date(day: u32) -> String {
    utc(u64::from(day) * NANOS_OF_A_DAY).chars().take("1970-01-01".len()).collect()
}

fn show(folder: &Folder, out: &mut Output<'_>) -> Outcome {
    let kept = folder.kept();
    let images = &folder.known.images;
    let (count, parts) = (counted(images.len(), "image"), counted(folder.parts.len(), "part"));
    write_line!(out, "{count} that the program loads itself, {} in {parts}", size(bytes(&kept)))?;
    for id in folder.known.newest_first() {
        let Some(image) = images.get(&id) else { continue };
        let state = if kept.contains(&id) { "" } else { ", not kept" };
        write_line!(out, "{id}: last used on {}{state}", date(image.day))?;
        for (options, most) in &image.loads {
            let with = if options.all().is_empty() { String::new() } else { format!(" with options {options}") };
            let how = if options.is_library() { "as a library" } else { "in a context" };
            write_line!(out, "  loaded {} {how}{with}", counted(u64::from(*most), "time"))?;
        }
        for kernel in &image.kernels {
            write_line!(out, "  {}", demangle(kernel))?;
        }
    }
    let libraries = &folder.known.libraries;
    write_line!(out, "{} that CUDA runtimes load", counted(libraries.len(), "library"))?;
    for (Place { object, offset, image }, library) in libraries {
        let object = if object.is_empty() { "the program" } else { object };
        let about = format!("{} at {object}+{offset:#x}", size(image.bytes));
        write_line!(out, "{about}: last used on {}", date(library.day))?;
        for kernel in &library.kernels {
            write_line!(out, "  {}", demangle(kernel))?;
        }
    }
    let seen = &folder.known.seen;
    if !seen.is_empty() {
        write_line!(out, "{} that the program loads itself, by its samples", counted(seen.len(), "library"))?;
    }
    for (id, Seen { day, is_used }) in seen {
        let use_of_it = if *is_used { "used" } else { "not used" };
        write_line!(out, "{id}: last loaded on {}, {use_of_it}", date(*day))?;
    }
    for (id, fate) in &folder.known.fates {
        let why = match fate.course {
            Course::Good => continue,
            Course::Stood => "a load of it ahead hung",
            Course::Bad => "its newest load did not end, or took long ahead of a run that did not ask for it",
        };
        write_line!(out, "{id}: not loaded ahead: {why}")?;
    }
    folder.say_what_is_damaged();
    Ok(ExitCode::SUCCESS)
}

fn bytes(images: &HashSet<ImageId>) -> u64 {
    images.iter().map(|id| id.bytes).sum()
}

fn list(out: &mut Output<'_>) -> Outcome {
    let cache = profile_cache::folder().ok_or_else(|| Failure::Input(profile_cache::NONE.to_owned()))?;
    let entries = fs::read_dir(&cache).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    write_line!(out, "{} in {}", counted(folders.len(), "profile"), cache.display())?;
    for path in folders {
        match Folder::read(&path) {
            Ok(folder) => {
                let Folder { parts, known, .. } = &folder;
                let counts = [(parts.len(), "part"), (known.libraries.len(), "library"), (known.images.len(), "image")];
                let [parts, libraries, images] = counts.map(|(count, what)| counted(count, what));
                let bytes = size(bytes(&folder.kept()));
                write_line!(out, "{}: {parts}, {libraries}, {images}, {bytes}", path.display())?;
                folder.say_what_is_damaged();
            }
            Err(failure) => say(failure.to_string()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(folder: &Folder, out: &mut Output<'_>) -> Outcome {
    let mut damaged = folder.damaged.clone();
    let images = folder.images();
    for (id, path) in &images {
        match read(path).map(|content| ImageId::of(&content)) {
            Ok(its) if *id == Some(its) => {}
            Ok(_) => damaged.push(format!("{}: not the image of that name", path.display())),
            Err(error) => damaged.push(format!("{}: {error}", path.display())),
        }
    }
    damaged.iter().for_each(say);
    let whole = folder.parts.len() + folder.damaged.len() + images.len() - damaged.len();
    write_line!(out, "{} whole, {} cannot be used", counted(whole, "file"), damaged.len())?;
    Ok(ExitCode::from(u8::from(!damaged.is_empty())))
}

fn merge(folders: &[PathBuf], out: &mut Output<'_>) -> Outcome {
    let Some((into, others)) = folders.split_first() else { return Ok(ExitCode::SUCCESS) };
    let failed = |error: io::Error| Failure::at(into, error);
    fs::create_dir_all(into.join(IMAGES)).map_err(failed)?;
    let mut all = Folder::read(into)?;
    if all.has_a_link() {
        all.say_what_is_damaged();
        return Ok(ExitCode::FAILURE);
    }
    for other in others {
        let other = Folder::read(other)?;
        other.say_what_is_damaged();
        all.known.merge(&other.known);
        for (id, path) in other.images() {
            let Some(id) = id.filter(|id| !all.image(*id).exists()) else { continue };
            let content = read(&path).map_err(failed)?;
            if ImageId::of(&content) == id {
                files::replace(&all.image(id), &content, Some(0o600)).map_err(failed)?;
            }
        }
    }
    all.make_one_part().map_err(failed)?;
    all.say_what_is_damaged();
    let libraries = counted(all.known.libraries.len(), "library");
    let images = counted(all.known.images.len(), "image");
    write_line!(out, "{}: {libraries}, {images}", into.display())?;
    Ok(ExitCode::SUCCESS)
}

fn prune(mut folder: Folder, most: u64, out: &mut Output<'_>) -> Outcome {
    if let Some(first) = folder.damaged.first() {
        // It may name images that no other part names.
        return Err(Failure::Input(format!("{first}; nothing is removed before that file is")));
    }
    let path = folder.path.display().to_string();
    if folder.parts.is_empty() {
        return Err(Failure::Input(format!("{path}: no part of a profile is in it, so nothing is removed")));
    }
    let (removed, bytes) = folder.prune(most).map_err(|error| Failure::Input(format!("{path}: {error}")))?;
    write_line!(out, "removed {}, {} freed", counted(removed, "image"), size(bytes))?;
    Ok(ExitCode::SUCCESS)
}
