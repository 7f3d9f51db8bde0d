//! The stacks of blocked threads: in the live report, and as the command reads them from the folder afterwards.

use lazyguard_e2e::{command, number, root, stack_program, text, Folder, Json, Run, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A frame: the function, and the file's name and the line. Nothing of it where it is not known.
type Frame = (String, String, u64);

/// The line of a source that holds a text.
fn line_of(source: &str, what: &str) -> u64 {
    let path = root().join("testapps/stacks").join(source);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<_> = text.lines().enumerate().filter(|(_, line)| line.contains(what)).map(|(n, _)| n + 1).collect();
    assert_eq!(lines.len(), 1, "{source}: one line with {what:?} was expected");
    lines[0] as u64
}

/// A run that hangs, killed when it has been reported.
struct Hung {
    folder: Folder,
    said: String,
}

impl Hung {
    fn of(run: Run<'_>) -> Self {
        let mut running = run.guarded().kept().hang_after("700ms").start();
        let folder = running.until_a_hang_is_reported();
        // The stacks come behind the report: what Python says of its threads comes before them.
        let said = running.until("the stacks", lazyguard_e2e::PATIENCE, |running| {
            let kept = folder.hang()["stacks"].as_array().is_some_and(|stacks| !stacks.is_empty());
            (kept && running.stderr().contains("lazyguard: stack of thread ")).then(|| running.stderr())
        });
        drop(running);
        Self { folder, said }
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.folder.report("json")).unwrap_or_else(|error| panic!("the report: {error}"))
    }

    /// The frames of the only stack, as the command reports them.
    fn frames(&self) -> Vec<Json> {
        let report = self.json();
        let stacks = report["stacks"].as_array().unwrap_or_else(|| panic!("no stacks: {report:#}"));
        assert_eq!(stacks.len(), 1, "{stacks:#?}");
        stacks[0]["frames"].as_array().cloned().unwrap_or_default()
    }

    /// The lines of the live report that show the only stack.
    fn live_lines(&self) -> Vec<&str> {
        self.said.lines().filter_map(|line| line.strip_prefix("lazyguard:     at ")).collect()
    }

    /// What the process itself has found is what the command finds by other means, frame by frame; and standard error says
    /// it.
    fn expect_live_and_later_agree(&self) {
        let place = |frame: &Json| (text(frame, "/module").to_owned(), number(frame, "/offset"));
        let whole = |frame: &&Json| frame["inlined"] != true;
        let later: Vec<_> = self.frames().iter().filter(whole).map(place).collect();
        let hang = self.folder.hang();
        let live: Vec<_> = hang["stacks"][0]["frames"].as_array().into_iter().flatten().map(place).collect();
        assert_eq!(live, later, "left: live; right: from the folder");
        // Frames of the system's libraries are only counted.
        let system = ["libc.so", "libc-", "libstdc++.so", "libpthread", "ld-linux"];
        let own = live.iter().filter(|(module, _)| !system.iter().any(|name| module.starts_with(name)));
        let said: Vec<_> = own.map(|(module, offset)| format!("{module}+{offset:#x}")).collect();
        assert_eq!(self.live_lines(), said, "{}", self.said);
    }
}

fn known(frame: &Json) -> Frame {
    let file = Path::new(frame["file"].as_str().unwrap_or_default());
    let file = file.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    (frame["function"].as_str().unwrap_or_default().to_owned(), file, frame["line"].as_u64().unwrap_or(0))
}

fn frame(function: &str, file: &str, line: &str) -> Frame {
    (function.to_owned(), file.to_owned(), line_of(file, line))
}

/// What a program's frames are called, from the driver call on outwards, up to where they are the C library's.
fn expect_chain(hung: &Hung, expected: &[Frame]) {
    let found: Vec<_> = hung.frames().iter().map(known).collect();
    assert_eq!(found.get(..expected.len()), Some(expected), "{found:#?}");
    hung.expect_live_and_later_agree();
    let printed = hung.folder.report("text");
    let lines = printed.lines().filter(|line| line.starts_with("    at ")).zip(expected);
    for (line, (function, file, number)) in lines {
        let says = line.contains(&format!(" {function}, ")) && line.contains(&format!("/{file}:{number} ("));
        assert!(says, "{function} at {file}:{number} is not in {line:?}:\n{printed}");
    }
}

