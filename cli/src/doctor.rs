//! `lazyguard doctor`: what the guard will and will not see, here and in a program, before it is needed.
//!
//! Each finding is one line: `ok`, `note` or `problem`, and for the last two what to do. Exit code 0 if there is no
//! problem, else 1.

use crate::run::find_library;
use crate::Outcome;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{elf, Object as _, ObjectSection as _, ObjectSymbol as _};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Findings {
    lines: Vec<String>,
    problems: usize,
}

impl Findings {
    fn ok(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("ok       {}", text.as_ref()));
    }

    fn note(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("note     {}", text.as_ref()));
    }

    fn problem(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("problem  {}", text.as_ref()));
        self.problems += 1;
    }
}

/// Looks at the machine and, if one is given, at a program.
pub(crate) fn doctor(library: Option<PathBuf>, program: Option<&PathBuf>) -> Outcome {
    let mut found = Findings { lines: Vec::new(), problems: 0 };
    match find_library(library) {
        Ok(path) => found.ok(format!("the library is {}", path.display())),
        Err(failure) => found.problem(failure.to_string()),
    }
    interposers(&mut found);
    temporary_folder(&mut found);
    if let Some(program) = program {
        look_at(program, &mut found);
    }
    let mut out = io::stdout().lock();
    for line in &found.lines {
        writeln!(out, "{line}")?;
    }
    Ok(if found.problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn interposers(found: &mut Findings) {
    match std::env::var("LD_PRELOAD") {
        Ok(others) if !others.trim().is_empty() => found.note(format!(
            "LD_PRELOAD already names {others}: put liblazyguard.so first, so that it sees the calls as the program makes them"
        )),
        _ => found.ok("nothing else is preloaded"),
    }
    if let Ok(path) = std::env::var("CUDA_INJECTION64_PATH") {
        found.note(format!(
            "CUDA_INJECTION64_PATH={path}: a tool is loaded into the driver as well; its calls pass untouched"
        ));
    }
    if let Ok(mode) = std::env::var("CUDA_MODULE_LOADING") {
        if mode.eq_ignore_ascii_case("EAGER") {
            found.note("CUDA_MODULE_LOADING=EAGER: the driver loads everything at start; there is nothing left to load ahead of use");
        }
    }
}

fn temporary_folder(found: &mut Findings) {
    let folder = std::env::temp_dir();
    let probe = folder.join(format!(".lazyguard-doctor-{}", std::process::id()));
    match std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)) {
        Ok(()) => found.ok(format!("run folders can be made in {}", folder.display())),
        Err(error) => found.problem(format!(
            "no run folder can be made in {}: {error}; set LAZYGUARD_OUT to a folder that can be written to",
            folder.display()
        )),
    }
}

fn look_at(program: &Path, found: &mut Findings) {
    let path = match resolve(program) {
        Ok(path) => path,
        Err(error) => return found.problem(format!("{}: {error}", program.display())),
    };
    let name = path.display().to_string();
    if let Ok(metadata) = path.metadata() {
        if metadata.mode() & 0o6000 != 0 {
            found.problem(format!(
                "{name} is set-user-id or set-group-id: the dynamic linker ignores LD_PRELOAD there; run it without"
            ));
        }
    }
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => return found.problem(format!("{name}: {error}")),
    };
    if bytes.starts_with(b"#!") {
        let first = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
        return found.note(format!(
            "{name} is a script ({}): the guard goes into its interpreter and everything that one starts",
            String::from_utf8_lossy(first).trim_end()
        ));
    }
    match ElfFile64::<object::Endianness>::parse(&*bytes) {
        Ok(file) => look_into(&name, &file, found),
        Err(error) => found.problem(format!("{name} is not a program this can look into: {error}")),
    }
}

fn look_into(name: &str, file: &ElfFile64<'_, object::Endianness>, found: &mut Findings) {
    let endian = file.endian();
    let Ok(Some(entries)) = file
        .elf_header()
        .program_headers(endian, file.data())
        .map(|headers| headers.iter().find_map(|header| header.dynamic(endian, file.data()).ok().flatten()))
    else {
        return found
            .problem(format!("{name} is linked statically: nothing can be preloaded into it; link it dynamically"));
    };
    let symbolic = entries.iter().any(|e| e.d_tag(endian) == elf::DT_SYMBOLIC);
    if symbolic {
        found.note(format!(
            "{name} binds its own symbols first (DT_SYMBOLIC): driver functions it defines itself are not seen"
        ));
    }
    let driver_calls =
        file.dynamic_symbols().filter(|s| s.is_undefined()).filter_map(|s| s.name().ok().map(str::to_owned));
    let (mut followed, mut passed) = (0, 0);
    for symbol in driver_calls.filter(|s| s.starts_with("cu") && s[2..].starts_with(|c: char| c.is_ascii_uppercase())) {
        if lazyguard_core::api::Form::by_symbol(symbol.as_bytes()).is_some() {
            followed += 1;
        } else {
            passed += 1;
        }
    }
    if followed + passed > 0 {
        found.ok(format!("{name} calls the driver directly: {followed} of its driver functions are followed, {passed} pass untouched"));
    }
    for symbol in file.dynamic_symbols() {
        let Ok(symbol_name) = symbol.name() else { continue };
        if lazyguard_core::api::Form::by_symbol(symbol_name.as_bytes()).is_none() {
            continue;
        }
        if symbol.is_undefined() && symbol.is_weak() {
            found.note(format!(
                "{name} has a weak reference to {symbol_name}: under the guard it is there also without a driver, and answers an error"
            ));
        } else if symbol.is_definition() && symbol.kind() == object::SymbolKind::Data {
            found.problem(format!(
                "{name} defines {symbol_name} as data, under the name of a driver function: do not preload the guard into it"
            ));
        }
    }
    match file.section_by_name(".nvFatBinSegment").map(|s| s.size() / 24) {
        Some(count) if count > 32 => found.note(format!(
            "{name} holds {count} fat binaries, more than LAZYGUARD_NUDGE's default: kernels of a translation unit that is first \
             used under a persistent kernel are not loaded ahead of use; raise LAZYGUARD_NUDGE if that happens"
        )),
        Some(count) => found.ok(format!("{name} holds {count} fat binaries: all are registered at start")),
        None => found.note(format!("{name} holds no device code of its own; its libraries may")),
    }
}

fn resolve(program: &Path) -> io::Result<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}
