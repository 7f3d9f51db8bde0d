//! The lists of programs and the built programs say the same.

use lazyguard_e2e::{apps, corpus, hostile, root, target, Expect};
use std::collections::BTreeSet;
use std::fs;

/// Built beside the programs: one measures and one runs for minutes, for scripts of their own; `corpus` is the file that the names of the
/// corpus are links to; `refusing` starts other programs.
/// The last is run by a trap.
const TOOLS: [&str; 5] = ["launch_bench", "soak", "corpus", "refusing", "every_export"];
/// Traps that no hostile program shows, and the test that does. 10 is what the `cold_trigger` programs are about.
const COVERED_ELSEWHERE: [(u64, &str); 2] =
    [(10, "cold_trigger"), (13, "trap_13_the_library_asks_for_no_new_c_library")];

/// The programs in a folder of built things, less the tools; what they load is not a program.
fn built(folder: &str) -> BTreeSet<String> {
    let path = target().join(folder);
    let entries =
        fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}; scripts/build makes it", path.display()));
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("lib") && !TOOLS.contains(&name.as_str())).collect()
}

fn listed(folder: &str) -> BTreeSet<String> {
    let apps = apps().into_iter().filter(|_| folder == "apps").map(|app| app.program().to_owned());
    let hostile = hostile().into_iter().filter(|run| run.entry["folder"].as_str().unwrap_or("hostile") == folder);
    let hostile = hostile.filter_map(|run| Some(run.program()?.file_name()?.to_string_lossy().into_owned()));
    apps.chain(hostile).collect()
}

#[test]
fn every_built_app_is_listed_and_every_listed_app_is_built() {
    assert_eq!(built("apps"), listed("apps"), "left: built; right: listed");
}

#[test]
fn every_built_hostile_program_is_listed_and_every_listed_one_is_built() {
    assert_eq!(built("hostile"), listed("hostile"), "left: built; right: listed");
}

#[test]
fn every_built_program_of_the_corpus_has_its_source_and_every_source_is_built() {
    let sources: BTreeSet<_> = corpus().into_iter().map(|program| program.name).collect();
    assert_eq!(built("corpus"), sources, "left: built; right: sources");
}

#[test]
fn the_corpus_covers_every_code_of_a_hang() {
    let (mut codes, mut hang, mut slow) = (BTreeSet::new(), 0, 0);
    for program in corpus() {
        match program.header.expect {
            Expect::Hang { code, .. } => {
                hang += 1;
                codes.insert(code);
            }
            Expect::Ends { .. } => slow += 1,
            // `hazards` asks whether every code of a hazard has its programs.
            Expect::Hazards { .. } => {}
        }
    }
    let every: BTreeSet<_> = (201..=208).chain([211, 212, 299]).map(|number| format!("LG{number}")).collect();
    assert_eq!(codes, every);
    assert!(hang >= 26 && slow >= 14, "the corpus has shrunk: {hang} that hang, {slow} that are slow");
}

#[test]
fn every_source_of_a_program_is_built() {
    let c = &["c", "cpp"][..];
    let cpp = &["cpp"][..];
    for (sources, folder, extensions) in [
        ("apps", "apps", cpp),
        ("ranks", "ranks", cpp),
        ("races", "races", cpp),
        ("hostile", "hostile", c),
        ("stacks", "stacks", c),
        ("nvml", "nvml", c),
    ] {
        let path = root().join("testapps").join(sources);
        let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).flatten();
        for source in entries.map(|entry| entry.path()) {
            let extension = source.extension().unwrap_or_default().to_string_lossy().into_owned();
            let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if extensions.contains(&extension.as_str()) {
                let name = if stem.starts_with("lib") { format!("{stem}.so") } else { stem };
                assert!(target().join(folder).join(&name).is_file(), "{} is not built", source.display());
            }
        }
    }
}

#[test]
fn every_trap_has_its_test() {
    let shown: BTreeSet<u64> = hostile().iter().filter_map(|run| run.entry["trap"].as_u64()).collect();
    for trap in 1..=17 {
        let elsewhere = COVERED_ELSEWHERE.iter().any(|(number, _)| *number == trap);
        assert!(shown.contains(&trap) || elsewhere, "no test is named for trap {trap}");
    }
    assert!(
        apps().iter().filter(|app| app.name.starts_with("cold_trigger_")).count() >= 7,
        "trap 10 has lost its programs"
    );
}
