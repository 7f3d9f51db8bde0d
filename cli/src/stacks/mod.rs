//! The stacks that a hang's report has kept (`stacks.dmp`), with a name, a file and a line for every frame. If a code file is gone, the frames
//! that the process itself has found are reported, by file and offset.
//!
//! Must not: name anything from a file other than the mapped one, or fail for the contents of a dump.

mod dump;
mod files;
mod names;
pub(crate) mod symbolize;

pub(crate) use symbolize::{SourceLine, Symbolizer};

use crate::stacks::symbolize::at_place;
pub(crate) use dump::Module as CodeModule;
use dump::{Dump, Module, Thread};
use files::CodeFile;
use lazyguard_core::report::{FrameSeen, HangReport, StackSeen};
use lazyguard_core::stack::{undeleted, Registers, STACKS};
use std::io::Read as _;
use std::path::Path;

const MOST_BYTES: u64 = 64 << 20;

/// The stacks in a run folder; `None` where it holds none. For unreadable stacks, one line says why.
pub(crate) fn of_folder(folder: &Path, hang: Option<&HangReport>) -> Option<Result<Vec<StackSeen>, String>> {
    of_dump(folder, |dump| named(dump, hang))
}

/// Why the stacks in a run folder cannot be read; without looking up a name.
pub(crate) fn problem_in(folder: &Path) -> Option<String> {
    of_dump(folder, |_| ())?.err()
}

/// The code files that the stacks in a run folder name, with their build ids.
pub(crate) fn files_in(folder: &Path) -> Vec<CodeModule> {
    of_dump(folder, |dump| dump.modules.clone()).and_then(Result::ok).unwrap_or_default()
}

fn of_dump<T>(folder: &Path, what: impl FnOnce(&Dump<'_>) -> T) -> Option<Result<T, String>> {
    let path = folder.join(STACKS);
    let mut bytes = Vec::new();
    let read = match crate::machine::files::open_unlinked(&path) {
        Ok(file) => file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    let dump = read.and_then(|_| dump::read(&bytes).map_err(str::to_owned));
    Some(dump.map(|dump| what(&dump)).map_err(|error| format!("{}: {error}", path.display())))
}

pub(crate) fn told_by(hang: &HangReport, stacks: &[StackSeen]) -> HangReport {
    let mut hang = hang.clone();
    for known in &mut hang.stacks {
        // The dump is of the newest hang. A stack of another hang of this thread begins at another address.
        let begin = |stack: &StackSeen| stack.frames.first().map(|frame| frame.address);
        let same = stacks.iter().find(|stack| stack.thread == known.thread && begin(stack) == begin(known));
        if let Some(same) = same {
            let own = std::mem::take(&mut known.notes);
            *known = same.clone();
            known.notes.splice(0..0, own);
        }
    }
    hang
}

fn named(dump: &Dump<'_>, hang: Option<&HangReport>) -> Vec<StackSeen> {
    dump.threads
        .iter()
        .map(|thread| {
            let mut places = walk(dump, thread);
            let live = hang.and_then(|hang| hang.stacks.iter().find(|stack| stack.thread == thread.thread));
            let live: Vec<_> = live.iter().flat_map(|stack| &stack.frames).map(|frame| frame.address).collect();
            // The process's own unwinding may be longer, if a file is gone now.
            if live.iter().zip(&places).all(|(live, (walked, _))| live == walked) {
                let longer = live.iter().skip(places.len()).map(|address| (*address, address.wrapping_sub(1)));
                places.extend(longer.collect::<Vec<_>>());
            }
            stack(&dump.modules, thread.thread, &places)
        })
        .collect()
}

/// The return address of each frame, with the address to be named: the call lies before the return address.
fn walk(dump: &Dump<'_>, thread: &Thread<'_>) -> Vec<(u64, u64)> {
    const MOST_FRAMES: usize = 512;
    let word = |address: u64| {
        let at = usize::try_from(address.checked_sub(thread.memory_at)?).ok()?;
        thread.memory.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    };
    let mut now = Registers::new(dump.machine, thread.address, thread.stack, thread.frame);
    let mut found = Vec::new();
    loop {
        found.push((now.address(), now.call()));
        let module = module_at(&dump.modules, now.call());
        let next = module
            .and_then(|module| CodeFile::of(module).tables.as_ref().ok()?.step(module.base, &now, &word))
            .filter(|_| found.len() < MOST_FRAMES);
        let Some(next) = next else { return found };
        now = next;
    }
}

/// The frames of a stack with their names. A place is a return address, and the address to be named.
pub(crate) fn stack(modules: &[CodeModule], thread: u32, places: &[(u64, u64)]) -> StackSeen {
    let mut seen = StackSeen { thread, ..StackSeen::default() };
    for (address, call) in places {
        let Some(module) = module_at(modules, *call) else {
            seen.frames.push(FrameSeen { address: *address, ..FrameSeen::default() });
            continue;
        };
        let file = CodeFile::of(module);
        if let (Err(why), true) = (&file.tables, module.path.starts_with('/')) {
            let note = format!("no names in {}: {why}", file_name(module));
            if !seen.notes.contains(&note) {
                seen.notes.push(note);
            }
        }
        let bias = file.bias(module.base);
        let place = FrameSeen {
            address: *address,
            module: file_name(module).to_owned(),
            offset: address.wrapping_sub(bias),
            ..FrameSeen::default()
        };
        seen.frames.extend(at_place(file.names(call.wrapping_sub(bias)), &place));
    }
    seen
}

fn module_at(modules: &[Module], address: u64) -> Option<&Module> {
    modules.iter().find(|module| (module.base..module.end).contains(&address))
}

fn file_name(module: &Module) -> &str {
    let path = undeleted(&module.path);
    path.rsplit('/').next().unwrap_or(path)
}
