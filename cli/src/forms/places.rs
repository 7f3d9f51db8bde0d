//! Paths of source files, relative to the folder in which the command was started where they lie in it.

use crate::stacks::SourceLine;
use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Relative to the working folder where it lies in it, else as the program names it.
    pub path: String,
    pub line: u32,
    pub is_inside: bool,
}

impl Place {
    pub fn of(line: &SourceLine, folder: &Path) -> Self {
        let file = without_dots(&line.file);
        let inside = match file.is_absolute() {
            true => file.strip_prefix(folder).ok().map(Path::to_owned),
            // A path relative to the compiler's folder: most often that is this folder.
            false => folder.join(&file).is_file().then(|| file.clone()),
        };
        let path = inside.as_ref().unwrap_or(&file).display().to_string();
        Self { path, line: line.line, is_inside: inside.is_some() }
    }
}

/// The same path without `.` and `..`, by the letters alone: the folder may not be there any more.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_working_folder_is_named_from_there() {
        for (file, path, is_inside) in [
            ("/src/app/main.cpp", "main.cpp", true),
            ("/src/app/sub/../common/./s.hpp", "common/s.hpp", true),
            ("/src/application/main.cpp", "/src/application/main.cpp", false),
            ("/src/app/../other.cpp", "/src/other.cpp", false),
            ("../x.cpp", "../x.cpp", false),
            ("no/such/file.cpp", "no/such/file.cpp", false),
        ] {
            let line = SourceLine { file: file.into(), line: 7 };
            let expect = Place { path: path.to_owned(), line: 7, is_inside };
            assert_eq!(Place::of(&line, Path::new("/src/app")), expect, "{file}");
        }
    }

    #[test]
    fn a_relative_file_that_is_there_counts_as_inside() {
        let line = SourceLine { file: "./src/main.rs".into(), line: 1 };
        let expect = Place { path: "src/main.rs".to_owned(), line: 1, is_inside: true };
        assert_eq!(Place::of(&line, Path::new(env!("CARGO_MANIFEST_DIR"))), expect);
    }
}
