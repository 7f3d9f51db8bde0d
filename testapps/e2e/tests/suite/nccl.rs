//! Jobs of several ranks that use NCCL, the simulated one: that the guard changes nothing for them, that each fault hangs its job, and
//! which rank the report names.

use crate::marker::{answered, left};
use crate::run_passes_on::{send, under};
use lazyguard_e2e::{anonymised, command, library, log_of, root, target, Outcome, Run, Running, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How a program comes to the library: linked with it, by names looked up in it, and through a shared object that is linked with it.
const PROGRAMS: [&str; 3] = ["nccl_job", "nccl_job_dlopen", "nccl_job_plugin"];
/// The faults after which the job ends, and those that hang it: see testapps/ranks/nccl/program.hpp.
const ENDING: [&str; 3] = ["none", "late", "grids"];
const HANGING: [&str; 18] = [
    "skip",
    "loop",
    "exits",
    "crashes",
    "stops",
    "other",
    "size",
    "type",
    "root",
    "order",
    "no_receive",
    "load",
    "unwritten",
    "behind",
    "init",
    "fills",
    "grid",
    "apart",
];
const KILL: &[&str] = &["--on-hang", "kill"];
/// A rank that computes without end is late, as long as that may last.
const KILL_THE_LATE: &[&str] = &["--on-hang", "kill", "--max-late", "3s"];
/// For what more than the first process to hang has to say.
const AT_THE_TIMEOUT: &[&str] = &["--timeout", "16s", "--fail-on", "hang"];
const TWELFTH: &str = "collective 12 of communicator 0";

/// What is said of a job of four ranks whose last rank has the fault at its twelfth collective of all ranks: the options of
/// `lazyguard run`, and how the sentence about the ranks begins.
fn named() -> Vec<(&'static str, &'static [&'static str], String)> {
    let behind = |doing: &str| format!("rank 3 has not called {TWELFTH} (AllReduce of 1,024 float32, sum), {doing}");
    let instead = |call: &str, usual: &str| {
        format!("rank 3 has called {call} as {TWELFTH}, which is {usual}; ranks 0-2 wait in it.")
    };
    let reduce = "AllReduce of 1,024 float32, sum";
    let broadcast = |root: u32| format!("Broadcast of 1,024 float32, root {root}");
    vec![
        ("skip", KILL, behind("and its main thread waits for a signal; ranks 0-2 wait in it.")),
        ("loop", KILL_THE_LATE, behind("and its main thread computes; ranks 0-2 wait in it.")),
        ("exits", KILL, behind("and ended; ranks 0-2 wait in it.")),
        ("crashes", KILL, behind("and was killed or ended without an exit; ranks 0-2 wait in it.")),
        ("stops", KILL, behind("and was stopped, by a signal or a debugger; ranks 0-2 wait in it.")),
        ("other", KILL, instead("AllGather of 1,024 float32", reduce)),
        ("size", KILL, instead("AllReduce of 1,025 float32, sum", reduce)),
        ("type", KILL, instead("AllReduce of 1,024 int32, sum", reduce)),
        ("root", KILL, instead(&broadcast(1), &broadcast(0))),
        ("order", AT_THE_TIMEOUT, format!("rank 2 has called {TWELFTH} before collective 1 of communicator ")),
        ("no_receive", AT_THE_TIMEOUT, "rank 3 has not called the 6th ncclRecv from rank 2 on communicator 0".to_owned()),
        ("apart", AT_THE_TIMEOUT, "ranks wait for each other: rank 0 waits in ncclSend of communicator 0 for rank 1; rank 1 waits".to_owned()),
        ("load", AT_THE_TIMEOUT, format!("rank 3 has called {TWELFTH} ({reduce}) and is blocked behind it, LG202: ")),
        ("unwritten", AT_THE_TIMEOUT, behind("and is blocked: LG203: ")),
        (
            "behind",
            AT_THE_TIMEOUT,
            "every rank that could be compared has made the same calls of NCCL, and rank 3 is blocked by itself: LG203: ".to_owned(),
        ),
        ("fills", KILL, behind("and its main thread waits for a signal; ranks 0-2 wait in it; rank 0 would also hang if rank 3 waited for it, LG208: ")),
        (
            "grid",
            AT_THE_TIMEOUT,
            "rank 3 has launched dispatch, which fills the device, before ncclDevKernel_AllReduce_Sum_f32_RING_LL, and rank 0 the other way \
             round: on rank 3 the collective finds no room, and on rank 0 dispatch does not."
                .to_owned(),
        ),
        ("init", AT_THE_TIMEOUT, "rank 3 has not come to the call that makes communicator 0, ".to_owned()),
    ]
}

pub(crate) fn program(name: &str) -> String {
    root().join("target/ranks").join(name).to_string_lossy().into_owned()
}

/// A shell that starts all ranks and waits for them. It fails where one of them does.
pub(crate) fn job(work: &Work, program_name: &str, ranks: u32, arguments: &str) -> [String; 3] {
    let shared = work.path().join(format!("shared-{program_name}-{ranks}-{}", arguments.replace(' ', "-")));
    let (program, shared) = (program(program_name), shared.to_string_lossy().into_owned());
    // Each run of it begins without the file of an earlier one.
    let script = format!(
        "rm -f '{shared}'; export WORLD_SIZE={ranks}; processes=; failed=0; \
         for rank in $(seq 0 {}); do RANK=$rank '{program}' '{shared}' {arguments} & processes=\"$processes $!\"; done; \
         for process in $processes; do wait $process || failed=1; done; exit $failed",
        ranks - 1
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

pub(crate) fn bare<'w>(work: &'w Work, job: &[String; 3]) -> Run<'w> {
    Run::new(work, &job[0]).args(&job[1..])
}

fn said_by_all(outcome: &Outcome, ranks: u32) {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let lines = |rank| [format!("rank {rank}: submitted"), format!("rank {rank}: 31 operations")];
    let mut expected: Vec<_> = (0..ranks).flat_map(lines).collect();
    expected.sort();
    assert_eq!(outcome.sorted_stdout(), expected, "{outcome}");
}

/// Without the guard, under it, and under it as `LD_PRELOAD` alone.
fn is_alike(work: &Work, program: &str, ranks: u32) {
    let job = job(work, program, ranks, "steps none");
    // The recordings of many ranks take a gigabyte of the disk otherwise.
    let record = if ranks > 8 { "1MiB" } else { "16MiB" };
    said_by_all(&bare(work, &job).finish(), ranks);
    said_by_all(&under(work, &["--record", record], &job).finish(), ranks);
    said_by_all(&bare(work, &job).guarded().set("LAZYGUARD_RECORD", record).finish(), ranks);
}

#[test]
fn a_job_without_a_fault_is_the_same_with_the_guard_however_it_comes_to_the_library() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for program in PROGRAMS {
        is_alike(&work, program, 2);
        is_alike(&work, program, 8);
    }
}

#[test]
fn a_job_of_64_ranks_is_the_same_with_the_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    is_alike(&work, "nccl_job", 64);
}

