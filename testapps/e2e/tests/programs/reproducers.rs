//! `lazyguard export --to cuda`: the reproducer of a corpus' hang is compiled and gets the hang's code. A line `reproducer: none, WHY` in a
//! program's first lines is for what the command refuses, with that reason.
//!
//! A program of each code is tried; with `LAZYGUARD_TEST_LONG`, all are.

use crate::{ask, corpus, part_of_corpus, questions};
use lazyguard_e2e::{command, driver_folder, target, Expect, InCorpus, Outcome, Run, Work, PATIENCE};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

/// The everyday share.
const SOME: [&str; 12] = [
    "cold_kernel",
    "device_filled",
    "event_behind_host_function",
    "free",
    "gets_library_module",
    "graph_waits_for_event",
    "first_printf",
    "kernel_never_ends",
    "local_memory_grows",
    "more_streams_than_queues",
    "queue_full",
    "threads_wait_for_each_other",
];

const WITH_A_GRAPH: &str = "graph_waits_for_event";

pub(crate) fn trials() -> Vec<Trial> {
    let all = std::env::var_os("LAZYGUARD_TEST_LONG").is_some();
    let mut programs = part_of_corpus("hang");
    programs.retain(|program| all || SOME.contains(&program.name.as_str()));
    let of = |program: InCorpus| match program.header.reproducer {
        None if program.name == WITH_A_GRAPH => {
            ask("reproducers", &program.name, questions![it_gets_the_code, the_compilers_for_devices_accept_it])
        }
        None => ask("reproducers", &program.name, questions![it_gets_the_code]),
        Some(_) => ask("reproducers", &program.name, questions![it_is_refused_with_the_reason]),
    };
    programs.into_iter().flat_map(of).collect()
}

/// The program hangs, and is exported.
fn exported(work: &Work, program: &InCorpus) -> Outcome {
    let mut running = corpus::guarded_as_it_says(work, program).start();
    let folder = corpus::until_the_verdict_within(&mut running, PATIENCE);
    running.stop();
    let made = work.path().join("reproducer.cu");
    Run::new(work, command()).args(["export", "--to", "cuda", "-o"]).args([&made]).args([folder.path()]).finish()
}

fn compiled(work: &Work) -> Outcome {
    let path = |path: &Path| path.display().to_string();
    let (include, driver) = (format!("-I{}", path(&target().join("cuda/include"))), driver_folder());
    let compiler = Run::new(work, "c++").args(["-x", "c++", "-std=c++17", "-Wall", "-pthread", &include]);
    let files = [path(&work.path().join("reproducer.cu")), "-o".to_owned(), path(&work.path().join("reproducer"))];
    compiler.args(files).args([format!("-L{}", path(&driver)), "-lcuda".to_owned()]).start().finish_within(PATIENCE)
}

fn it_gets_the_code(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let Expect::Hang { code, .. } = &program.header.expect else { panic!("{name} is not said to hang") };
    let made = exported(&work, &program);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{made}");
    let text = fs::read_to_string(work.path().join("reproducer.cu")).unwrap_or_default();
    assert!(text.lines().count() <= 150, "{text}");
    let compiler = compiled(&work);
    assert_eq!((compiler.code, compiler.stderr.as_str()), (Some(0), ""), "{compiler}\n{text}");
    let bare = Run::new(&work, work.path().join("reproducer")).start();
    let run = Run::new(&work, work.path().join("reproducer")).guarded().kept().set("LAZYGUARD_PRELOAD", "off");
    let mut running = run.hang_after(&format!("{}ms", corpus::pace().as_millis())).start();
    let folder = corpus::until_the_verdict_within(&mut running, PATIENCE);
    let outcome = running.stop();
    assert_eq!(folder.hang()["verdicts"][0]["code"], *code, "{outcome}\n{text}");
    let bare = bare.stop();
    assert_eq!((bare.code, bare.stderr.as_str()), (None, ""), "it should hang: {bare}\n{text}");
}

/// nvcc compiles the program, and ptxas the text of its kernels. A machine without them passes.
fn the_compilers_for_devices_accept_it(test: &str, name: &str) {
    let (work, program, tools) = (Work::new(test), InCorpus::named(name), target().join("cuda/bin"));
    if !tools.join("nvcc").is_file() {
        return;
    }
    exported(&work, &program);
    let path = |name: &str| work.path().join(name).display().to_string();
    let include = format!("-I{}", target().join("cuda/include").display());
    let compiler = Run::new(&work, tools.join("nvcc")).args(["-std=c++17", &include, "-c", "-o", &path("object")]);
    let compiler = compiler.args([path("reproducer.cu")]).start().finish_within(PATIENCE);
    assert_eq!((compiler.code, compiler.stderr.as_str()), (Some(0), ""), "{compiler}");
    let text = fs::read_to_string(path("reproducer.cu")).unwrap_or_default();
    let functions = text.split("\nint main() {").next().unwrap_or_default();
    let main = "int main() { std::fputs(code({\"one\", \"other$2\"}, 32768).c_str(), stdout); }\n";
    fs::write(path("reproducer.cu"), format!("{functions}\n{main}")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(compiled(&work).code, Some(0));
    let printed = Run::new(&work, path("reproducer")).finish();
    fs::write(path("kernels.ptx"), &printed.stdout).unwrap_or_else(|error| panic!("{error}"));
    let assembler =
        Run::new(&work, tools.join("ptxas")).args(["-arch=sm_75", "-o", &path("cubin"), &path("kernels.ptx")]);
    let assembler = assembler.finish();
    assert_eq!((assembler.code, assembler.stderr.as_str()), (Some(0), ""), "{assembler}\n{printed}");
}

fn it_is_refused_with_the_reason(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let why = program.header.reproducer.as_deref().and_then(|text| text.strip_prefix("none, ")).unwrap_or_default();
    let refused = exported(&work, &program);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused}");
    let line = refused.stderr.strip_suffix('\n').unwrap_or_default();
    assert!(!why.is_empty() && line.ends_with(&format!(" can be made: {why}")) && !line.contains('\n'), "{refused}");
}