#[test]
fn through_libraries_that_were_built_without_frame_pointers() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hung = Hung::of(Run::new(&work, stack_program("chain")));
    let expected = [
        frame("wait_for_stream", "chain.cpp", "// the call"),
        frame("chain_inner", "libchain_inner.c", "// inner"),
        frame("chain_outer", "libchain_outer.c", "// outer"),
        frame("main", "chain.cpp", "// main"),
    ];
    expect_chain(&hung, &expected);
    let modules: Vec<_> = hung.frames().iter().map(|frame| text(frame, "/module").to_owned()).collect();
    assert_eq!(modules[..4], ["chain", "libchain_inner.so", "libchain_outer.so", "chain"]);
    assert_eq!(
        hung.frames().last().map(known).map(|frame| frame.0).as_deref(),
        Some("_start"),
        "up to the first frame"
    );
}

#[test]
fn in_a_lambda_of_a_thread_with_functions_put_into_others() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hung = Hung::of(Run::new(&work, stack_program("lambda")));
    let expected = [
        frame("work::synchronize<CUstream_st*>", "lambda.cpp", "// the call"),
        frame("work::Worker::run", "lambda.cpp", "// run"),
        frame("operator()", "lambda.cpp", "// lambda"),
    ];
    expect_chain(&hung, &expected);
    let frames = hung.frames();
    let inlined: Vec<_> = frames[..3].iter().map(|frame| frame["inlined"] == true).collect();
    assert_eq!(inlined, [true, false, true]);
    let of_the_thread =
        frames.iter().map(known).find(|(function, ..)| function.starts_with("std::thread::_State_impl<"));
    assert!(of_the_thread.is_some_and(|(function, ..)| function.contains("main::{lambda()#1}")), "{frames:#?}");
}

fn on_an_odd_stack(test: &str, kind: &str) {
    let work = Work::new(test);
    let hung = Hung::of(Run::new(&work, stack_program("odd_stack")).args([kind]));
    let expected = [frame("on_it", "odd_stack.c", "/* the call */"), frame("entry", "odd_stack.c", "/* entry */")];
    expect_chain(&hung, &expected);
}

#[test]
fn on_a_tiny_stack() {
    on_an_odd_stack(lazyguard_e2e::this_test!(), "tiny");
}

#[test]
fn on_a_stack_in_memory_from_malloc() {
    on_an_odd_stack(lazyguard_e2e::this_test!(), "heap");
}

#[test]
fn on_another_stack_that_the_thread_has_gone_over_to() {
    on_an_odd_stack(lazyguard_e2e::this_test!(), "context");
}

#[test]
fn of_a_thread_whose_main_thread_has_left() {
    on_an_odd_stack(lazyguard_e2e::this_test!(), "left");
}

#[test]
fn of_a_librarys_destructor_when_the_process_ends() {
    on_an_odd_stack(lazyguard_e2e::this_test!(), "end");
}

#[test]
fn of_a_process_that_still_hangs_by_its_id() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = Run::new(&work, stack_program("chain")).guarded().kept().hang_after("200ms").start();
    running.until_a_hang_is_reported();
    let output = Command::new(command()).args(["report", &running.process().to_string()]).output();
    let output = output.unwrap_or_else(|error| panic!("lazyguard report: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let line = format!(
        "    at wait_for_stream, {}:{}",
        root().join("testapps/stacks/chain.cpp").display(),
        line_of("chain.cpp", "// the call")
    );
    assert!(output.status.success() && printed.contains(&line), "{line}:\n{printed}");
    assert!(running.runs());
}