#[test]
fn the_simulated_library_keeps_its_promises_with_and_without_the_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for run in [Run::new(&work, program("nccl_calls")), Run::new(&work, program("nccl_calls")).guarded()] {
        let outcome = run.finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "as expected\n"), "{outcome}");
    }
}

/// Python's `ctypes` calls every function from one place in `libffi`. So does vLLM's use of NCCL.
#[test]
fn calls_of_different_functions_from_one_site_reach_their_functions() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import ctypes, sys\n\
        nccl, driver = ctypes.CDLL(sys.argv[1]), ctypes.CDLL('libcuda.so.1')\n\
        device, communicator, stream, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()\n\
        ranks, context, bytes = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(4096)\n\
        print(driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context))\n\
        print(driver.cuMemAlloc_v2(ctypes.byref(memory), bytes), driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
        print(nccl.ncclCommInitAll(ctypes.byref(communicator), 1, (ctypes.c_int * 1)(0)))\n\
        count = ctypes.c_size_t(1024)\n\
        for _ in range(2):\n\
        \x20   print(nccl.ncclAllReduce(memory, memory, count, 7, 0, communicator, stream))\n\
        \x20   print(nccl.ncclBroadcast(memory, memory, count, 7, 0, communicator, stream))\n\
        \x20   print(nccl.ncclGroupStart(), nccl.ncclAllGather(memory, memory, count, 7, communicator, stream), nccl.ncclGroupEnd())\n\
        print(nccl.ncclCommCount(communicator, ctypes.byref(ranks)), ranks.value)\n\
        print(driver.cuStreamSynchronize(stream), nccl.ncclCommDestroy(communicator))\n";
    let library = root().join("target/simnccl/libnccl.so.2").to_string_lossy().into_owned();
    let run = || Run::new(&work, "python3").args(["-c", text, &library]);
    let (bare, guarded) = (run().finish(), run().guarded().kept().finish());
    assert_eq!((bare.code, bare.stderr.as_str()), (Some(0), ""), "{bare}");
    assert_eq!((guarded.code, &guarded.stdout, &guarded.stderr), (bare.code, &bare.stdout, &bare.stderr), "{guarded}");
    let log = log_of(guarded.out().path(), &[]);
    for call in ["ncclAllReduce", "ncclBroadcast", "ncclAllGather"] {
        assert_eq!(log.iter().filter(|record| record["call"] == call).count(), 2, "{call}: {log:?}");
    }
}

