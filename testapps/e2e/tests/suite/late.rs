//! Why a rank is late: each class of evidence on a program that shows it without a device, as `lazyguard report PID` says it.

use lazyguard_e2e::{command, this_test, Json, Work, PATIENCE};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program in a process group of its own, which ends with this.
struct Late(Child);

impl Drop for Late {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

impl Late {
    fn start(program: &mut Command) -> Self {
        let quiet = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.process_group(0).spawn().unwrap())
    }

    fn python(work: &Work, text: &str) -> Self {
        let file = work.path().join("late.py");
        fs::write(&file, text.replace("FOLDER", &work.path().to_string_lossy())).unwrap();
        Self::start(Command::new("python3").arg(file))
    }

    /// Looks until the evidence has this class and these words.
    fn shows(&self, class: &str, words: &[&str]) -> Json {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = self.evidence();
            let sentence = seen["sentence"].as_str().unwrap_or_default();
            if seen["class"] == class && words.iter().all(|words| sentence.contains(words)) {
                return seen;
            }
            assert!(Instant::now() < end, "{class} {words:?}: {seen:#}");
        }
    }

    fn evidence(&self) -> Json {
        let id = self.0.id().to_string();
        let output = Command::new(command()).args(["report", &id, "--format", "json"]).output().unwrap();
        let said: Json = serde_json::from_slice(&output.stdout).unwrap_or(Json::Null);
        said["evidence"].clone()
    }
}

const FIFO: &str = "import os\nos.mkfifo('FOLDER/shard') if not os.path.exists('FOLDER/shard') else None\n\
                    def read_shard():\n    return open('FOLDER/shard').read()\n";

#[test]
fn a_read_that_does_not_return_is_a_file_with_its_path_and_line() {
    let work = Work::new(this_test!());
    let late = Late::python(&work, &format!("{FIFO}read_shard()\n"));
    let path = format!("{}/shard", work.path().display());
    late.shows("file", &["opens", &path, "a FIFO", "late.py:4 in read_shard"]);
    // The first look may have seen it come there.
    let seen = late.evidence();
    assert_eq!((seen["moves"].as_bool(), seen["lacks"].as_array()), (Some(false), None), "{seen:#}");
    assert_eq!(seen["python"][0]["function"], "read_shard", "{seen:#}");
}

#[test]
fn a_worker_that_reads_is_the_child_and_not_the_one_that_waits_for_work() {
    let work = Work::new(this_test!());
    let late = Late::python(
        &work,
        &format!(
            "{FIFO}import multiprocessing as mp\n\
             def work(number, todo, done):\n    while True:\n        todo.get()\n        number and read_shard()\n        done.put(1)\n\
             done = mp.Queue()\nqueues = [mp.Queue() for _ in range(2)]\n\
             for number in range(2): mp.Process(target=work, args=(number, queues[number], done), daemon=True).start()\n\
             for queue in queues: queue.put(1)\ndone.get()\ndone.get()\n"
        ),
    );
    late.shows("child", &["waits for its child python3 (process ", "which opens ", "late.py:4 in read_shard"]);
    // The first look may have seen it come there.
    let seen = late.evidence();
    assert_eq!(seen["moves"], false, "{seen:#}");
}

#[test]
fn a_killed_worker_is_gone_though_another_holds_its_pipe() {
    let work = Work::new(this_test!());
    let late = Late::python(
        &work,
        "import multiprocessing as mp, os, signal\n\
         done = mp.Queue()\ntodo = mp.Queue()\n\
         mp.Process(target=lambda: todo.get(), daemon=True).start()\n\
         mp.Process(target=lambda: os.kill(os.getpid(), signal.SIGKILL), daemon=True).start()\ndone.get()\n",
    );
    late.shows("child", &["was killed by SIGKILL"]);
}

#[test]
fn a_lock_leads_to_the_thread_that_reads() {
    let work = Work::new(this_test!());
    let late = Late::python(
        &work,
        &format!(
            "{FIFO}import threading, time\nlock = threading.Lock()\n\
             def async_checkpoint():\n    with lock: read_shard()\n\
             threading.Thread(target=async_checkpoint, daemon=True).start()\ntime.sleep(0.5)\nlock.acquire()\n"
        ),
    );
    late.shows("lock", &["waits for another thread; thread ", "opens ", "in read_shard", "(late.py:11)"]);
}

#[test]
fn a_server_that_does_not_answer_is_a_peer_and_one_that_listens_is_at_rest() {
    let work = Work::new(this_test!());
    let begin = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n";
    let connects = "client = socket.create_connection(server.getsockname())\nclient.recv(1)\n";
    Late::python(&work, &format!("{begin}{connects}")).shows("peer", &["waits for an answer of 127.0.0.1:"]);
    Late::python(&work, &format!("{begin}server.accept()\n"))
        .shows("rests", &["for a connection from outside, at 127.0.0.1:"]);
    Late::python(&work, "import time\ntime.sleep(1000)\n").shows("rests", &["sleeps until a time"]);
}

/// A shared library of this name, from this text in C++.
fn library(work: &Work, name: &str, text: &str) {
    let (source, file) = (work.path().join("library.cpp"), work.path().join(name));
    fs::write(&source, text).unwrap();
    let built = Command::new("c++").args(["-O2", "-shared", "-fPIC", "-o"]).arg(file).arg(source).status();
    assert!(built.unwrap().success());
}

