//! Programs that are built with a sanitizer run under the guard, and the sanitizer still finds its errors.
//!
//! The tests compile them with the C++ compiler that has built the other programs. A test whose sanitizer is not installed is skipped,
//! and says so.

use crate::run_passes_on::under;
use lazyguard_e2e::{command, root, skipped, target, Outcome, Run, Work};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles; `None`, and why, where the sanitizer is not there.
fn compiled(work: &Work, sanitizer: &str, name: &str, more: &[&str]) -> Option<String> {
    let folder = work.path().join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join(format!("{name}-{sanitizer}"));
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    compiler.args(["-std=c++17", "-O1", "-g", "-pthread", &format!("-fsanitize={sanitizer}"), "-o"]).arg(&program);
    let output = compiler.args(more).output().unwrap_or_else(|error| panic!("c++: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && said.contains("cannot find") {
        skipped(&format!("this compiler has no {sanitizer} sanitizer: {said}"));
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program.to_string_lossy().into_owned())
}

/// Reads what has been freed if it has an argument.
const FREES: &str = "#include <cstdio>\n#include <cstdlib>\n\
    int main(int count, char **) {\n\
    \x20 volatile char *text = static_cast<char *>(std::malloc(8));\n\
    \x20 text[1] = 'x';\n\
    \x20 std::free(const_cast<char *>(text));\n\
    \x20 if (count > 1) std::printf(\"%c\\n\", text[1]);\n\
    \x20 std::puts(\"done\");\n\
    }\n";

const OWN_OPTIONS: &str = "extern \"C\" const char *__asan_default_options() { return \"exitcode=42\"; }\n";

fn frees(work: &Work, sanitizer: &str, before: &str) -> Option<String> {
    let source = work.path().join("frees.cpp");
    std::fs::write(&source, format!("{before}{FREES}")).unwrap();
    compiled(work, sanitizer, if before.is_empty() { "frees" } else { "own" }, &[&source.to_string_lossy()])
}

fn expect_done(outcome: &Outcome) {
    let said = (outcome.stdout.as_str(), outcome.stderr.as_str());
    assert_eq!((outcome.code, said), (Some(0), ("done\n", "")), "{outcome}");
}

/// Directly, by a shell, by the library alone.
fn ways<'w>(work: &'w Work, program: &str, argument: &str) -> [Run<'w>; 3] {
    let shell = format!("'{program}' {argument}; exit $?");
    let words: Vec<_> = [program, argument].into_iter().filter(|word| !word.is_empty()).collect();
    let alone = Run::new(work, program).args(&words[1..]).guarded();
    [under(work, &[], &words), under(work, &[], &["sh", "-c", &shell]), alone]
}

#[test]
fn a_program_with_a_sanitizer_runs_and_its_errors_are_found() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (sanitizer, error) in [
        ("address", Some("heap-use-after-free")),
        ("thread", Some("heap-use-after-free")),
        ("leak", None),
        ("undefined", None),
    ] {
        let Some(program) = frees(&work, sanitizer, "") else { continue };
        ways(&work, &program, "").into_iter().for_each(|run| expect_done(&run.finish()));
        let Some(error) = error else { continue };
        let bare = Run::new(&work, &program).args(["x"]).finish();
        assert!(bare.code != Some(0) && bare.stderr.contains(error), "{bare}");
        for run in ways(&work, &program, "x") {
            let outcome = run.finish();
            assert_eq!(outcome.code, bare.code, "{outcome}");
            assert!(outcome.stderr.contains(error), "{outcome}");
        }
    }
}

/// The program's own options come first, and `lazyguard run` says the one that is missing in the environment, behind what the user says.
#[test]
fn a_program_with_options_of_its_own_is_started_by_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(program) = frees(&work, "address", OWN_OPTIONS) else { return };
    expect_done(&under(&work, &[], &[&program]).finish());
    let outcome = under(&work, &[], &[&program, "x"]).finish();
    assert_eq!(outcome.code, Some(42), "its own options hold: {outcome}");
    let outcome = under(&work, &[], &[&program, "x"]).set("ASAN_OPTIONS", "exitcode=43").finish();
    assert_eq!(outcome.code, Some(43), "and the user's: {outcome}");
    // No other program finds a variable that it has not been given.
    let outcome = under(&work, &[], &["sh", "-c", "echo \"${ASAN_OPTIONS-none}\""]).finish();
    assert_eq!(outcome.stdout, "none\n", "{outcome}");
}

