//! The machine that the doctor examines: its files, and the environment that a program would be started with.
//!
//! Must not: read anything outside. A test passes a folder as the root, and an environment of its own.

use crate::machine::files;
use crate::machine::library::of_search_path;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(super) struct Machine {
    root: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl Machine {
    pub fn this() -> Self {
        Self { root: PathBuf::from("/"), environment: std::env::vars_os().collect() }
    }

    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub fn text(&self, path: &str) -> Option<String> {
        files::read_lossy(self.at(path)).ok()
    }

    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that is set and not blank, trimmed.
    pub fn told(&self, name: &str) -> Option<String> {
        let value = self.variable(name)?.to_string_lossy();
        Some(value.trim()).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    pub fn program(&self, name: &Path) -> Option<PathBuf> {
        of_search_path(name.as_os_str(), self.variable("PATH").unwrap_or(OsStr::new("/usr/bin:/bin")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Machine {
        /// A machine for a test.
        pub fn played(root: &Path, environment: &[(&str, &str)]) -> Self {
            let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
            Self { root: root.to_owned(), environment }
        }
    }
}
