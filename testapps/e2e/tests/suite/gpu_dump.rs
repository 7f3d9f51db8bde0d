//! `LAZYGUARD_GPU_DUMP` and `LAZYGUARD_ON_HANG=fail`: the driver writes where the device's threads stand, and the blocked calls return an
//! error. Programs that do not hang, and those with core dumps of their own, are left as they are.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, only_run_in, root, run, text, App, Folder, Json, Outcome, Run, Work};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

const LONG: Duration = lazyguard_e2e::PATIENCE;
const HANGS: [&str; 4] = ["--preload", "off", "--hang-after", "300ms"];

/// A session, a stream that waits for a value that no operation writes, and the synchronize that is blocked by it.
const HANG: &str = concat!(
    lazyguard_e2e::python_session!(),
    "assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
    print('blocked:', driver.cuStreamSynchronize(stream), flush=True)\n"
);

/// The dump in a process's folder: whole, the owner's alone, of the format's machine; and nothing else is left of it.
fn expect_dump(folder: &Folder) -> Vec<u8> {
    let path = folder.path().join("gpu.core");
    let about = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{error}"));
    assert!(bytes.starts_with(b"\x7fELF\x02") && bytes[0x12..0x14] == [0xbe, 0]);
    let field =
        |from: usize, to: usize| bytes[from..to].iter().rev().fold(0, |field, &byte| field << 8 | usize::from(byte));
    assert!(field(0x28, 0x30) + field(0x3a, 0x3c) * field(0x3c, 0x3e) <= bytes.len(), "it was cut short");
    expect_no_pipe(folder);
    bytes
}

fn expect_no_pipe(folder: &Folder) {
    let entries = fs::read_dir(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    for entry in entries.flatten() {
        assert!(!entry.file_type().is_ok_and(|kind| kind.is_fifo()), "{} is left", entry.path().display());
    }
}

fn summary_of(outcome: &Outcome) -> String {
    text(&outcome.out().summary(), "/gpu_dump").to_owned()
}

#[test]
fn a_blocked_call_returns_an_error_that_the_program_handles() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = format!("{HANG}print('again:', driver.cuCtxSynchronize())\nsys.exit(3)\n");
    let out = work.path().join("out").to_string_lossy().into_owned();
    let options = [&HANGS[..], &["--on-hang", "fail", "--out", &out]].concat();
    let outcome = under(&work, &options, &["python3", "-c", &program]).start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), "blocked: 719\nagain: 719\n"), "{outcome}");
    assert!(outcome.stderr.contains("lazyguard: FAILED ON PURPOSE WITH ERROR 719"), "{outcome}");
    assert!(!outcome.stderr.contains("RESOLVED") && !outcome.stderr.contains("ENDED WITH"), "{outcome}");
    let folder = Folder::only_one_in(&only_run_in(Path::new(&out)));
    expect_dump(&folder);
    let hang = folder.hang();
    assert_eq!((hang["gpu_dump"]["taken"].as_bool(), hang["gpu_dump"]["fails"].as_bool()), (Some(true), Some(true)));
    assert!(folder.report("text").contains("failed on purpose"), "{}", folder.report("text"));
    // The library alone does the same; and a hang that was failed is one where that fails the run.
    let alone = Run::new(&work, "python3").args(["-c", &program]).guarded().kept().hang_after("300ms");
    let alone = alone.set("LAZYGUARD_ON_HANG", "fail").finish();
    assert_eq!((alone.code, alone.stdout.as_str()), (Some(3), "blocked: 719\nagain: 719\n"), "{alone}");
    expect_dump(&alone.out());
    let options = [&HANGS[..], &["--on-hang", "fail", "--fail-on", "hang"]].concat();
    let outcome = under(&work, &options, &[root().join("target/corpus/free")]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(outcome.stderr.contains("cuMemFree(scratch): CUDA_ERROR_LAUNCH_FAILED (719)"), "{outcome}");
    // A launch in a full queue returns success when its work is ended, and the next one the error. The program ends itself at once: its
    // recording is complete in a folder that was asked for.
    let options = [&options[..], &["--out", &out]].concat();
    let outcome = under(&work, &options, &[root().join("target/corpus/queue_full")]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(outcome.stderr.contains("; calls after it return error 719"), "{outcome}");
    assert!(!outcome.stderr.contains("RESOLVED"), "{outcome}");
}

/// Such a program calls no function of the driver's that makes a context: its runtime does that by a table of its own.
#[test]
fn a_program_on_a_cuda_runtime_is_made_ready_as_well() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let retained = "assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n";
    let by_runtime = "pointer, mode, status, table = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.POINTER(ctypes.c_void_p)()\n\
        assert driver.cuGetProcAddress_v2(b'cuModuleGetLoadingMode', ctypes.byref(pointer), 13000, ctypes.c_uint64(0), ctypes.byref(status)) == 0\n\
        assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(pointer.value)(ctypes.addressof(mode)) == 0\n\
        of_runtime = bytes.fromhex('6bd5fb6c5bf4e74a8987d93912fd9df9')\n\
        assert driver.cuGetExportTable(ctypes.byref(table), of_runtime) == 0\n\
        retain = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(table[2])\n\
        assert retain(ctypes.addressof(context), 0) == 0\n";
    assert!(HANG.contains(retained));
    let program = HANG.replace(retained, by_runtime);
    let options = [&HANGS[..], &["--on-hang", "fail"]].concat();
    let outcome = under(&work, &options, &["python3", "-c", &program]).start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "blocked: 719\n"), "{outcome}");
}