#[test]
fn of_a_process_whose_main_thread_has_left_by_its_id() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let left = Run::new(&work, stack_program("odd_stack")).args(["left"]);
    let mut running = left.guarded().kept().hang_after("200ms").start();
    running.until_a_hang_is_reported();
    let of_it = |asked: &str| {
        let output = Command::new(command()).args([asked, &running.process().to_string()]).output();
        let output = output.unwrap_or_else(|error| panic!("lazyguard {asked}: {error}"));
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, printed) = of_it("report");
    assert!(code == Some(0) && printed.contains("    at on_it, "), "{printed}");
    let (code, printed) = of_it("health");
    assert!(code == Some(117) && printed.starts_with("hang: "), "{printed}");
}

#[test]
fn in_the_handler_of_a_signal_and_below_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hung = Hung::of(Run::new(&work, stack_program("odd_stack")).args(["signal"]));
    let expected = [
        frame("on_it", "odd_stack.c", "/* the call */"),
        frame("entry", "odd_stack.c", "/* entry */"),
        frame("handler", "odd_stack.c", "/* handler */"),
    ];
    expect_chain(&hung, &expected);
    let found: Vec<_> = hung.frames().iter().map(known).collect();
    assert!(found.contains(&frame("interrupted", "odd_stack.c", "/* interrupted */")), "{found:#?}");
    assert_eq!(found.last().map(|frame| frame.0.as_str()), Some("_start"), "{found:#?}");
}

/// A program in the test's own folder, for it to be changed there.
fn copied(work: &Work, name: &str) -> PathBuf {
    let path = work.path().join(name);
    fs::copy(stack_program(name), &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn strip(path: &Path) {
    let status = Command::new("strip").arg("--strip-all").arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "strip failed");
}

/// The places of the frames in the program itself; none of them has a name.
fn nameless_places(hung: &Hung, module: &str) -> Vec<u64> {
    let frames = hung.frames();
    let own: Vec<_> = frames.iter().filter(|frame| frame["module"] == module).collect();
    for frame in &own {
        assert!(frame["function"].is_null() && frame["file"].is_null(), "a name without a ground: {frame:#}");
    }
    own.iter().map(|frame| number(frame, "/offset")).collect()
}

#[test]
fn a_stripped_program_is_told_by_file_and_offset() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let whole = Hung::of(Run::new(&work, stack_program("odd_stack")).args(["tiny"]));
    let places: Vec<_> = whole.frames()[..2].iter().map(|frame| number(frame, "/offset")).collect();
    let program = copied(&work, "odd_stack");
    strip(&program);
    let hung = Hung::of(Run::new(&work, &program).args(["tiny"]));
    assert_eq!(nameless_places(&hung, "odd_stack"), places);
    hung.expect_live_and_later_agree();
    let printed = hung.folder.report("text");
    assert!(printed.contains(&format!("    at odd_stack+{:#x}\n", places[0])), "{printed}");
    assert!(!printed.contains("no names in odd_stack"), "it is the file that was mapped:\n{printed}");
}

#[test]
fn a_file_that_was_replaced_or_is_gone_names_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = copied(&work, "odd_stack");
    let hung = Hung::of(Run::new(&work, &program).args(["tiny"]));
    let places: Vec<_> = hung.frames()[..2].iter().map(|frame| number(frame, "/offset")).collect();
    let all = hung.frames().len();
    let other = fs::read(stack_program("lambda")).unwrap_or_else(|error| panic!("{error}"));
    fs::write(&program, other).unwrap_or_else(|error| panic!("{error}"));
    for why in ["not the one that was mapped", "is gone, or cannot be read"] {
        assert_eq!(nameless_places(&hung, "odd_stack"), places, "{why}");
        // The file's unwind tables are gone too: the frames that the process found itself are reported.
        assert_eq!(hung.frames().len(), all, "{why}");
        let printed = hung.folder.report("text");
        let note = printed.lines().find(|line| line.contains("no names in odd_stack: the file"));
        assert!(note.is_some_and(|note| note.ends_with(&format!("{why})"))), "{printed}");
        // The other files are what they were.
        assert!(hung.frames().iter().any(|frame| frame["function"] == "start_thread"), "{printed}");
        // For the second time.
        let _ = fs::remove_file(&program);
    }
}

