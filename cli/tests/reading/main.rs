//! The commands that read: `report`, `log`, `export`, `dump`, on recordings made by the library's own writer.

#![allow(clippy::disallowed_methods, clippy::print_stderr, clippy::print_stdout)] // Those are for the command.

#[path = "../common/mod.rs"]
mod common;

mod anonymise;
mod bad_input;
mod big;
mod clean;
mod dump;
mod export;
mod foreign_names;
mod in_the_way;
mod log;
mod permissions;
mod process;
mod real_runs;
mod reference;
mod report;
mod reproducers;
mod timing;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path that is a text")
    }

    fn of(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lazyguard(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lazyguard"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a command says on standard output, when all goes well.
fn said(arguments: &[&str]) -> String {
    let output = lazyguard(arguments).output().expect("the command runs");
    let (out, errors) = texts(&output);
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{arguments:?}: {out}");
    out
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a text");
    (text(&output.stdout), text(&output.stderr))
}