/// It never looks at what its launches return.
#[test]
fn a_program_that_ignores_the_error_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let ignores = format!(
        "{HANG}while True:\n    driver.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)\n    time.sleep(0.01)\n"
    );
    let options = [&HANGS[..], &["--on-hang", "fail", "--kill-after", "1s"]].concat();
    let outcome = under(&work, &options, &["python3", "-c", &ignores]).start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(117), "blocked: 719\n"), "{outcome}");
    assert!(outcome.stderr.contains("has not answered --on-hang fail in 1s"), "{outcome}");
    // One that handles it may take longer than that.
    let handles = format!("{HANG}time.sleep(4)\nsys.exit(5)\n");
    let outcome = under(&work, &options, &["python3", "-c", &handles]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(5), "{outcome}");
}

/// The driver now and then loses a request where several processes of a card are asked at about the same time.
#[test]
fn a_program_whose_request_the_driver_loses_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out").to_string_lossy().into_owned();
    // It is not ended before it is known what came of the request.
    let options = ["--on-hang", "fail", "--gpu-dump-wait", "2s", "--kill-after", "500ms", "--out", &out];
    let options = [&HANGS[..], &options].concat();
    let program = format!("{HANG}sys.exit(3)\n");
    let lost = under(&work, &options, &["python3", "-c", &program]).set("LGSIM_LOSE_DUMP_REQUESTS", "1");
    let outcome = lost.start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(117), ""), "{outcome}");
    let why = "the driver has taken the request and written nothing in 2s (LAZYGUARD_GPU_DUMP_WAIT)";
    let line = format!("no GPU core dump: {why}; the blocked calls may stay blocked");
    assert!(outcome.stderr.contains(&line), "{outcome}");
    assert!(outcome.stderr.contains("has not answered --on-hang fail in 500ms"), "{outcome}");
    for other in ["error 719", "FAILED ON PURPOSE", "RESOLVED"] {
        assert!(!outcome.stderr.contains(other), "{outcome}");
    }
    let folder = Folder::only_one_in(&only_run_in(Path::new(&out)));
    let hang = folder.hang();
    assert_eq!((hang["gpu_dump"]["unanswered"].as_bool(), hang["resolved"].as_u64()), (Some(true), None), "{hang:#}");
    assert!(!folder.path().join("gpu.core").exists());
    expect_no_pipe(&folder);
}

