//! `lazyguard doctor`: predicts what the guard will and will not see.

use lazyguard_e2e::{app, command, driver, driver_folder, hostile_program, runtime_program, Json, Outcome, Run, Work};
use std::fs;
use std::os::unix::fs::{chown, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What the doctor found.
struct Found {
    outcome: Outcome,
    findings: Vec<Json>,
}

impl Found {
    /// Those of a level about a thing, in its words.
    fn said(&self, level: &str, about: &str) -> Vec<&str> {
        let wanted = |finding: &&Json| finding["level"] == level && finding["about"] == about;
        self.findings.iter().filter(wanted).filter_map(|finding| finding["what"].as_str()).collect()
    }

    fn expect(&self, level: &str, about: &str, what: &str) {
        let said = self.said(level, about);
        assert!(said.iter().any(|text| text.contains(what)), "no {level} {about} says {what:?}: {}", self.outcome);
    }

    fn expect_no_problem(&self) {
        assert_eq!(self.outcome.code, Some(0), "{}", self.outcome);
        assert!(self.findings.iter().all(|finding| finding["level"] != "problem"), "{}", self.outcome);
    }

    fn expect_problem(&self, about: &str, what: &str) {
        self.expect("problem", about, what);
        assert_eq!(self.outcome.code, Some(1), "{}", self.outcome);
    }
}

/// The doctor, with the simulated driver in the search path.
fn doctor<'w>(work: &'w Work, program: Option<&Path>) -> Run<'w> {
    let run = Run::new(work, command()).args(["doctor", "--format", "json"]);
    match program {
        Some(program) => run.args(["--".as_ref(), program.as_os_str()]),
        None => run,
    }
}

fn found(run: Run<'_>) -> Found {
    let outcome = run.finish();
    assert_eq!((outcome.stderr.as_str(), outcome.left_behind()), ("", Vec::<String>::new()), "{outcome}");
    let said: Json = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let findings = said["findings"].as_array().cloned().unwrap_or_default();
    for finding in &findings {
        // Each note and problem says what to do.
        assert_eq!(finding["do"].is_string(), finding["level"] != "ok", "{finding}");
    }
    let problems = findings.iter().filter(|finding| finding["level"] == "problem").count();
    assert_eq!((said["problems"].as_u64(), said["schema"].as_u64()), (Some(problems as u64), Some(1)), "{outcome}");
    assert_eq!(outcome.code, Some(i32::from(problems > 0)), "{outcome}");
    Found { outcome, findings }
}

/// A copy of a program in the test's folder.
fn copy_of(work: &Work, program: &Path, name: &str) -> PathBuf {
    let copy = work.path().join(name);
    fs::copy(program, &copy).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    copy
}

fn patched(work: &Work, name: &str, patch: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let copy = copy_of(work, &app("route_direct_link"), name);
    let mut bytes = fs::read(&copy).unwrap_or_default();
    patch(&mut bytes);
    fs::write(&copy, bytes).unwrap_or_else(|error| panic!("{}: {error}", copy.display()));
    copy
}

fn at(bytes: &[u8], text: &[u8]) -> usize {
    let found = bytes.windows(text.len()).position(|part| part == text);
    found.unwrap_or_else(|| panic!("{} is not in the program", String::from_utf8_lossy(text)))
}

/// Puts another dynamic linker's name in the place of the program's.
fn with_interpreter(work: &Work, interpreter: &str) -> PathBuf {
    const OWN: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
    assert!(interpreter.len() < OWN.len());
    patched(work, "other-linker", |bytes| {
        let place = at(bytes, OWN);
        bytes[place..place + OWN.len()].fill(0);
        bytes[place..place + interpreter.len()].copy_from_slice(interpreter.as_bytes());
    })
}

#[test]
fn the_driver_is_named_with_what_it_lets_the_guard_do_and_is_started() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = app("route_direct_link");
    let found = found(doctor(&work, Some(&program)));
    found.expect_no_problem();
    found.expect("note", "driver", "simulated driver");
    found.expect("ok", "driver", "can be listed");
    found.expect("ok", "driver", "asked as a whole whether it is idle");
    found.expect("ok", "start", "1 x Simulated H200");
    found.expect("ok", "program", "can be preloaded into it");
    found.expect("ok", "program", "calls the driver directly: 14 of its driver functions are followed");
    found.expect("ok", "settings", "defaults");
    assert_eq!(found.said("note", "driver").len(), 1, "{}", found.outcome);
}

