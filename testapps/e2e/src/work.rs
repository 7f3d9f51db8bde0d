//! The working folder of a test.

use crate::artefacts::target;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

/// The working folder of one test: removed when the test passed, kept with a command for a rerun when it failed.
#[derive(Debug)]
pub struct Work {
    path: PathBuf,
    test: String,
    commands: RefCell<Vec<String>>,
}

impl Work {
    /// A fresh folder for the test of this name.
    pub fn new(test: &str) -> Self {
        let path = target().join("e2e").join(format!("{}-{}", test.replace("::", "."), std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, test: test.to_owned(), commands: RefCell::default() }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside it, made if it is not there.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Notes a command that was run; returns its number.
    pub(crate) fn ran(&self, command: String) -> usize {
        let mut commands = self.commands.borrow_mut();
        commands.push(command);
        commands.len()
    }
}

impl Drop for Work {
    #[expect(clippy::print_stderr, reason = "the test harness shows what a failing test prints")]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A failure is harmless: what remains is under target.
            let _ = fs::remove_dir_all(&self.path);
            return;
        }
        eprintln!("\nkept: {}", self.path.display());
        for (number, command) in self.commands.borrow().iter().enumerate() {
            eprintln!("run {}: {command}", number + 1);
        }
        eprintln!("rerun: cargo test -p lazyguard-e2e -- --exact {}", self.test);
    }
}

/// A test that cannot be made on this machine says why.
#[expect(clippy::print_stderr, reason = "a test that cannot be made here says so")]
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