/// The last rank does not hang, and would wait for ever.
#[test]
fn all_ranks_of_a_job_fail_and_what_stays_behind_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = root().join("target/ranks/collective_job");
    let job = |fault: &str| {
        let shared = work.path().join(format!("shared-{fault}"));
        let (program, shared) = (program.display(), shared.display());
        let script = format!(
            "export WORLD_SIZE=3; for rank in 0 1 2; do RANK=$rank '{program}' '{shared}' {fault} & done; wait; echo over"
        );
        let out = work.path().join(format!("out-{fault}")).to_string_lossy().into_owned();
        let options = ["--hang-after", "500ms", "--on-hang", "fail", "--kill-after", "2s", "--out", &out];
        let outcome = under(&work, &options, &["sh", "-c", &script]).start().finish_within(LONG);
        let run = only_run_in(Path::new(&out));
        let folders = fs::read_dir(run).unwrap_or_else(|error| panic!("{error}")).flatten().map(|entry| entry.path());
        let dumps = folders.filter(|folder| folder.join("gpu.core").is_file()).count();
        (outcome, dumps)
    };
    let (outcome, dumps) = job("skip");
    assert_eq!((outcome.code, dumps), (Some(117), 3), "{outcome}");
    assert_eq!(outcome.stderr.matches("CUDA_ERROR_LAUNCH_FAILED (719)\n").count(), 2, "{outcome}");
    // Each of them waits for another one.
    let (outcome, dumps) = job("unwritten");
    assert_eq!((outcome.code, outcome.stdout.as_str(), dumps), (Some(0), "over\n", 3), "{outcome}");
    assert_eq!(outcome.stderr.matches("CUDA_ERROR_LAUNCH_FAILED (719)\n").count(), 3, "{outcome}");
}

/// The driver dumps at exceptions as well once it is ready for a dump, and its error comes late.
#[test]
fn a_faulting_kernel_has_its_error_in_a_process_made_ready() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = || run(&work, &App::named("faulting_kernel"));
    let bare = program().finish();
    for (setting, value) in [("LAZYGUARD_ON_HANG", "fail"), ("LAZYGUARD_GPU_DUMP", "on")] {
        let ready = program().guarded().kept().set("LAZYGUARD_ON_HANG", "exit:9").set(setting, value).finish();
        assert_eq!((ready.code, &ready.stdout), (Some(0), &bare.stdout), "{ready}");
        assert_eq!(summary_of(&ready), "armed");
        expect_no_pipe(&ready.out());
        let core = ready.out().path().join("gpu.core");
        let said = Run::new(&work, command()).args([Path::new("report"), Path::new("--gpu-core"), &core]).finish();
        assert!(
            said.stdout.contains("exception: illegal address") && said.stdout.contains("reads_bad_address<<<"),
            "{said}"
        );
    }
    // A program whose environment wants no dumps at exceptions has none, and no pipe.
    let other = program()
        .guarded()
        .kept()
        .set("LAZYGUARD_ON_HANG", "fail")
        .set("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "0")
        .finish();
    assert_eq!((other.code, &other.stdout, &other.stderr), (Some(0), &bare.stdout, &bare.stderr), "{other}");
    assert!(summary_of(&other).starts_with("CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0 is set"), "{}", summary_of(&other));
}

#[test]
fn the_device_is_looked_at_before_a_hanging_program_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out").to_string_lossy().into_owned();
    let options = [&HANGS[..], &["--gpu-dump", "--on-hang", "kill", "--kill-after", "0", "--out", &out]].concat();
    let outcome = under(&work, &options, &[app("lazy_pair")]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    let folder = Folder::only_one_in(&only_run_in(Path::new(&out)));
    let dump = expect_dump(&folder);
    assert!(dump.windows(8).any(|bytes| bytes == b".cudbg.g"), "it has no grids");
    assert_eq!(folder.hang()["gpu_dump"]["bytes"].as_u64(), Some(dump.len() as u64));
    // The program is left as it is, and so is its device.
    let hanging = |on_hang: &str| {
        let hanging = run(&work, &App::named("lazy_pair")).guarded().kept().set("LAZYGUARD_PRELOAD", "off");
        hanging.hang_after("300ms").set("LAZYGUARD_GPU_DUMP", "on").set("LAZYGUARD_ON_HANG", on_hang)
    };
    let outcome = hanging("exit:9").finish();
    assert_eq!(outcome.code, Some(9), "{outcome}");
    expect_dump(&outcome.out());
    let mut running = hanging("report").start();
    let folder = running.until("the line", LONG, |running| {
        running
            .stderr()
            .contains("no GPU core dump: LAZYGUARD_ON_HANG leaves the program as it is")
            .then(|| running.out())
    });
    assert!(!folder.join("gpu.core").exists() && !folder.join("gpu.pipe").exists());
    drop(running);
}

