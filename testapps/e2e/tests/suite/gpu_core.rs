//! `lazyguard report --gpu-core`: core dumps of GPUs, as `target/simdriver/gpu-cores` writes them. Real ones are among the tests of the core.

use lazyguard_e2e::{command, driver_folder, run, App, Json, Outcome, Run, Work};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The cores, in a folder of the test.
fn cores(work: &Work) -> PathBuf {
    let folder = work.folder("cores");
    let written = Run::new(work, driver_folder().join("gpu-cores")).args([&folder]).finish();
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{written}");
    folder
}

fn report(work: &Work, core: &Path, format: &str) -> Outcome {
    Run::new(work, command())
        .args([Path::new("report"), Path::new("--gpu-core"), core])
        .args(["--format", format])
        .finish()
}

fn text(work: &Work, core: &Path) -> String {
    let told = report(work, core, "text");
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
    told.stdout
}

fn json(work: &Work, core: &Path) -> Json {
    let told = report(work, core, "json");
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
    serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

const OUTER: &str = "\
GPU 0 (NVIDIA H100 80GB HBM3): 1 kernel; 4 of the 8448 warps that fit are taken
  outer<<<(2,1,1), (64,1,1)>>>: 2 of 2 blocks resident; launched by thread 4712
    2 warps (1 lane each) loop in inner_spin (spin.cu:11), called from outer (spin.cu:13); a barrier in each of 2 blocks waits for them
    2 warps wait at the barrier in outer (spin.cu:14)
    2 warps (31 lanes each) wait for other lanes of their warp in outer (spin.cu:13)
";

#[test]
fn cores_of_older_and_newer_drivers_read_the_same() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = cores(&work);
    for name in ["outer.core", "outer-older.core", "outer-longer.core"] {
        assert_eq!(text(&work, &folder.join(name)), OUTER, "{name}");
    }
    let [mut today, mut older, longer] =
        ["outer.core", "outer-older.core", "outer-longer.core"].map(|name| json(&work, &folder.join(name)));
    assert_eq!(today, longer);
    // Drivers before 565 say nothing of themselves.
    for key in ["driver", "cuda", "written_unix_s"] {
        assert!(!today[key].is_null() && older[key].is_null(), "{key}");
        (today[key], older[key]) = (Json::Null, Json::Null);
    }
    assert_eq!(today, older);
    // Without -lineinfo there are functions and offsets.
    let bare = text(&work, &folder.join("outer-bare.core"));
    assert!(
        bare.contains("2 warps (1 lane each) loop in outer+0x20; a barrier")
            && bare.contains("at the barrier in outer+0x50"),
        "{bare}"
    );
}

#[test]
fn a_filled_device_a_fault_and_an_idle_device_are_told() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = cores(&work);
    let filled = text(&work, &folder.join("filled.core"));
    let expect = "\
GPU 0 (NVIDIA H100 80GB HBM3): 2 kernels; all 256 warps that fit are taken, there is no room for another block
  fill<<<(10,1,1), (1024,1,1)>>>: 8 of 10 blocks resident, 2 have not begun; launched by thread 4712
    256 warps loop in fill (other.cu:4)
  late<<<(16,2,1), (256,1,1)>>>: none of its 32 blocks is resident: it has not begun; launched by thread 4712
";
    assert_eq!(filled, expect);
    let fault = text(&work, &folder.join("fault.core"));
    assert!(fault.contains("\n  exception: illegal address at 0x7f5a10000020 in inner_spin (spin.cu:11)\n"), "{fault}");
    assert!(
        fault.contains(
            "called from outer (spin.cu:13); exception: illegal address; a barrier of the block waits for it\n"
        ),
        "{fault}"
    );
    assert_eq!(text(&work, &folder.join("idle.core")), "GPU 0 (NVIDIA H100 80GB HBM3): no kernel\n");
}