#[test]
fn what_an_older_driver_lacks_is_said_with_what_that_means() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let missing =
        [("12040", &["12.5"][..]), ("12000", &["12.4", "12.4", "12.5"]), ("11070", &["12.0", "12.4", "12.4", "12.5"])];
    for (version, expect) in missing {
        let run = doctor(&work, None).set("LD_LIBRARY_PATH", driver_folder().join(version));
        let found = found(run.set("LGSIM_DRIVER_VERSION", version));
        found.expect_no_problem();
        let before =
            |text: &&str| text.strip_prefix("before CUDA ").and_then(|rest| rest.split(':').next()).map(str::to_owned);
        let said: Vec<_> = found.said("note", "driver").iter().filter_map(before).collect();
        assert_eq!(said, expect, "{version}: {}", found.outcome);
        found.expect("ok", "start", "Simulated");
    }
}

/// Where this machine has a driver of its own, it is found whatever the test says.
fn machine_has_a_driver() -> bool {
    let cached = fs::read("/etc/ld.so.cache").unwrap_or_default();
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    cached.windows(12).any(|part| part == b"libcuda.so.1")
        || folders.iter().any(|folder| Path::new(folder).join("libcuda.so.1").exists())
}

#[test]
fn without_a_driver_there_is_a_problem_only_for_who_needs_one() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let nowhere = work.folder("nowhere");
    let on_none = |program| found(doctor(&work, program).set("LD_LIBRARY_PATH", &nowhere));
    let needs = app("route_direct_link");
    if machine_has_a_driver() {
        let found = on_none(Some(&needs));
        assert!(!found.outcome.stdout.contains("simulated"), "{}", found.outcome);
        return;
    }
    for program in [None, Some(Path::new("/bin/true"))] {
        let found = on_none(program);
        found.expect_no_problem();
        found.expect("note", "driver", "there is no libcuda.so.1");
        assert_eq!(found.said("ok", "driver"), Vec::<&str>::new(), "{}", found.outcome);
        assert_eq!(found.said("ok", "start"), Vec::<&str>::new(), "{}", found.outcome);
    }
    on_none(Some(&needs)).expect_problem("driver", "there is no libcuda.so.1");
}

#[test]
fn a_stub_to_link_against_is_not_taken_for_a_driver() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let stubs = work.folder("cuda/lib64/stubs");
    fs::copy(driver(), stubs.join("libcuda.so.1")).unwrap();
    let bare = found(doctor(&work, None).set("LD_LIBRARY_PATH", &stubs));
    bare.expect_no_problem();
    bare.expect("note", "driver", "stub");
    let needs = found(doctor(&work, Some(&app("route_direct_link"))).set("LD_LIBRARY_PATH", &stubs));
    needs.expect_problem("driver", "stub");
}

#[test]
fn a_driver_that_does_not_start_costs_a_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = app("route_direct_link");
    for (name, value, expect) in [
        ("LGSIM_FAIL", "cuInit=803", "cuInit answers error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)"),
        ("LGSIM_FAIL", "cuInit=9999", "cuInit answers error 9999"),
        ("LGSIM_FAIL", "cuDeviceGetCount=3", "cuDeviceGetCount answers error 3"),
        ("LGSIM_NEVER_RETURN", "cuInit", "has not returned within 300ms"),
    ] {
        let limit = if name == "LGSIM_NEVER_RETURN" { "300ms" } else { "20s" };
        let run =
            || Run::new(&work, command()).args(["doctor", "--format", "json", "--start-limit", limit]).set(name, value);
        let bare = found(run());
        bare.expect_no_problem();
        bare.expect("note", "start", expect);
        found(run().args(["--".as_ref(), program.as_os_str()])).expect_problem("start", expect);
    }
    // A driver's file that has been cut short.
    let folder = work.folder("cut");
    let whole = fs::read(driver()).unwrap();
    fs::write(folder.join("libcuda.so.1"), &whole[..4096]).unwrap();
    found(doctor(&work, None).set("LD_LIBRARY_PATH", &folder))
        .expect_problem("driver", "libcuda.so.1 cannot be loaded: the dynamic linker was ended by signal 7");
}

#[test]
fn hidden_devices_are_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = app("route_direct_link");
    let hidden = |program| found(doctor(&work, program).set("CUDA_VISIBLE_DEVICES", "-1"));
    hidden(None).expect("note", "devices", "hides every device");
    hidden(Some(program.as_path())).expect_problem("devices", "hides every device");
}

