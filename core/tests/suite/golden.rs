//! Recordings of every version of the format, and what is read from them; and the JSON forms of every number.
//!
//! `LAZYGUARD_MAKE_GOLDEN=1 cargo test -p lazyguard-core --test suite -- --ignored golden::` writes those of this version anew.

use crate::support::cases::{self, Case};
use crate::support::dump::dump;
use crate::support::written::written;
use lazyguard_core::hazard::HazardFile;
use lazyguard_core::report::{other_schema, DumpReport, HangReport, Summary, SCHEMA};
use lazyguard_core::trace::layout::VERSION;
use lazyguard_core::trace::read::Recording;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
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
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
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

/// The keys of an old form that are gone from the form as it is read and written now, or have another value. A key may be new.
fn lost(old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let is_empty = |value: &Value| {
                value.is_null() || value == &Value::Bool(false) || value.as_array().is_some_and(Vec::is_empty)
            };
            for (key, value) in old.iter().filter(|(_, value)| !is_empty(value)) {
                lost(value, new.get(key).unwrap_or(&Value::Null), &format!("{at}.{key}"), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).for_each(|(old, new)| lost(old, new, at, found));
        }
        _ if old == new => {}
        _ => found.push(format!("{at}: {old} is {new}")),
    }
}

fn read_again<T: DeserializeOwned + Serialize>(text: &str) -> Value {
    let read: T = serde_json::from_str(text).expect("a form of this number is read");
    serde_json::to_value(read).expect("JSON")
}

/// The files of a run as an earlier build has written them, a folder for each number.
#[test]
fn a_json_form_that_reads_differently_has_another_number() {
    for folder in within(&all().join("forms")) {
        let number: u32 = folder.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()).expect("a number");
        for path in within(&folder) {
            let text = std::fs::read_to_string(&path).expect("the form");
            if number != SCHEMA {
                assert_eq!(other_schema(&text), Some(number), "{}", path.display());
                continue;
            }
            assert_eq!(other_schema(&text), None);
            let new = match path.file_name().and_then(|name| name.to_str()) {
                Some("hang.json") => read_again::<HangReport>(&text),
                Some("run.json") => read_again::<Summary>(&text),
                Some("hazards.json") => read_again::<HazardFile>(&text),
                Some("dump.json") => read_again::<DumpReport>(&text),
                name => panic!("{name:?} is no form"),
            };
            let mut found = Vec::new();
            lost(&serde_json::from_str(&text).expect("JSON"), &new, "", &mut found);
            assert!(found.is_empty(), "{}: raise SCHEMA: {found:#?}", path.display());
        }
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