/// As in recordings of NCCL on cards.
#[test]
fn a_collective_is_submitted_by_the_driver_calls_of_nccl() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let log = work.path().join("calls");
    let outcome = Run::new(&work, program("nccl_calls")).args(["submit"]).set("LGSIM_CALL_LOG", &log).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let log = fs::read_to_string(&log).unwrap_or_else(|error| panic!("{error}"));
    let calls: Vec<_> = log.lines().filter_map(|line| line.split_once(' ')).map(|(_, call)| call).collect();
    let submission = ["cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernelEx", "cuEventRecord", "cuStreamWaitEvent"];
    let submitted: Vec<_> = calls.iter().filter(|call| submission.contains(call)).copied().collect();
    assert_eq!(submitted, submission.repeat(4), "{calls:?}");
}

/// What `nccl_job describe` says beforehand.
fn described(seed: u64, ranks: u32) -> String {
    let arguments = ["describe".to_owned(), seed.to_string(), ranks.to_string()];
    let output = Command::new(program("nccl_job"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", lazyguard_e2e::driver_folder())
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Jobs with their names, and whether they end.
type Jobs = Vec<(String, bool, Running)>;

/// All run beside each other. Those that hang are given two seconds more than those that end, of which one sleeps for two.
fn end_or_hang(mut jobs: Jobs) {
    for (name, ends, running) in &mut jobs {
        let ended = !*ends || running.ends_within(lazyguard_e2e::PATIENCE);
        assert!(ended, "{name} does not end: {}", running.stderr());
    }
    std::thread::sleep(Duration::from_secs(2));
    for (name, ends, mut running) in jobs {
        assert_eq!(running.runs(), !ends, "{name}: {}", running.stderr());
        let outcome = running.stop();
        assert_eq!(outcome.code, ends.then_some(0), "{name}: {outcome}");
        // No rank comes to its end, as all of them meet in the last collective.
        assert_eq!(outcome.stdout.contains("operations"), ends, "{name}: {outcome}");
        assert!(!outcome.stderr.contains("nccl"), "{name}: {outcome}");
    }
}

#[test]
fn each_fault_hangs_its_job() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let jobs = ENDING.iter().chain(&HANGING).map(|fault| {
        let arguments = format!("steps {fault}");
        let running = bare(&work, &job(&work, "nccl_job", 3, &arguments)).start();
        ((*fault).to_owned(), ENDING.contains(fault), running)
    });
    end_or_hang(jobs.collect());
}

/// Bare and guarded.
#[test]
fn random_jobs_hang_or_end_as_they_are_described() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut jobs = Jobs::new();
    for seed in 1..=12 {
        let ranks = 2 + u32::try_from(seed % 4).unwrap_or_default();
        let described = described(seed, ranks);
        let fault = described.split(' ').next().and_then(|first| first.strip_prefix("fault=")).unwrap_or_default();
        assert!(ENDING.contains(&fault) || HANGING.contains(&fault), "{described}");
        for program in ["nccl_job", "nccl_job_plugin"] {
            let job = job(&work, program, ranks, &format!("random {seed}"));
            let run = bare(&work, &job);
            // What it says of a hang is asked elsewhere.
            let run =
                if program == "nccl_job" { run } else { run.guarded().hang_after("0").set("LAZYGUARD_RECORD", "1MiB") };
            jobs.push((
                format!("{program}, seed {seed}, {ranks} ranks: {described}"),
                ENDING.contains(&fault),
                run.start(),
            ));
        }
    }
    end_or_hang(jobs);
}

/// As PyTorch's jiterator and Triton load a kernel that they have compiled, while a collective waits for another rank.
#[test]
fn a_job_that_hangs_in_a_load_under_a_collective_completes_with_the_profile_of_its_first_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let profile = work.path().join("profile").to_string_lossy().into_owned();
    let job = job(&work, "nccl_job", 4, "steps load");
    let out = work.path().join("out");
    let run = |threshold: &str| {
        let _ = fs::remove_dir_all(&out);
        let folder = out.to_string_lossy().into_owned();
        let options = [&["--profile", &profile, "--out", &folder, "--hang-after", threshold][..], KILL].concat();
        under(&work, &options, &job).finish()
    };
    let first = run("500ms");
    assert_eq!(first.code, Some(117), "{first}");
    for _ in 0..2 {
        // On a busy machine the ranks come to a collective at different times.
        let next = run("5s");
        let ended = next.stdout.lines().filter(|line| line.ends_with(": 31 operations"));
        assert_eq!((next.code, next.stderr.as_str(), ended.count()), (Some(0), "", 4), "{next}");
        let ahead: Vec<_> = processes_of(&out).map(|process| process["preload"]["modules_ahead"].as_u64()).collect();
        let got = processes_of(&out).filter_map(|process| process["preload"]["modules_handed_over"].as_u64());
        // Every rank loads two of the simulated NCCL, and one of them the third.
        assert_eq!((ahead, got.sum::<u64>()), (vec![Some(3); 4], 4 * 2 + 1));
    }
}