/// With shared memory in the dump, the report says who is missing at a barrier inside the kernel. The driver's file is of a kernel of the same name
/// on a card.
#[test]
fn a_full_dump_shows_who_waits_for_whom_inside_the_kernel() {
    const SENTENCE: &str =
        "consume: 2 of 2 blocks: warps 1 to 3 wait at the mbarrier at smem+0x4400 (missing_bytes.cu:24) for phase 0: \
                            8192 bytes are missing; missing_bytes.cu:21 copies there: warp 0 has exited";
    let work = Work::new(lazyguard_e2e::this_test!());
    let core = root().join("core/tests/gpu_cores/inside/missing_bytes.core").to_string_lossy().into_owned();
    for (value, code) in [("--gpu-dump=full", "LG210"), ("--gpu-dump=on", "LG299")] {
        let out = work.path().join(value).to_string_lossy().into_owned();
        let html = work.path().join("page.html").to_string_lossy().into_owned();
        let options =
            [&HANGS[..], &[value, "--on-hang", "kill", "--kill-after", "0", "--out", &out, "--html", &html]].concat();
        let program = [root().join("target/corpus/producer_behind_consumer")];
        let outcome = under(&work, &options, &program).set("LGSIM_FULL_CORE", &core).start().finish_within(LONG);
        assert_eq!(outcome.code, Some(117), "{outcome}");
        let folder = Folder::only_one_in(&only_run_in(Path::new(&out)));
        expect_dump(&folder);
        let is_full = code == "LG210";
        let report = folder.report("text");
        assert!(report.contains(&format!("\n{code} (")), "{report}");
        assert_eq!(report.contains(SENTENCE), is_full, "{report}");
        assert_eq!(report.contains("LG210: consume<<<"), is_full, "{report}");
        assert_eq!(fs::read_to_string(&html).unwrap().contains(SENTENCE), is_full);
        let json: Json = serde_json::from_str(&folder.report("json")).unwrap();
        assert_eq!(json["hang"]["verdicts"][0]["code"], code, "{json:#}");
        let run = only_run_in(Path::new(&out));
        let of_run = |format: &str| {
            Run::new(&work, command()).args([Path::new("report"), &run]).args(["--format", format]).finish().stdout
        };
        let first = of_run("text").lines().find(|line| line.contains("LG2")).unwrap_or_default().to_owned();
        assert!(first.contains(code), "{first}");
        let json_of_run: Json = serde_json::from_str(&of_run("json")).unwrap();
        assert_eq!(json_of_run["processes"][0]["hang"]["verdicts"][0]["code"], code);
        let wait = &json["gpu"]["devices"][0]["kernels"][0]["waits"][0];
        assert_eq!(
            (wait["bytes_missing"].as_u64(), wait["stuck"].as_bool()),
            (is_full.then_some(8192), is_full.then_some(true))
        );
    }
}

/// The driver never writes the file: the folder that is set for it is not there.
#[test]
fn a_dump_that_does_not_come_costs_a_line_and_no_more_than_its_time() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = run(&work, &App::named("lazy_pair"))
        .guarded()
        .kept()
        .set("LAZYGUARD_PRELOAD", "off")
        .hang_after("300ms")
        .set("LAZYGUARD_GPU_DUMP", "on")
        .set("LAZYGUARD_GPU_DUMP_WAIT", "200ms")
        .set("CUDA_COREDUMP_FILE", "/nowhere/at/all")
        .set("LAZYGUARD_ON_HANG", "exit:9")
        .finish();
    assert_eq!(outcome.code, Some(9), "{outcome}");
    let line = "no GPU core dump: the driver has written 0 bytes in 200ms (LAZYGUARD_GPU_DUMP_WAIT)";
    assert!(outcome.stderr.contains(line), "{outcome}");
    assert!(outcome.out().report("text").contains(line), "{}", outcome.out().report("text"));
    assert!(!outcome.out().holds("gpu.core"));
}

