//! `lazyguard --version`: the command, the library that it preloads, and the CUDA headers; a line each.
//!
//! Must not: load the library, or fail where there is none.

use crate::machine::library;
use crate::words::{write_line, Output};
use lazyguard_core::build_note::CUDA_HEADERS;
use lazyguard_core::trace::layout;
use std::io;
use std::sync::LazyLock;

/// The version, the commit of a build that ships, and the recordings that this build reads.
pub(crate) static COMMAND: LazyLock<String> = LazyLock::new(|| {
    of(env!("CARGO_PKG_VERSION"), option_env!("LAZYGUARD_COMMIT").filter(|commit| !commit.is_empty()), layout::VERSION)
});

fn of(version: &str, commit: Option<&str>, format: u32) -> String {
    let build = commit.map_or_else(|| "development build".to_owned(), |commit| format!("commit {commit}"));
    format!("{version} ({build}, recording format {format})")
}

pub(crate) fn print() -> io::Result<()> {
    let mut out = Output::standard();
    write_line!(out, "lazyguard {}", *COMMAND)?;
    let found = library::find(None);
    let build = found.as_ref().ok().and_then(|path| library::build_of(path));
    match (&found, &build) {
        (Ok(path), Some(build)) => {
            let its = of(&build.version, build.commit.as_deref(), build.format);
            write_line!(out, "library {its}: {}", path.display())?;
        }
        (Ok(path), None) => write_line!(out, "library of unknown version: {}", path.display())?,
        (Err(why), _) => write_line!(out, "library missing: {why}")?,
    }
    let headers = build.as_ref().map_or(CUDA_HEADERS, |build| &build.cuda_headers);
    write_line!(out, "CUDA headers {headers}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_headers_is_that_of_the_bindings() {
        let bindings = cudarc::driver::sys::CUDA_VERSION;
        assert_eq!(CUDA_HEADERS, format!("{}.{}", bindings / 1000, bindings % 1000 / 10));
    }
}