/// What the processes of the only run there have summed up.
fn processes_of(out: &Path) -> impl Iterator<Item = serde_json::Value> {
    let run = fs::read_dir(out).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    let summaries =
        fs::read_dir(run).unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("run.json")).ok());
    summaries.map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn report(folder: &Path) -> String {
    let output = Command::new(command()).arg("report").arg(folder).output().unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Each rank sends, and its receive stands behind a kernel that waits for the send, in the one hardware queue of all streams.
#[test]
fn ranks_that_share_one_hardware_queue_have_called_all_and_none_is_behind() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = out_of(&work, "one_queue");
    let folder = out.to_string_lossy().into_owned();
    let job = job(&work, "nccl_job", 2, "steps one_queue");
    let started = |options: &[&str], threshold: &str, queues: &str| {
        let options = [&["--hang-after", threshold, "--keep", "--out", &folder][..], options].concat();
        under(&work, &options, &job).set("CUDA_DEVICE_MAX_CONNECTIONS", queues).start()
    };
    let healthy = started(KILL, "5s", "8").finish_within(lazyguard_e2e::PATIENCE);
    assert_eq!((healthy.code, healthy.stderr.as_str()), (Some(0), ""), "{healthy}");
    let _ = fs::remove_dir_all(&out);
    let hangs = started(AT_THE_TIMEOUT, "500ms", "1").finish_within(lazyguard_e2e::PATIENCE);
    assert_eq!(hangs.code, Some(117), "{hangs}");
    let said = report(&out);
    let first = said.lines().nth(2).unwrap_or_default();
    let all = "every rank that could be compared has made the same calls of NCCL, and ranks 0-1 wait in a collective: on rank 0 \
               ncclDevKernel_SendRecv on stream ";
    assert!(first.starts_with(all) && first.ends_with("(LG211)."), "{said}\n{hangs}");
    assert!(
        first.contains(": busy_for on stream ") && first.contains(" is before it in the hardware queue of both"),
        "{first}"
    );
}

/// Three jobs at a time: a hang is not called one while processes wait for a processor.
#[test]
fn the_rank_with_the_fault_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for some in named().chunks(3) {
        let running: Vec<_> = some.iter().map(|(fault, options, _)| start_faulty(&work, fault, options)).collect();
        for ((fault, _, sentence), running) in some.iter().zip(running) {
            let outcome = running.finish_within(lazyguard_e2e::PATIENCE);
            assert_eq!(outcome.code, Some(117), "{fault}: {outcome}");
            let said = report(&out_of(&work, fault));
            let first = said.lines().nth(2).unwrap_or_default();
            assert!(first.starts_with(sentence), "{fault}: {sentence}\n{said}\n{outcome}");
        }
    }
}

fn out_of(work: &Work, fault: &str) -> PathBuf {
    work.path().join(format!("out-{fault}"))
}