#[test]
fn a_dump_that_is_damaged_costs_the_names_and_says_so() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hung = Hung::of(Run::new(&work, stack_program("chain")));
    let path = hung.folder.path().join("stacks.dmp");
    let whole = fs::read(&path).unwrap_or_else(|error| panic!("{error}"));
    let report = |format: &str| {
        Run::new(&work, command()).args(["report", "--format", format]).args([hung.folder.path()]).finish()
    };
    for length in [0, 3, 40, 200, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap_or_else(|error| panic!("{error}"));
        let told = report("text");
        assert!(told.stdout.contains("LG203") && told.stdout.contains("    at "), "{length}: {told}");
        assert_eq!(told.code, Some(i32::from(!told.stderr.is_empty())), "{length}: {told}");
    }
    fs::write(&path, b"nonsense").unwrap_or_else(|error| panic!("{error}"));
    for (format, says) in [("text", "    at wait_for_stream, "), ("json", "\"stacks\": null")] {
        let told = report(format);
        assert!(told.code == Some(1) && told.stderr.contains("stacks.dmp: not a minidump"), "{told}");
        assert!(told.stdout.contains("LG203") && told.stdout.contains(says), "{told}");
    }
}

/// Pythons that may be there; which of them exports the function, and which does not, differs by how it was built.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

#[test]
fn python_tells_its_threads_and_the_program_sees_no_child_and_no_signal() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = root().join("testapps/stacks/children.py");
    for (number, python) in
        PYTHONS.iter().filter(|python| **python == "python3" || Path::new(python).exists()).enumerate()
    {
        let end = work.path().join(format!("end-{number}"));
        let run = Run::new(&work, python).args([&program]).args([&end]).guarded().kept().hang_after("200ms");
        let mut running = run.start();
        let folder = running.until_a_hang_is_reported();
        // Another process is asked, so it is said behind the report.
        running.until("what Python says", lazyguard_e2e::PATIENCE, |running| {
            let told = folder.hang()["python"].is_string();
            (told && running.stderr().contains("lazyguard: python: ")).then_some(())
        });
        let (said, process) = (running.stderr(), running.process());
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        assert!(children.is_ok_and(|children| children.trim().is_empty()), "a child was left");
        fs::write(&end, "").unwrap_or_else(|error| panic!("{error}"));
        let outcome = running.finish_within(lazyguard_e2e::PATIENCE);
        assert_eq!(outcome.code, Some(0), "{outcome}");
        assert_eq!(outcome.stdout, "children before: 0, signals before: 0, own child: 7, signals: 1\n", "{outcome}");
        expect_python_stacks(&folder, &said);
    }
}

fn expect_python_stacks(folder: &Folder, said: &str) {
    let hang = folder.hang();
    let told = text(&hang, "/python");
    let kept = fs::read_to_string(folder.path().join("python.txt")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(told, kept);
    let threads: Vec<_> = told.split("\n\n").collect();
    assert_eq!(threads.len(), 3, "{told}");
    // The innermost frame comes first.
    let functions = |thread: &str| -> Vec<String> {
        let frames = thread.lines().filter(|line| line.contains("children.py"));
        frames.filter_map(|line| line.rsplit_once(" in ")).map(|(_, function)| function.to_owned()).collect()
    };
    let blocked: Vec<_> = threads.iter().map(|thread| functions(thread)).filter(|f| f[0] == "wait_for").collect();
    assert_eq!(blocked, [["wait_for", "main", "<module>"]], "{told}");
    let line =
        format!("children.py\", line {} in wait_for", line_of("children.py", "    driver.cuStreamSynchronize(stream)"));
    assert!(told.contains(&line), "{line}:\n{told}");
    assert!(told.contains(" in busy_for_ever"), "{told}");
    assert!(said.lines().any(|text| text.starts_with("lazyguard: python: ") && text.ends_with(&line)), "{said}");
}

#[test]
fn a_program_without_python_has_no_such_part() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hung = Hung::of(Run::new(&work, stack_program("chain")));
    assert!(hung.folder.hang()["python"].is_null() && !hung.folder.holds("python.txt"));
    assert!(hung.folder.holds("stacks.dmp") && !hung.said.contains("lazyguard: python: "));
}