#[test]
fn what_nothing_can_be_preloaded_into_is_a_problem() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let without_linker = patched(&work, "static", |bytes| {
        // The program header that names the dynamic linker becomes one that says nothing.
        let (headers, size) = (u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize, 56);
        let header = (0..).map(|n| headers + n * size).find(|at| bytes[*at..*at + 4] == 3_u32.to_le_bytes()).unwrap();
        bytes[header..header + 4].fill(0);
    });
    let of_another_machine = patched(&work, "aarch64", |bytes| bytes[18..20].copy_from_slice(&183_u16.to_le_bytes()));
    let narrow = patched(&work, "narrow", |bytes| bytes[4] = 1);
    let musl = with_interpreter(&work, "/lib/ld-musl-x86_64.so.1");
    let said = |program: &Path| found(doctor(&work, Some(program)));
    said(&without_linker).expect_problem("program", "is linked statically");
    said(&of_another_machine).expect_problem("program", "is for aarch64, the guard's library for x86-64");
    said(&narrow).expect_problem("program", "32 bits");
    said(&musl).expect_problem("program", "musl");
    let gone = with_interpreter(&work, "/nowhere/ld-linux.so");
    said(&gone).expect_problem("program", "/nowhere/ld-linux.so, which is not there");
    let text = work.path().join("text");
    fs::write(&text, "no program").unwrap();
    said(&text).expect_problem("program", "neither a program of this system nor a script");
    said(Path::new("no-such-program-anywhere")).expect_problem("program", "no such program in PATH");
}

/// The superuser may give a file to another user, and then runs it as that user.
#[test]
fn set_user_id_is_a_problem_for_whoever_it_makes_another_user() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let copy = copy_of(&work, &app("route_direct_link"), "set-user-id");
    let is_others = chown(&copy, Some(65534), None).is_ok();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    let found = found(doctor(&work, Some(&copy)));
    match is_others {
        true => found.expect_problem("program", "is set-user-id"),
        false => found.expect("note", "program", "is set-user-id"),
    }
}

/// Only a superuser may give them, on a file system that keeps them.
#[test]
fn capabilities_of_a_file_are_seen() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let copy = copy_of(&work, &app("route_direct_link"), "capable");
    let none = found(doctor(&work, Some(&copy)));
    assert!(!none.outcome.stdout.contains("capabilities of its file"), "{}", none.outcome);
    let mut give = std::process::Command::new("setcap");
    let given = give.arg("cap_net_raw+ep").arg(&copy).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
    if given.is_ok_and(|output| output.status.success()) {
        found(doctor(&work, Some(&copy))).expect("note", "program", "capabilities of its file");
    }
}

#[test]
fn a_program_that_cannot_be_read_is_said_to_be_unknown() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let copy = copy_of(&work, &app("route_direct_link"), "unreadable");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o111)).unwrap();
    found(doctor(&work, Some(&copy)).powerless()).expect_problem("program", "nothing can be told of it");
}

#[test]
fn a_script_is_followed_to_its_interpreter() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = |name: &str, first: &str| {
        let path = work.path().join(name);
        fs::write(&path, format!("#!{first}\n")).unwrap();
        path
    };
    let through_env = script("through-env", "/usr/bin/env -S A=1 bash");
    let nested = script("nested", &through_env.display().to_string());
    let found_nested = found(doctor(&work, Some(&nested)));
    found_nested.expect_no_problem();
    found_nested.expect("note", "program", "nested is a script (");
    found_nested.expect(
        "note",
        "program",
        "through-env is a script (#!/usr/bin/env -S A=1 bash): the guard goes into bash",
    );
    found_nested.expect("ok", "program", "can be preloaded into it");
    let endless = work.path().join("endless");
    let endless = script("endless", &endless.display().to_string());
    found(doctor(&work, Some(&endless))).expect_problem("program", "without end");
    found(doctor(&work, Some(&script("empty", "")))).expect_problem("program", "without an interpreter");
}

#[test]
fn ways_past_the_guard_are_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let said = |program: &Path| found(doctor(&work, Some(program)));
    said(&hostile_program("own_dlsym")).expect_problem("program", "defines dlsym itself");
    said(&app("route_dlmopen")).expect("note", "program", "dlmopen");
    said(&app("libroute_interposer.so")).expect(
        "note",
        "program",
        "defines 1 names of the driver itself (cuLaunchKernel",
    );
}

