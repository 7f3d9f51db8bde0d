//! CUDA runtimes of several versions under the guard.
//!
//! NVIDIA's own runtimes start on the simulated driver until they ask it to prove that NVIDIA made it (testapps/simdriver/README.md): they look
//! their functions up, ask for the loading mode, and end with an error. What comes after that is asked of the twins in testapps/apps, which
//! look up what a version looks up and make the calls of 13.0.

use lazyguard_e2e::{cuda_runtime, driver_folder, hostile_program, root, run, runtime_program, text, App, Run, Work};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Runtimes by their versions: as NVIDIA writes it, and as a number.
const OLDER: [(&str, &str); 4] = [("11.8", "11080"), ("12.0", "12000"), ("12.4", "12040"), ("12.9", "12090")];

const HANGS: Duration = Duration::from_secs(2);

/// What the runtime of a version looks up, by testapps/common/runtime_lookups.inc, as the simulated driver logs it.
fn recorded_look_ups(runtime: &str) -> Vec<String> {
    let path = root().join("testapps/common/runtime_lookups.inc");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let runtime: u32 = runtime.parse().expect("a number");
    let rows = text.lines().filter_map(|line| line.strip_prefix("LOOKUP(\"")?.strip_suffix(')'));
    let asked = rows.filter_map(|row| {
        let (symbol, numbers) = row.split_once("\", ").expect("a symbol, then numbers");
        let numbers: Vec<u32> = numbers.split(", ").map(|number| number.parse().expect("a number")).collect();
        let [version, flags, first, last] = numbers[..] else { panic!("not four numbers: {row}") };
        (first..=last).contains(&runtime).then(|| format!("{version} {flags} {symbol}"))
    });
    asked.collect()
}

fn look_ups_of(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    text.lines().map(str::to_owned).collect()
}

/// The driver's answers are the same with the guard: else the runtime would ask for something else, or end otherwise.
fn expect_starts_alike<'w>(
    work: &'w Work,
    start: impl Fn() -> Run<'w>,
    driver: &str,
    runtime: &str,
    name: &str,
) -> String {
    let logs = [work.path().join(format!("{name}-bare")), work.path().join(format!("{name}-guarded"))];
    let on = |log: &Path| start().set("LGSIM_DRIVER_VERSION", driver).set("LGSIM_LOOKUP_LOG", log);
    let (bare, guarded) = (on(&logs[0]).finish(), on(&logs[1]).guarded().kept().finish());
    guarded.expect_same_as(&bare);
    let asked = look_ups_of(&logs[0]);
    assert_eq!(asked, recorded_look_ups(runtime), "{name}: runtime_lookups.inc has not what the runtime asks");
    // The guard asks as well; what the runtime asks comes in its order.
    let mut with_guard = look_ups_of(&logs[1]).into_iter();
    let missing = asked.iter().find(|question| !with_guard.any(|other| other == **question));
    assert_eq!(missing, None, "{name}: the guard keeps a question from the driver");
    let summary = guarded.out().summary();
    let runtimes = summary["preload"]["runtimes"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(runtimes.len(), 1, "{name}: the guard has not seen the runtime: {summary:#}");
    text(&runtimes[0], "/answer").to_owned()
}

#[test]
fn a_real_runtime_of_each_version_starts_as_without_the_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("cuda_runtime_start");
    for (version, number) in OLDER {
        for driver in [number, "13000"] {
            let start = || Run::new(&work, &program).args([cuda_runtime(version)]);
            let answer = expect_starts_alike(&work, start, driver, number, &format!("{version}-on-{driver}"));
            // Drivers before 12.2 load eagerly. On the others nothing is asked of the runtime, as no object that needs it has device code.
            let eager = ["11080", "12000"].contains(&driver);
            assert_eq!(answer, if eager { "already_eager" } else { "nothing_found" }, "{version} on {driver}");
        }
    }
}

#[test]
fn a_program_on_the_real_runtime_13_is_asked_to_register_its_kernels() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for folder in ["runtime", "runtime-shared"] {
        let start = || Run::new(&work, runtime_program(folder, "lazy_pair"));
        let answer = expect_starts_alike(&work, start, "13000", "13000", folder);
        assert_eq!(answer, "register_now", "{folder}");
    }
}

fn played<'w>(work: &'w Work, name: &str, runtime: &str) -> Run<'w> {
    // What is inherited does not decide how code is loaded.
    run(work, &App::named(name)).set("LG_RUNTIME", runtime).set("CUDA_MODULE_LOADING", "LAZY")
}

const SEEDS: [&str; 3] = ["lazy_pair", "persistent_two_libraries", "value_fence"];

#[test]
fn programs_of_older_runtimes_hang_bare_and_complete_guarded_on_a_newer_driver() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let bare: Vec<_> = OLDER.iter().map(|(_, runtime)| played(&work, "lazy_pair", runtime).start()).collect();
    for (version, runtime) in OLDER {
        for name in SEEDS {
            let outcome = played(&work, name, runtime).guarded().finish();
            assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name} on {version}: {outcome}");
            let app = App::named(name);
            let expected = app.expected_output().unwrap_or_default();
            assert_eq!(sorted(&outcome.stdout), sorted(expected), "{name} on {version}: {outcome}");
        }
    }
    for (running, (version, _)) in bare.into_iter().zip(OLDER) {
        let outcome = running.finish_within(HANGS);
        assert_eq!(outcome.code, None, "on {version}, lazy_pair completes bare: {outcome}");
    }
}

/// Bytes of lines that threads interleave as they like.
fn sorted(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.sort_unstable();
    bytes
}

#[test]
fn a_hang_of_a_program_on_an_older_runtime_is_diagnosed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // 11.8 uses modules, where getting a function is its load.
    for (version, runtime) in [("11.8", "11080"), ("12.0", "12000")] {
        for name in ["lazy_pair", "persistent_one_time", "persistent_two_libraries"] {
            let off = played(&work, name, runtime).guarded().kept().set("LAZYGUARD_PRELOAD", "off");
            let hang = off.hang_after("300ms").start().until_a_hang_is_reported().hang();
            assert_eq!(
                text(&hang, "/verdicts/0/code"),
                App::named(name).expected_code(),
                "{name} on {version}: {hang:#}"
            );
        }
    }
}

#[test]
fn a_program_of_an_older_runtime_completes_on_the_driver_of_its_version() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Before 12.2 the driver loads eagerly unless it is told otherwise. 11.7 is the oldest that is played.
    for (driver, runtime) in [("11070", "11080"), ("12000", "12000"), ("12040", "12040"), ("12090", "12090")] {
        let folder = driver_folder().join(driver);
        let folder = if folder.is_dir() { folder } else { driver_folder() };
        let app = App::named("lazy_pair");
        let program = run(&work, &app).set("LG_RUNTIME", runtime).set("LGSIM_DRIVER_VERSION", driver);
        let outcome = program.set("LD_LIBRARY_PATH", folder).guarded().finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{runtime} on {driver}: {outcome}");
    }
}
