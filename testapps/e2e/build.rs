//! Makes one test function of each program and each question, from the two lists of programs and from the first lines of the corpus.
//!
//! Test harnesses find functions, not table rows; made here, each row is a test of its own with a name, a failure of its
//! own and a command that reruns it alone.

use header::{Expect, Header};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "src/header.rs"]
mod header;

fn main() {
    let lists = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let programs = read(&lists.join("programs.json"));
    fs::write(out.join("apps.rs"), apps(&programs)).expect("OUT_DIR can be written");
    fs::write(out.join("crash.rs"), hangs(&programs)).expect("OUT_DIR can be written");
    fs::write(out.join("hostile.rs"), hostile(&read(&lists.join("hostile/programs.json"))))
        .expect("OUT_DIR can be written");
    println!("cargo::rerun-if-changed=src/header.rs");
    let corpus =
        |parts: &[&str]| parts.iter().map(|part| part_of_corpus(&lists.join("corpus"), part)).collect::<String>();
    fs::write(out.join("corpus.rs"), corpus(&["hang", "slow"])).expect("OUT_DIR can be written");
    fs::write(out.join("hazards.rs"), corpus(&["hazard"])).expect("OUT_DIR can be written");
}

fn read(path: &Path) -> Map<String, Value> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_app(entry: &Value) -> bool {
    entry["kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "app"))
}

/// A module of the program's name with a test for each question that fits it.
fn apps(programs: &Map<String, Value>) -> String {
    let mut code = String::new();
    for (name, entry) in programs.iter().filter(|(_, entry)| is_app(entry)) {
        let questions: &[&str] = match (entry["hangs_bare"] == true, entry["hangs_guarded"] == true) {
            (false, _) => &[
                "bare_it_completes",
                "guarded_it_prints_the_same_under_every_policy",
                "every_call_reaches_the_driver_once",
            ],
            (true, false) => &[
                "bare_it_hangs",
                "guarded_it_completes",
                "switched_off_it_hangs_in_silence",
                "without_preloading_it_hangs_and_is_diagnosed",
            ],
            (true, true) => {
                &["bare_it_hangs", "guarded_it_hangs_and_is_diagnosed", "without_preloading_it_hangs_and_is_diagnosed"]
            }
        };
        module(&mut code, name, questions);
    }
    code
}

/// The same for every program that hangs without preloading, killed while it does.
fn hangs(programs: &Map<String, Value>) -> String {
    let mut code = String::new();
    for (name, entry) in programs.iter().filter(|(_, entry)| is_app(entry)) {
        if entry["hangs_bare"] == true {
            module(&mut code, name, &["killed_it_is_diagnosed_from_its_folder"]);
        }
    }
    code
}

/// A module of the name of each program of a part of the corpus, which has to stand in the folder that its first lines say.
fn part_of_corpus(corpus: &Path, part: &str) -> String {
    let folder = corpus.join(part);
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut sources: Vec<_> = entries.map(|entry| entry.expect("a folder can be read to its end").path()).collect();
    sources.sort();
    let mut code = String::new();
    for source in sources {
        println!("cargo::rerun-if-changed={}", source.display());
        let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let header = Header::of(&text).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let its_part = match header.expect {
            Expect::Hang { .. } => "hang",
            Expect::Ends { .. } => "slow",
            Expect::Hazards { .. } => "hazard",
        };
        assert_eq!(its_part, part, "{} is in the wrong folder", source.display());
        let name = source.file_stem().expect("a source has a name").to_string_lossy();
        module(&mut code, &name, questions_of(&header));
    }
    code
}

fn questions_of(header: &Header) -> &'static [&'static str] {
    if matches!(header.expect, Expect::Hazards { .. }) {
        return &["its_hazards_are_told_live_and_from_its_recording_and_no_others"];
    }
    if header.told.is_some() {
        return match header.expect {
            Expect::Hang { .. } => &["bare_it_hangs", "what_is_said_of_it_is_known"],
            _ => &["it_ends_and_what_is_said_of_it_is_known"],
        };
    }
    match (&header.expect, header.default.as_deref()) {
        (Expect::Ends { .. } | Expect::Hazards { .. }, _) => &["it_ends_and_is_never_called_a_hang"],
        (Expect::Hang { .. }, None) => &["bare_it_hangs", "the_verdict_is_right_live_and_from_its_folder"],
        (Expect::Hang { .. }, Some("completes")) => &[
            "bare_it_hangs",
            "the_verdict_is_right_live_and_from_its_folder",
            "under_the_default_settings_it_completes",
        ],
        (Expect::Hang { .. }, Some(_)) => &[
            "bare_it_hangs",
            "the_verdict_is_right_live_and_from_its_folder",
            "under_the_default_settings_the_verdict_is_right",
        ],
    }
}

fn hostile(runs: &Map<String, Value>) -> String {
    let mut code = String::new();
    for name in runs.keys() {
        module(&mut code, name, &["guarded_it_behaves_as_bare"]);
    }
    code
}

fn module(code: &mut String, name: &str, questions: &[&str]) {
    let _ = writeln!(code, "mod {name} {{");
    for question in questions {
        let _ = writeln!(code, "    #[test]\n    fn {question}() {{\n        super::{question}(lazyguard_e2e::this_test!(), {name:?});\n    }}");
    }
    let _ = writeln!(code, "}}\n");
}
