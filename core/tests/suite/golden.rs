//! Recordings of every version of the format that was ever released, and what is read from them.
//!
//! `LAZYGUARD_MAKE_GOLDEN=1 cargo test -p lazyguard-core --test suite -- --ignored golden::` writes those of this version anew.

use crate::support::cases::{self, Case};
use crate::support::dump::dump;
use crate::support::written::written;
use lazyguard_core::trace::layout::VERSION;
use lazyguard_core::trace::read::Recording;
use std::path::{Path, PathBuf};

/// The recordings of all versions.
fn all() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Where those of this version lie.
fn newest() -> PathBuf {
    all().join(format!("v{VERSION}"))
}

fn path(case: &Case, ending: &str) -> PathBuf {
    newest().join(format!("{}.{ending}", case.name))
}

fn within(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of golden recordings");
    let mut found: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    within(folder).into_iter().filter(|path| path.extension().is_some_and(|e| e == "lgt")).collect()
}

#[test]
fn what_is_read_from_each_golden_recording_stays_the_same() {
    for path in within(&all()).iter().flat_map(|folder| recordings(folder)) {
        let recording = Recording::open(std::fs::read(&path).expect("the recording")).expect("a recording");
        let expected = std::fs::read(path.with_extension("json")).expect("what is to be read");
        let expected: serde_json::Value = serde_json::from_slice(&expected).expect("JSON");
        let found = dump(&recording);
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&found[name], value, "{name} of {}", path.display());
        }
        assert_eq!(found.as_object().map(|o| o.len()), expected.as_object().map(|o| o.len()), "{}", path.display());
    }
}

#[test]
fn golden_recordings_show_the_defects_that_they_were_made_with_and_no_others() {
    for case in cases::all() {
        let bytes = std::fs::read(path(&case, "lgt")).expect("the recording");
        let recording = Recording::open(bytes).expect("a recording");
        let texts: Vec<_> = recording.defects().iter().map(ToString::to_string).collect();
        let expected = case.defects.iter().all(|defect| texts.iter().any(|text| text.contains(defect)));
        assert!(expected && texts.len() == case.defects.len(), "{}: {texts:#?}", case.name);
    }
}

#[test]
fn golden_recordings_are_what_their_makers_make() {
    let made = cases::all();
    // One more is made by the writer, which may come to write the same in another way.
    assert_eq!(recordings(&newest()).len(), made.len() + 1, "a recording without a maker, or a maker without one");
    for case in made {
        assert!(std::fs::read(path(&case, "lgt")).is_ok_and(|bytes| bytes == case.bytes), "{} differs", case.name);
    }
}

#[test]
#[ignore = "writes into the source tree"]
fn make_golden_recordings() {
    if std::env::var_os("LAZYGUARD_MAKE_GOLDEN").is_none() {
        return;
    }
    let written = Case { name: "written", bytes: written(), defects: &[] };
    for case in cases::all().into_iter().chain([written]) {
        let read = dump(&Recording::open(case.bytes.clone()).expect("a recording"));
        std::fs::write(path(&case, "lgt"), &case.bytes).expect("written");
        std::fs::write(path(&case, "json"), format!("{read:#}\n")).expect("written");
    }
}