#[test]
fn a_program_that_does_not_hang_is_the_same_and_nothing_is_left() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let with = |settings: &[(&str, &str)]| {
        let run = run(&work, &App::named("module_pair")).guarded();
        settings.iter().fold(run, |run, (name, value)| run.set(name, value))
    };
    let bare = run(&work, &App::named("module_pair")).finish();
    let armed = [("LAZYGUARD_GPU_DUMP", "on"), ("LAZYGUARD_ON_HANG", "abort")];
    let outcome = with(&armed).finish();
    assert_eq!((outcome.code, &outcome.stdout, outcome.stderr.as_str()), (bare.code, &bare.stdout, ""), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0], "the private folder is not empty");
    let outcome = with(&armed).kept().finish();
    assert_eq!((outcome.code, summary_of(&outcome).as_str()), (Some(0), "armed"), "{outcome}");
    expect_no_pipe(&outcome.out());
    assert!(!outcome.out().holds("gpu.core"));
    // Where the driver is not asked, the summary says why, and nothing else does.
    let mps = work.path().join("mps");
    fs::create_dir(&mps).unwrap_or_else(|error| panic!("{error}"));
    fs::write(mps.join("control"), "").unwrap_or_else(|error| panic!("{error}"));
    let mps = mps.display().to_string();
    for (name, value, why) in [
        ("CUDA_INJECTION64_PATH", "/nowhere.so", "CUDA_INJECTION64_PATH"),
        ("CUDA_MPS_PIPE_DIRECTORY", &mps, "MPS"),
        ("CUDA_COREDUMP_GENERATION_FLAGS", "skip_global_memory", "skip_abort"),
        ("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "0", "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=0"),
        ("LGSIM_DRIVER_VERSION", "12000", "before 12.5"),
        ("LAZYGUARD_ON_HANG", "report", "leaves the program as it is"),
    ] {
        let outcome = with(&armed).set(name, value).kept().finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}: {outcome}");
        assert!(summary_of(&outcome).contains(why), "{name}: {}", summary_of(&outcome));
    }
}

/// The pipe and the file are the program's, by its variables, and so is the end: without `skip_abort` the driver aborts.
#[test]
fn what_the_program_has_set_itself_is_used() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let own = work.path().join("own");
    fs::create_dir(&own).unwrap_or_else(|error| panic!("{error}"));
    let hanging = |flags: &str, on_hang: &str| {
        let hanging = run(&work, &App::named("lazy_pair")).guarded().kept().set("LAZYGUARD_PRELOAD", "off");
        hanging
            .hang_after("300ms")
            .set("LAZYGUARD_GPU_DUMP", "on")
            .set("LAZYGUARD_ON_HANG", on_hang)
            .set("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "1")
            .set("CUDA_COREDUMP_PIPE", own.join("pipe.%p").display().to_string())
            .set("CUDA_COREDUMP_FILE", own.join("core.%h.%p").display().to_string())
            .set("CUDA_COREDUMP_GENERATION_FLAGS", flags)
    };
    let files = || {
        let entries = fs::read_dir(&own).unwrap_or_else(|error| panic!("{error}"));
        entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let outcome = hanging("skip_abort,skip_global_memory", "exit:9").finish();
    assert_eq!((outcome.code, files().len()), (Some(9), 1), "{outcome}");
    assert_eq!(fs::read(&files()[0]).ok(), fs::read(outcome.out().path().join("gpu.core")).ok());
    assert!(outcome.out().holds("gpu.core"));
    let outcome = hanging("skip_global_memory", "exit:9").finish();
    assert_eq!((outcome.code, files().len()), (Some(-libc::SIGABRT), 2), "{outcome}");
    let mut running = hanging("skip_global_memory", "fail").start();
    let line = "the blocked calls cannot be failed: the program's own dumps are without skip_abort";
    running.until("the line", LONG, |running| running.stderr().contains(line).then_some(()));
    let folder = running.until_a_hang_is_reported();
    let report: Json = running.until("the report that is acted on", LONG, |_| {
        Some(folder.hang()).filter(|report| report["acts"].as_bool() == Some(true))
    });
    assert_eq!(report["gpu_dump"]["taken"].as_bool(), Some(false), "{report:#}");
    drop(running);
}