fn start_faulty(work: &Work, fault: &str, options: &[&str]) -> Running {
    let folder = out_of(work, fault).to_string_lossy().into_owned();
    // Sixty recordings: at the default's size they take a gigabyte of memory and of the disk.
    let options = [&["--hang-after", "400ms", "--keep", "--record", "1MiB", "--out", &folder][..], options].concat();
    under(work, &options, &job(work, "nccl_job", 4, &format!("steps {fault}"))).start()
}

/// Whether a process of this group is there.
fn is_there(group: u32) -> bool {
    let asked = Command::new("sh").args(["-c", &format!("kill -s 0 -- -{group} 2>&-")]).status();
    asked.is_ok_and(|status| status.success())
}

/// Starts a job of four ranks whose last one sleeps instead of its collective, waits until all of them stand still and `is_time`, and kills
/// them as a scheduler does: no process says anything at its end. The report of what is left.
pub(crate) fn killed(run: Run<'_>, out: &Path, is_time: impl Fn(&str) -> bool) -> String {
    let mut running = run.start();
    running.until("that all stand still", lazyguard_e2e::PATIENCE, |running| {
        let (said, heard) = (running.stdout(), running.stderr());
        let still =
            (0..3).all(|rank| said.contains(&format!("rank {rank}: submitted"))) && said.contains("rank 3: skip");
        (still && is_time(&heard)).then_some(())
    });
    kill(running, out)
}

/// The report of a job that is killed as a whole.
pub(crate) fn kill(running: Running, out: &Path) -> String {
    let group = running.process();
    send("KILL", &format!("-{group}"));
    running.finish_within(lazyguard_e2e::PATIENCE);
    // On a busy machine the ranks have not all ended when their parent has.
    let since = std::time::Instant::now();
    while is_there(group) && since.elapsed() < lazyguard_e2e::PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    report(out)
}

/// Whether each rank that waits has reported its hang.
fn have_reported(said: &str) -> bool {
    let hangs = |rank: u32| said.lines().any(|line| line.contains("HANG") && line.contains(&format!(" rank {rank} ")));
    (0..3).all(hangs)
}

#[test]
fn ranks_that_are_killed_leave_what_their_report_needs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let behind = format!(
        "rank 3 has not called {TWELFTH} (AllReduce of 1,024 float32, sum), and its main thread was waiting, in no driver call; ranks 0-2 wait in it."
    );
    let have_answered = |said: &str, out: &Path| have_reported(said) && answered(out, "rank3-");
    let job = job(&work, "nccl_job", 4, "steps skip");

    let out = work.path().join("out-preload");
    let alone = bare(&work, &job).set("LD_PRELOAD", library()).set("LAZYGUARD_OUT", out.join("rank%r-%p"));
    let said = killed(alone.hang_after("400ms"), &out, |said| have_answered(said, &out));
    assert_eq!(said.lines().nth(2), Some(behind.as_str()), "{said}");

    let out = work.path().join("out-run");
    let folder = out.to_string_lossy().into_owned();
    let run = under(&work, &["--hang-after", "400ms", "--out", &folder], &job);
    // The first rank that reports says it for all; the others keep their reports in their folders.
    let have_left = |rank: u32| left(&out, &format!("rank{rank}-"), "hang.json").is_some();
    let said = killed(run, &out, |_| (0..3).all(have_left) && answered(&out, "rank3-"));
    assert_eq!(said.lines().nth(2), Some(behind.as_str()), "{said}");
}

/// The recordings are all that is left of them.
#[test]
fn ranks_that_are_killed_before_they_report_are_all_in_the_report() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let folder = out.to_string_lossy().into_owned();
    let job = job(&work, "nccl_job", 4, "steps skip");
    let said = killed(under(&work, &["--hang-after", "0", "--out", &folder], &job), &out, |_| true);
    for rank in 0..4 {
        let is_it = |line: &str| line.contains(&format!(", rank {rank}) was killed or ended without an exit"));
        assert!(said.lines().any(is_it), "rank {rank}: {said}");
    }
}

