//! Makes one test function of each program and each question, from the two lists of programs.
//!
//! Test harnesses find functions, not table rows; made here, each row is a test of its own with a name, a failure of its
//! own and a command that reruns it alone.

use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let lists = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let programs = read(&lists.join("programs.json"));
    fs::write(out.join("apps.rs"), apps(&programs)).expect("OUT_DIR can be written");
    fs::write(out.join("crash.rs"), hangs(&programs)).expect("OUT_DIR can be written");
    fs::write(out.join("hostile.rs"), hostile(&read(&lists.join("hostile/programs.json"))))
        .expect("OUT_DIR can be written");
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
