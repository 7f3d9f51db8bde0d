//! Where a report says that a kernel was launched: on the program's own line, and neither in the CUDA runtime nor in a function that nvcc makes.

use lazyguard_e2e::{command, root, stack_program, Run, Work};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The lines by which a hang's reports say where the kernel was launched.
struct Told {
    /// That of the process, which knows no names.
    live: String,
    /// That of the command, from the folder.
    reported: String,
    /// That of the command, from the recording alone.
    recorded: String,
    /// The record of the launch, as `log` has it.
    logged: String,
}

fn told(test: &str, program: &str, kind: &str) -> Told {
    let work = Work::new(test);
    let run = Run::new(&work, stack_program(program)).args([kind]).guarded().kept().hang_after("200ms");
    let mut running = run.start();
    let folder = running.until_a_hang_is_reported();
    let live = launched(&running.stderr());
    // The recording alone shows a hang once the process was last seen after three thresholds.
    thread::sleep(Duration::from_millis(500));
    drop(running);
    let reported = launched(&folder.report("text"));
    fs::remove_file(folder.path().join("hang.json")).unwrap_or_else(|error| panic!("{error}"));
    let recorded = launched(&folder.report("text"));
    let log = Run::new(&work, command()).args(["log"]).args([folder.path()]).finish();
    let launches = |line: &&str| line.contains(" of spin_until ") || line.contains("cuGraphLaunch");
    let logged = log.stdout.lines().rfind(launches).map(str::to_owned);
    Told { live, reported, recorded, logged: logged.unwrap_or_else(|| panic!("no launch of spin_until: {log}")) }
}

fn launched(report: &str) -> String {
    let lines = || report.lines().filter_map(|line| line.split_once("spin_until launched at "));
    let (_, place) = lines().next_back().unwrap_or_else(|| panic!("no place of a launch in\n{report}"));
    place.to_owned()
}

/// `FUNCTION FILE:LINE` of the line of a source that holds a text.
fn line(function: &str, file: &str, what: &str) -> String {
    let path = root().join("testapps/stacks").join(file);
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = source.lines().position(|line| line.contains(what)).map(|at| at + 1);
    format!("{function} {file}:{}", number.unwrap_or_else(|| panic!("no line with {what:?} in {file}")))
}

/// A place by file and offset leads to this place, by the debug information of a file of the same code.
fn expect_offset(place: &str, module: &str, debug: &str, expected: &str) {
    let offset = place.strip_prefix(&format!("{module}+0x")).and_then(|offset| u64::from_str_radix(offset, 16).ok());
    let call = offset.unwrap_or_else(|| panic!("{place} is not in {module}")) - 1;
    let file = stack_program(debug);
    let output = Command::new("addr2line").args(["-f", "-i", "-C", "-e"]).arg(&file).arg(format!("{call:#x}")).output();
    let told = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let told = told.unwrap_or_else(|error| panic!("addr2line: {error}"));
    let (function, line) = expected.split_once(' ').unwrap_or_default();
    let frames: Vec<_> = told.lines().collect();
    let is_there =
        frames.chunks(2).any(|frame| frame[0].starts_with(function) && frame[1].contains(&format!("/{line}")));
    assert!(is_there, "{place} is not {expected}, but\n{told}");
}

fn expect_named(told: &Told, program: &str, place: &str) {
    assert_eq!((told.reported.as_str(), told.recorded.as_str()), (place, place));
    let (function, line) = place.split_once(' ').unwrap_or_default();
    assert!(told.logged.contains(&format!("{function}, /")) && told.logged.contains(line), "{}", told.logged);
    expect_offset(&told.live, program, program, place);
}

#[test]
fn with_the_runtime_in_the_program() {
    let told = told(lazyguard_e2e::this_test!(), "launches", "static");
    expect_named(&told, "launches", &line("main", "launches.h", "// launches"));
}

#[test]
fn with_the_runtime_in_a_library_without_symbols() {
    let told = told(lazyguard_e2e::this_test!(), "launches", "shared");
    expect_named(&told, "launches", &line("main", "launches.h", "// launches"));
}

#[test]
fn of_a_graph() {
    let told = told(lazyguard_e2e::this_test!(), "launches", "graph");
    expect_named(&told, "launches", &line("main", "launches.h", "// graph"));
}

/// There the frames have frame pointers, and the kernel's own function on the host is one of them.
#[test]
fn of_a_program_that_is_not_optimised() {
    for kind in ["static", "shared"] {
        let told = told(&format!("{}_{kind}", lazyguard_e2e::this_test!()), "launches_unoptimised", kind);
        expect_named(&told, "launches_unoptimised", &line("main", "launches.h", "// launches"));
    }
}

#[test]
fn in_a_library_of_the_programs_own() {
    let told = told(lazyguard_e2e::this_test!(), "launches", "library");
    let place = line("launches_for", "liblaunches.cpp", "// for the program");
    assert_eq!((&told.reported, &told.recorded), (&place, &place));
    expect_offset(&told.live, "liblaunches.so", "liblaunches.so", &place);
}

#[test]
fn of_a_program_without_symbols() {
    let place = line("main", "launches.h", "// launches");
    let graph = line("main", "launches.h", "// graph");
    for (kind, place) in [("static", &place), ("shared", &place), ("graph", &graph)] {
        let told = told(&format!("{}_{kind}", lazyguard_e2e::this_test!()), "launches_stripped", kind);
        // The same code as that of the program with symbols.
        expect_offset(&told.live, "launches_stripped", "launches", place);
        assert_eq!(told.reported, told.live);
    }
}