/// Removes everything but the recordings.
fn keep_recordings(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        if entry.path().is_dir() {
            keep_recordings(&entry.path());
        } else if entry.file_name() != "trace.lgt" {
            fs::remove_file(entry.path()).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Whether a sentence about the ranks blames this one: alone, or as one of two that cannot both be right.
fn blames(sentence: &str, rank: &str) -> bool {
    let says = |part: &str| sentence.contains(&part.replace('R', rank));
    let is_even = says("as collective ") && sentence.starts_with("as collective ") || says("the other way round");
    sentence.starts_with(&format!("rank {rank} has "))
        || says("rank R is blocked by itself")
        || is_even && says("rank R ")
}

/// A job of random collectives with a fault, killed as a whole once it stands still; the recordings alone say which rank has the fault, and
/// they still do, or say whose is missing, where those of another rank are gone.
#[test]
fn of_random_faults_the_rank_is_named_by_the_recordings_that_a_kill_leaves() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let field = |described: &str, name: &str| {
        let value = described.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().to_owned()
    };
    let seeds: Vec<_> = (100_u64..118)
        .map(|seed| (seed, 2 + u32::try_from(seed % 5).unwrap_or_default()))
        .map(|(seed, ranks)| (seed, ranks, described(seed, ranks)))
        .filter(|(.., described)| HANGING.contains(&field(described, "fault").as_str()))
        .collect();
    assert!(seeds.len() >= 12, "{seeds:?}");
    for some in seeds.chunks(3) {
        let out = |seed: u64| work.path().join(format!("out-{seed}"));
        let start = |(seed, ranks, _): &(u64, u32, String)| {
            let run = bare(&work, &job(&work, "nccl_job", *ranks, &format!("random {seed}")));
            let run = run.set("LD_PRELOAD", library()).set("LAZYGUARD_OUT", out(*seed).join("rank%r-%p"));
            run.hang_after("400ms").set("LAZYGUARD_RECORD", "1MiB").start()
        };
        let running: Vec<_> = some.iter().map(start).collect();
        // Three thresholds, and time to get there.
        std::thread::sleep(Duration::from_secs(4));
        for ((seed, ranks, described), running) in some.iter().zip(running) {
            send("KILL", &format!("-{}", running.process()));
            running.finish_within(Duration::from_secs(10));
            keep_recordings(&out(*seed));
            let rank = field(described, "rank");
            let said = report(&out(*seed));
            let sentence = said.lines().nth(2).unwrap_or_default();
            assert!(blames(sentence, &rank), "seed {seed}, {ranks} ranks, {described}\n{said}");
            let copy = anonymised(&out(*seed), &work.path().join(format!("copy-{seed}")), &[]);
            let of_copy = report(&copy);
            let sentence = of_copy.lines().nth(2).unwrap_or_default();
            assert!(blames(sentence, &rank), "anonymised: seed {seed}, {ranks} ranks, {described}\n{of_copy}\n{said}");
            if *ranks < 4 {
                continue;
            }
            let other = if rank == "0" { 1 } else { 0 };
            let folders = fs::read_dir(out(*seed)).unwrap_or_else(|error| panic!("{error}")).flatten();
            for folder in
                folders.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("rank{other}-")))
            {
                fs::remove_dir_all(folder.path()).unwrap_or_else(|error| panic!("{error}"));
            }
            let said = report(&out(*seed));
            let is_told = said
                .lines()
                .take(20)
                .any(|line| blames(line, &rank) || line.contains(&format!("rank {other} has left no recording")));
            assert!(is_told, "seed {seed}, {ranks} ranks, without rank {other}, {described}\n{said}");
        }
    }
}

/// A communicator that does not block, and that the program asks about.
fn polled(how: &str) -> Outcome {
    let work = Work::new(&format!("nccl-polls-{how}"));
    let program = target().join("ranks/nccl_polls").display().to_string();
    let options = ["--hang-after", "500ms", "--on-hang", "kill", "--kill-after", "0"];
    under(&work, &options, &[program, how.to_owned()]).start().finish_within(lazyguard_e2e::PATIENCE)
}

#[test]
fn a_communicator_that_never_becomes_ready_is_a_hang_and_a_late_one_is_none() {
    for how in ["init", "split"] {
        let outcome = polled(how);
        assert_eq!(outcome.code, Some(117), "{how}: {outcome}");
        let said = "LG208 (likely): ncclCommGetAsyncError goes on answering \"not ready\": it waits for other ranks.";
        assert!(outcome.stderr.contains(said), "{how}: {outcome}");
    }
    let work = Work::new("nccl-polls-late");
    let program = target().join("ranks/nccl_polls").display().to_string();
    let late = under(&work, &["--hang-after", "2s", "--on-hang", "kill"], &[program, "late".to_owned()]);
    let late = late.start().finish_within(lazyguard_e2e::PATIENCE);
    assert_eq!((late.code, late.stdout.as_str()), (Some(0), "ready\n"), "{late}");
}