#[test]
fn a_wait_inside_of_mpi_or_of_the_store_of_the_job_is_told_by_its_native_frames() {
    let work = Work::new(this_test!());
    let mpi =
        "#include <unistd.h>\nextern \"C\" int MPI_Recv(int from) { char byte; return read(from, &byte, 1) == 1; }\n";
    library(&work, "libmpi.so.40", mpi);
    let late = Late::python(
        &work,
        "import ctypes, os\nfrom_one, _ = os.pipe()\nctypes.CDLL('FOLDER/libmpi.so.40').MPI_Recv(from_one)\n",
    );
    late.shows("peer", &["waits for other ranks on the host, in MPI_Recv of MPI (late.py:3)"]);
    let store = "#include <sys/socket.h>\nnamespace c10d {\nstruct TCPStore { bool get(int); };\n\
                 bool TCPStore::get(int from) { char byte; return recv(from, &byte, 1, 0) == 1; }\n}\n\
                 extern \"C\" int get_key(int from) { return c10d::TCPStore().get(from) + 1; }\n";
    library(&work, "libtorch_cpu.so", store);
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let file = work.path().join("store.py");
    let text =
        "import ctypes, os, socket\nstore = socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n\
                ctypes.CDLL('FOLDER/libtorch_cpu.so').get_key(store.fileno())\n";
    fs::write(&file, text.replace("FOLDER", &work.path().to_string_lossy())).unwrap();
    let late = Late::start(Command::new("python3").arg(file).env("MASTER_PORT", &port));
    late.shows("peer", &[&format!("waits for the store of the job at 127.0.0.1:{port}, in `get` (store.py:3)")]);
}

#[test]
fn a_loop_computes_and_a_collection_collects() {
    let work = Work::new(this_test!());
    let seen = Late::python(&work, "def collate():\n    while True: sum(range(10000))\ncollate()\n")
        .shows("computes", &["computes in collate (late.py:2)"]);
    assert_eq!(seen["moves"], true, "{seen:#}");
    let collects = "import gc, time\nclass Cache:\n    def __init__(self): self.me = self\n    def __del__(self):\n        while True: \
                    time.sleep(0.001)\nCache()\ngc.collect()\n";
    let version = Command::new("python3").args(["-c", "import sys; print(sys.version_info[1])"]).output().unwrap();
    let minor: u32 = String::from_utf8_lossy(&version.stdout).trim().parse().unwrap();
    if minor >= 11 {
        Late::python(&work, collects).shows("collects", &["in `__del__` of Cache (late.py:5)"]);
    }
}

#[test]
fn a_compiler_among_the_children_compiles() {
    let work = Work::new(this_test!());
    let compiler = work.path().join("ptxas");
    fs::write(&compiler, "#!/bin/sh\nwhile :; do :; done\n").unwrap();
    fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let late = Late::python(&work, "import subprocess\nsubprocess.run(['FOLDER/ptxas'])\n");
    let seen = late.shows("compiles", &["compiles: ptxas (process "]);
    assert_eq!(seen["moves"], true, "{seen:#}");
}

// It says which of the two it took.
#[allow(clippy::print_stdout)]
#[test]
fn a_stopped_and_a_frozen_process_are_stopped() {
    let work = Work::new(this_test!());
    let sleeps = || Late::python(&work, "import time\ntime.sleep(1000)\n");
    let late = sleeps();
    late.shows("rests", &[]);
    assert!(Command::new("kill").args(["-STOP", &late.0.id().to_string()]).status().unwrap().success());
    late.shows("stopped", &["is stopped (SIGSTOP)"]);
    let folder = format!("/sys/fs/cgroup/freezer/lazyguard-late-{}", std::process::id());
    if fs::create_dir(&folder).is_err() {
        println!("no control group can be frozen here: core/src/evidence/tests.rs reads a written tree");
        return;
    }
    println!("the process is frozen by {folder}");
    let late = sleeps();
    fs::write(format!("{folder}/cgroup.procs"), late.0.id().to_string()).unwrap();
    fs::write(format!("{folder}/freezer.state"), "FROZEN").unwrap();
    let seen = std::panic::catch_unwind(|| late.shows("stopped", &["its cgroup is frozen"]));
    fs::write(format!("{folder}/freezer.state"), "THAWED").unwrap();
    drop(late);
    std::thread::sleep(Duration::from_millis(200));
    fs::remove_dir(&folder).unwrap();
    seen.unwrap();
}

// It says which of the two it took.
#[allow(clippy::print_stdout)]
#[test]
fn a_process_whose_cgroup_is_throttled_is_starved() {
    let work = Work::new(this_test!());
    let folder = format!("/sys/fs/cgroup/cpu/lazyguard-late-{}", std::process::id());
    if fs::create_dir(&folder).is_err() {
        println!("no control group can be throttled here: core/src/evidence/tests.rs reads a written tree");
        return;
    }
    println!("the process is throttled by {folder}");
    let late = Late::python(&work, "while True: sum(range(10000))\n");
    // A hundredth of a processor.
    let throttled = fs::write(format!("{folder}/cpu.cfs_quota_us"), "1000");
    fs::write(format!("{folder}/cgroup.procs"), late.0.id().to_string()).unwrap();
    let seen = std::panic::catch_unwind(|| late.shows("starved", &["its cgroup is throttled"]));
    fs::write(format!("{folder}/cpu.cfs_quota_us"), "-1").unwrap();
    drop(late);
    std::thread::sleep(Duration::from_millis(200));
    fs::remove_dir(&folder).unwrap();
    throttled.unwrap();
    seen.unwrap();
}

#[test]
fn a_program_that_waits_for_its_threads_at_its_end_has_left_its_loop() {
    let work = Work::new(this_test!());
    let late = Late::python(&work, &format!("{FIFO}import threading\nthreading.Thread(target=read_shard).start()\n"));
    late.shows("ends", &["has left its loop and is in _shutdown"]);
}