#[test]
fn the_doctor_knows_which_of_them_start() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (Some(plain), Some(own)) = (frees(&work, "address", ""), frees(&work, "address", OWN_OPTIONS)) else { return };
    let said = |program: &str, options: &str| {
        let run = Run::new(&work, command()).args(["doctor", "--", program]).set("ASAN_OPTIONS", options).finish();
        let line = run.stdout.lines().find(|line| line.contains("AddressSanitizer")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{run}"))
    };
    assert!(said(&plain, "").starts_with("ok "), "{}", said(&plain, ""));
    assert!(said(&own, "").starts_with("note ") && said(&own, "").contains("options of its own"));
    assert!(said(&own, "verify_asan_link_order=0").starts_with("ok "));
    assert!(said(&plain, "verify_asan_link_order=1").starts_with("note "));
}

const NO_LEAKS: &str = "detect_leaks=0";

fn twin(work: &Work, sanitizer: &str) -> Option<String> {
    // It looks for its kernels beside its folder.
    let kernels = work.path().join("kernels");
    if !kernels.exists() {
        std::os::unix::fs::symlink(target().join("kernels"), kernels).unwrap();
    }
    let common = root().join("testapps/common");
    let include = target().join("cuda/include");
    let sources: [PathBuf; 2] = [root().join("testapps/apps/lazy_pair.cpp"), common.join("runtime_twin.cpp")];
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let words = [text(&sources[0]), text(&sources[1]), "-isystem".into(), text(&include), "-I".into(), text(&common)];
    let more = [target().join("simdriver/libcuda.so"), target().join("simdriver")].map(|path| text(&path));
    let words: Vec<_> = words.iter().chain(&more[..1]).map(String::as_str).chain(["-ldl"]).collect();
    compiled(work, sanitizer, "twin", &words)
}

/// The guard prevents the hang, and reports it, in a program with a sanitizer as in any other. Leaks are not looked for: that search
/// reads all memory, and does not bear the simulated driver's device memory, with the guard or without.
#[test]
fn a_cuda_program_with_a_sanitizer_is_guarded() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for sanitizer in ["address", "thread"] {
        let Some(program) = twin(&work, sanitizer) else { continue };
        let outcome = under(&work, &["--timeout", "25s"], &[&program]).set("ASAN_OPTIONS", NO_LEAKS).finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{sanitizer}: {outcome}");
        let options = ["--preload", "off", "--hang-after", "500ms", "--on-hang", "kill", "--timeout", "20s"];
        let run = under(&work, &options, &[&program]).set("ASAN_OPTIONS", NO_LEAKS);
        let outcome = run.start().finish_within(lazyguard_e2e::PATIENCE);
        assert_eq!(outcome.code, Some(117), "{sanitizer}: {outcome}");
        assert!(outcome.stderr.contains("LG201"), "{sanitizer}: {outcome}");
    }
}

/// Four threads look names up in a library that they load.
const LOOKS_UP: &str = "#include <dlfcn.h>\n#include <cstdio>\n#include <thread>\n#include <vector>\n\
    static void looks() { for (int i = 0; i < 20; ++i) { void *h = dlopen(\"libm.so.6\", RTLD_NOW); if (!dlsym(h, \"cos\")) return; dlclose(h); } }\n\
    int main() { std::vector<std::thread> all; for (int i = 0; i < 4; ++i) all.emplace_back(looks); for (auto &one : all) one.join(); puts(\"done\"); }\n";

/// Helgrind does not see an atomic operation, and the guard says which memory has no other.
#[test]
fn helgrind_finds_no_race_of_the_guard_s() {
    /// The simulated driver has a few, by the moment; the guard would have hundreds.
    const FEW: usize = 20;
    let work = Work::new(lazyguard_e2e::this_test!());
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skipped("valgrind is not installed");
    }
    let (source, looks_up) = (work.path().join("looks.cpp"), work.path().join("looks"));
    std::fs::write(&source, LOOKS_UP).unwrap();
    let built =
        Command::new("c++").args(["-O1", "-g", "-pthread", "-o"]).args([&looks_up, &source]).arg("-ldl").status();
    assert!(built.is_ok_and(|built| built.success()));
    let run = |program: &Path| {
        Run::new(&work, "valgrind").args(["-q", "--tool=helgrind", "--error-exitcode=9"]).args([program])
    };
    let bare = run(&looks_up).finish();
    assert_eq!(bare.code, Some(0), "{bare}");
    run(&looks_up).guarded().finish().expect_same_as(&bare);
    let job = run(&lazyguard_e2e::hostile_program("plain_job")).guarded().finish();
    assert!(job.stdout == "sum 55\n" && job.stderr.matches("Possible data race").count() <= FEW, "{job}");
}
