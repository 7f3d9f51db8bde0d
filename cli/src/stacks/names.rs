//! The names of a file's addresses, by its debug information and its symbols.
//!
//! Must not: say whether the file is the one that was mapped: the caller knows.

use crate::machine::files;
use addr2line::{Loader, Location};
use lazyguard_core::report::{demangle, FrameSeen};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Functions named for one address: a call may lie in several, one put into the other.
const MOST_FRAMES: usize = 32;

/// The function that holds an address, after those inlined there, innermost first; else by the symbol and line tables.
pub(super) fn functions(file: &Loader, address: u64) -> Vec<FrameSeen> {
    let frame = |function: Option<String>, at: Option<Location<'_>>| {
        let (file, line) = at.map_or((None, None), |at| (at.file.map(str::to_owned), at.line));
        FrameSeen { function, file, line, ..FrameSeen::default() }
    };
    let mut found = Vec::new();
    if let Ok(mut frames) = file.find_frames(address) {
        while let (Ok(Some(inner)), true) = (frames.next(), found.len() < MOST_FRAMES) {
            let Some(name) = inner.function.as_ref().and_then(|function| function.raw_name().ok()) else { break };
            found.push(frame(Some(readable(&name)), inner.location));
        }
    }
    if let Some(last) = found.last_mut() {
        // Only the symbol table has the whole name of a lambda or a local class, and none of a `.cold` part.
        let whole = file.find_symbol(address).filter(|name| name.starts_with("_Z") && !name.contains('.'));
        last.function = whole.map(readable).or(last.function.take());
    }
    if found.is_empty() {
        let symbol = file.find_symbol(address).map(readable);
        let at = file.find_location(address).ok().flatten();
        if symbol.is_some() || at.is_some() {
            found.push(frame(symbol, at));
        }
    }
    found
}

type Key = (PathBuf, SystemTime);

thread_local! {
    /// The files that this thread has loaded: hundreds of processes have the same.
    static LOADERS: RefCell<HashMap<Key, Option<Rc<Loader>>>> = RefCell::default();
}

/// A file's names, by its debug information and its symbols; `None` if it was changed later than this. Each thread loads a file once.
pub(super) fn loader(path: &Path, written_before: Option<SystemTime>) -> Option<Rc<Loader>> {
    // The reader opens the path by itself, and would wait at a FIFO.
    let about = files::open(path).and_then(|file| file.metadata()).ok()?;
    let modified = about.modified().ok()?;
    // A package's files keep the time at which they were made.
    let changed = UNIX_EPOCH + Duration::from_secs(about.ctime().try_into().unwrap_or(0));
    if written_before.is_some_and(|before| modified.max(changed) > before) {
        return None;
    }
    LOADERS.with_borrow_mut(|loaders| {
        loaders.entry((path.to_owned(), modified)).or_insert_with(|| Loader::new(path).ok().map(Rc::new)).clone()
    })
}

/// A name as the source has it, of C++ and of Rust.
pub(super) fn readable(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| demangle(name), |name| format!("{name:#}"))
}