#[test]
fn fat_binaries_are_counted_against_the_nudge_in_force() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = app("lazy_pair");
    let with = |name: &str, value: &str| found(doctor(&work, Some(&program)).set(name, value));
    with("LAZYGUARD_NUDGE", "1").expect("ok", "program", "lazy_pair holds 1 fat binary");
    with("LAZYGUARD_NUDGE", "0").expect("note", "program", "more than LAZYGUARD_NUDGE (0)");
    with("LAZYGUARD_PRELOAD", "resolve").expect("note", "program", "LAZYGUARD_PRELOAD is not auto");
    let shared = found(doctor(&work, Some(&runtime_program("runtime-shared", "lazy_pair"))));
    shared.expect("ok", "program", "libcudart.so.13 is /");
    shared.expect("ok", "program", "with the shared CUDA runtime");
}

#[test]
fn a_library_that_is_missing_is_named_with_who_needs_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = patched(&work, "needs", |bytes| {
        let place = at(bytes, b"libc.so.6\0");
        bytes[place..place + 9].copy_from_slice(b"libc.so.9");
    });
    found(doctor(&work, Some(&program))).expect_problem("program", "libc.so.9, which needs needs");
}

#[test]
fn what_else_is_preloaded_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let other = app("libroute_interposer.so");
    let found = found(doctor(&work, None).beside(vec![other.clone()], Vec::new()));
    let named = format!("LD_PRELOAD names {}, which defines cuLaunchKernel: both orders work", other.display());
    found.expect("ok", "preloaded", &named);
    let guarded = self::found(doctor(&work, None).guarded());
    guarded.expect("ok", "preloaded", "has the guard already");
    let behind = self::found(doctor(&work, None).beside(vec![other], Vec::new()).guarded());
    behind.expect("note", "preloaded", "behind another library");
    behind.expect("ok", "preloaded", "the guard sees what it calls of the driver");
    // One that answers look-ups itself has to be behind the guard.
    let asked = app("libroute_dlsym_interposer.so");
    let with = |before: Vec<PathBuf>, after: Vec<PathBuf>| doctor(&work, None).beside(before, after);
    let defines = "which defines dlsym, and defines cuLaunchKernel: it works behind the guard alone";
    self::found(with(vec![asked.clone()], Vec::new())).expect("note", "preloaded", defines);
    self::found(with(Vec::new(), vec![asked.clone()]).guarded()).expect("note", "preloaded", "as it is here");
    self::found(with(vec![asked], Vec::new()).guarded()).expect_problem("preloaded", "here it is in front");
    self::found(doctor(&work, None).set("CUDA_INJECTION64_PATH", "/opt/tool.so")).expect(
        "note",
        "preloaded",
        "/opt/tool.so",
    );
}

#[test]
fn settings_that_cannot_be_used_are_a_problem_and_the_others_are_listed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let wrong = doctor(&work, None).set("LAZYGUARD_PRELOAD", "everything").set("LAZYGUARD_TYPO", "1");
    let wrong = found(wrong);
    wrong.expect_problem("settings", "everything");
    wrong.expect_problem("settings", "LAZYGUARD_TYPO");
    let right = found(doctor(&work, None).set("LAZYGUARD_PRELOAD", "off").set("LAZYGUARD_LOG", "launch"));
    right.expect_no_problem();
    right.expect("ok", "settings", "LAZYGUARD_PRELOAD=off LAZYGUARD_LOG=launch");
    found(doctor(&work, None).set("LAZYGUARD", "off")).expect("note", "settings", "untouched");
}

#[test]
fn the_run_folder_is_tried_and_not_made() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("runs/%r");
    let fits = found(doctor(&work, None).set("LAZYGUARD_OUT", &out).set("RANK", "3"));
    fits.expect_no_problem();
    fits.expect("ok", "folder", &work.path().join("runs/3").display().to_string());
    assert!(!work.path().join("runs").exists());
    found(doctor(&work, None).set("LAZYGUARD_OUT", "/proc/none")).expect_problem("folder", "/proc/none");
    // A private folder on a disk.
    let private = found(doctor(&work, None));
    private.expect("ok", "folder", "TMPDIR");
}

#[test]
fn text_is_a_line_a_finding_and_a_line_with_what_to_do() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, command())
        .args(["doctor".as_ref(), "--".as_ref(), hostile_program("own_dlsym").as_os_str()])
        .finish();
    assert_eq!(outcome.code, Some(1), "{outcome}");
    for line in outcome.stdout.lines() {
        let known =
            ["ok       ", "note     ", "problem  ", "         do: "].iter().any(|start| line.starts_with(start));
        assert!(known, "{line}\n{outcome}");
    }
    assert!(outcome.stdout.contains("problem  program: own_dlsym defines dlsym itself"), "{outcome}");
}