#[test]
fn what_is_no_core_costs_one_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = cores(&work);
    let whole = fs::read(folder.join("outer.core")).unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = work.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    for (path, expect) in [
        (work.path().join("missing"), "No such file"),
        (work.path().to_owned(), "is a directory"),
        (at("empty", b""), "no ELF file of 64 bits"),
        (command(), "an ELF file of machine"),
        (at("cut", &whole[..whole.len() / 2]), "is cut short, or still being written"),
        (at("head", &whole[..64]), "is cut short, or still being written"),
    ] {
        let refused = report(&work, &path, "text");
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused}");
        let line = refused.stderr.strip_prefix(&format!("lazyguard: {}: ", path.display())).unwrap_or_default();
        assert!(line.contains(expect) && refused.stderr.lines().count() == 1, "{expect}: {refused}");
    }
    // A terabyte of which nothing is asked for is not read.
    let huge = folder.join("outer.core");
    File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(text(&work, &huge), OUTER);
}

#[test]
fn the_report_of_a_process_has_the_core_in_its_folder() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = cores(&work);
    let mut running = run(&work, &App::named("lazy_pair"))
        .set("LAZYGUARD_PRELOAD", "off")
        .hang_after("300ms")
        .guarded()
        .kept()
        .start();
    let own = running.until_a_hang_is_reported();
    running.stop();
    assert!(!own.report("text").contains("where the device stood"));
    fs::copy(folder.join("outer.core"), own.path().join("gpu.core")).unwrap();
    let told = own.report("text");
    let expect = format!("\nwhere the device stood when its core dump was taken:\n{OUTER}");
    assert!(told.contains(&expect), "{told}");
    let told: Json = serde_json::from_str(&own.report("json")).unwrap();
    assert_eq!(told["gpu"], json(&work, &folder.join("outer.core")));
    // One that cannot be read costs a line and the exit status, also in the report of several processes.
    fs::write(own.path().join("gpu.core"), b"text").unwrap();
    let report = |format: &str, folder: &Path| {
        Run::new(&work, command()).args([Path::new("report"), folder]).args(["--format", format]).finish()
    };
    let unreadable = "the core dump of the GPU cannot be read: ";
    let told = report("text", own.path());
    assert!(told.stdout.contains(&format!("\n{unreadable}")) && told.stdout.contains("LG201 ("), "{told}");
    assert_eq!((told.code, told.stderr.as_str()), (Some(1), ""), "{told}");
    let told = report("json", own.path());
    assert!(told.code == Some(1) && told.stderr.contains(unreadable), "{told}");
    assert!(told.stdout.contains(&format!("\"{unreadable}")), "{told}");
    let around = own.path().parent().unwrap_or(own.path());
    for format in ["text", "json"] {
        let told = report(format, around);
        assert!(told.code == Some(1) && told.stdout.contains(unreadable), "{told}");
    }
}

/// A core of a card, in which each of two blocks polls four bytes, beside the recording of a process that has set them.
#[test]
fn polled_memory_is_told_with_the_call_that_wrote_there_last() {
    let polled = |address: u64| address.to_le_bytes();
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/tests/gpu_cores/inside/spin_on_memory.core");
    let core = fs::read(core).unwrap();
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = run(&work, &App::named("wait_never_written")).hang_after("300ms").guarded().kept().start();
    let own = running.until_a_hang_is_reported();
    running.stop();
    let log = Run::new(&work, command())
        .args([Path::new("log"), own.path()])
        .args(["--format", "json", "--call", "cuStreamWaitValue32"])
        .finish()
        .stdout;
    let wait: Json = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let word = wait["address"].as_u64().unwrap();
    let mut own_core = core.clone();
    let at = core.windows(8).position(|bytes| bytes == polled(0x7f4d_e3e0_0000)).unwrap();
    own_core[at..at + 8].copy_from_slice(&polled(word));
    fs::write(own.path().join("gpu.core"), own_core).unwrap();
    let told = own.report("text");
    let first = format!("2 of 2 blocks: warp 0 spins on memory at {word:#x} (spin_on_memory.cu:9), where it read 0; cuMemsetD32_v2 wrote there last, after ");
    assert!(told.contains(&first) && told.contains(" s, at main wait_never_written.cpp:15\n"), "{told}");
    // Memory that nobody has set.
    fs::write(own.path().join("gpu.core"), core).unwrap();
    let told = own.report("text");
    assert!(told.contains("where it read 0; no copy, fill or stream write to it is recorded\n"), "{told}");
}
