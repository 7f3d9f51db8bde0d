//! Trees of the kernel's files as trainings leave them that stand still, each with the decisive lines alone, and their classes.

use super::{Class, Depth, Evidence, Look, Source};
use crate::stack::Machine;
use std::fs;
use std::os::unix::fs::{symlink, FileExt as _};
use std::path::PathBuf;

const SECOND: u64 = 1_000_000_000;

/// A written tree, removed at its end.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("lazyguard-evidence-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let tree = Self(root);
        tree.file("proc/uptime", "90000.00 1.00\n");
        tree
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A process with its main thread, which is in this call.
    fn process(&self, process: u32, parent: u32, name: &str, state: char, call: &str, function: &str) -> &Self {
        self.stat(&format!("proc/{process}"), (process, parent), name, state, 0, 0);
        self.thread(process, process, name, state, call, function)
    }

    fn stat(&self, folder: &str, (id, parent): (u32, u32), name: &str, state: char, ticks: u64, exit: u32) -> &Self {
        let line = format!(
            "{id} ({name}) {state} {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 8988000 {} {exit}\n",
            ["0"; 29].join(" ")
        );
        self.file(&format!("{folder}/stat"), &line)
    }

    fn thread(&self, process: u32, thread: u32, name: &str, state: char, call: &str, function: &str) -> &Self {
        let folder = format!("proc/{process}/task/{thread}");
        self.stat(&folder, (thread, 1), name, state, 0, 0);
        self.file(&format!("{folder}/syscall"), &format!("{call}\n")).file(&format!("{folder}/wchan"), function)
    }

    fn descriptor(&self, process: u32, number: u32, link: &str, flags: &str) -> &Self {
        let folder = self.0.join(format!("proc/{process}/fd"));
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_file(folder.join(number.to_string()));
        symlink(link, folder.join(number.to_string())).unwrap();
        self.file(
            &format!("proc/{process}/fdinfo/{number}"),
            &format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t27\nino:\t9\n"),
        )
    }

    fn memory(&self, process: u32, at: u64, bytes: &[u8]) -> &Self {
        let path = self.0.join(format!("proc/{process}/mem"));
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
        file.write_all_at(bytes, at).unwrap();
        self
    }

    fn look(&self, process: u32, depth: Depth) -> Look {
        Look::take(&Source::at(&self.0).of(Machine::X86_64), process, &[], depth)
    }

    fn told(&self, process: u32, depth: Depth) -> (Class, bool, String) {
        self.after(&self.look(process, depth), process, depth)
    }

    fn after(&self, before: &Look, process: u32, depth: Depth) -> (Class, bool, String) {
        let Evidence { class, moves, sentence, .. } = Evidence::of(before, &self.look(process, depth), SECOND);
        (class, moves, sentence)
    }
}

fn told(class: Class, sentence: &str) -> (Class, bool, String) {
    (class, false, sentence.to_owned())
}

const POLL: &str = "poll_schedule_timeout.constprop.0";
/// A descriptor that a data loader polls, and one that no other process can fill.
const POLLS_82: [u8; 8] = [82, 0, 0, 0, 1, 0, 0, 0];
const POLLS_84: [u8; 8] = [84, 0, 0, 0, 1, 0, 0, 0];

const READS: &str = "0 0x9 0x7f00 0x10000 0x0 0x0 0x0 0x7ffd 0x7f4b";
const FUTEX: &str = "202 0x15726420 0x189 0x0 0x0 0x0 0xffffffff 0x7fff 0x7fa4";

/// The main thread polls the workers' pipe; one worker is in `call`, the other polls its queue, which this process and that worker hold.
fn with_workers(name: &str, state: char, call: &str, function: &str) -> Tree {
    let tree = Tree::new(name);
    tree.process(818, 725, "python3", 'S', "7 0x1000 0x1 0x1388 0x1 0x0 0x0 0x7ffd 0x7f4b", POLL)
        .descriptor(818, 82, "pipe:[49]", "02000000")
        .descriptor(818, 85, "pipe:[50]", "02000001")
        .descriptor(818, 89, "pipe:[54]", "02000001")
        .memory(818, 0x1000, &POLLS_82);
    tree.process(812, 818, "pt_data_worker", state, call, function)
        .descriptor(812, 83, "pipe:[49]", "02000001")
        .descriptor(812, 84, "pipe:[50]", "02000000");
    tree.process(919, 818, "pt_data_worker", 'S', "7 0x1000 0x1 0x1388 0x1 0x0 0x0 0x7ffd 0x7f4b", POLL)
        .descriptor(919, 83, "pipe:[49]", "02000001")
        .descriptor(919, 84, "pipe:[54]", "02000000")
        .memory(919, 0x1000, &POLLS_84);
    tree
}

#[test]
fn a_worker_that_reads_is_the_one_of_two_that_does_not_wait_for_its_process() {
    let tree = with_workers("worker", 'S', READS, "rpc_wait_bit_killable");
    tree.descriptor(812, 9, "/data/shard-17.tar", "0100000")
        .file("proc/812/mountinfo", "27 22 0:9 / /data rw,relatime - nfs4 server:/data rw\n");
    let sentence =
        "waits for its data-loader worker (process 812), which reads /data/shard-17.tar (nfs4 from server:/data)";
    for depth in [Depth::Kernel, Depth::Memory] {
        assert_eq!(tree.told(818, depth), told(Class::Child, sentence));
    }
    let before = tree.look(818, Depth::Memory);
    tree.file("proc/812/fdinfo/9", "pos:\t65536\nflags:\t0100000\nmnt_id:\t27\n");
    assert_eq!(tree.after(&before, 818, Depth::Memory), (Class::Child, true, sentence.to_owned()), "it reads on");
}

#[test]
fn a_path_that_a_worker_opens_lies_in_its_memory() {
    let call = "257 0xffffff9c 0x2000 0x80000 0x0 0x0 0x0 0x7ffd 0x7f4b";
    let tree = with_workers("opens", 'S', call, "wait_for_partner");
    tree.memory(812, 0x2000, b"/data/shard-17.tar\0");
    let worker = "waits for its data-loader worker (process 812), which opens";
    let fifo = "a FIFO whose other end no process has opened";
    assert_eq!(tree.told(818, Depth::Memory), told(Class::Child, &format!("{worker} /data/shard-17.tar, {fifo}")));
    assert_eq!(tree.told(818, Depth::Kernel), told(Class::Child, &format!("{worker} {fifo}")));
}

#[test]
fn a_worker_is_followed_to_what_became_of_it() {
    let worker = "waits for its data-loader worker (process 812), which";
    let tree = with_workers("stopped", 'T', "62 0x592 0x13 0x0 0x0 0x0 0x0 0x7ffd 0x7f4b", "do_signal_stop");
    tree.stat("proc/812", (812, 818), "pt_data_worker", 'T', 0, 0);
    assert_eq!(tree.told(818, Depth::Memory), told(Class::Child, &format!("{worker} is stopped (SIGSTOP)")));

    let tree = with_workers("killed", 'S', "", "");
    fs::remove_dir_all(tree.0.join("proc/812")).unwrap();
    tree.stat("proc/812", (812, 818), "pt_data_worker", 'Z', 0, 9);
    assert_eq!(tree.told(818, Depth::Memory), told(Class::Child, &format!("{worker} was killed by SIGKILL")));

    let tree = with_workers("computes", 'R', "running", "0");
    tree.file("proc/812/task/812/schedstat", "1000 0 5");
    let before = tree.look(818, Depth::Memory);
    tree.file("proc/812/task/812/schedstat", "990001000 0 5");
    assert_eq!(tree.after(&before, 818, Depth::Memory), (Class::Child, true, format!("{worker} computes")));
}

#[test]
fn a_server_that_does_not_answer_is_a_peer_and_a_listening_socket_rest() {
    let tree = Tree::new("peer");
    tree.process(898, 761, "python3", 'S', "45 0x57 0x7fe2 0xa 0x0 0x0 0x0 0x7ffc 0x7fe5", "wait_woken").descriptor(
        898,
        87,
        "socket:[247]",
        "02000002",
    );
    let table =
        "sl local rem st tx rx tr uid\n 0: 0100007F:C637 0200000A:1F90 01 0:0 00:0 0 0 0 247 1 0 20 4 30 10 -1\n";
    tree.file("proc/898/net/tcp", table);
    assert_eq!(tree.told(898, Depth::Kernel), told(Class::Peer, "waits for an answer of 10.0.0.2:8080"));
    tree.thread(898, 898, "python3", 'S', "288 0x57 0x0 0x0 0x80000 0x0 0x0 0x7ffc 0x7fe5", "inet_csk_accept");
    tree.file("proc/898/net/tcp", &table.replace("0200000A:1F90 01", "00000000:0000 0A"));
    let rest = "waits for a connection from outside, at 127.0.0.1:50743";
    assert_eq!(tree.told(898, Depth::Kernel), told(Class::Rests, rest));
}

#[test]
fn the_other_end_of_a_connection_is_the_jobs_or_a_process_of_the_machine() {
    let tree = Tree::new("ends");
    let receives = "45 0x57 0x7fe2 0xa 0x0 0x0 0x0 0x7ffc 0x7fe5";
    tree.process(898, 761, "python3", 'S', receives, "wait_woken").descriptor(898, 87, "socket:[247]", "02");
    tree.process(77, 1, "nginx", 'S', "", "").descriptor(77, 5, "socket:[555]", "02");
    let line = |ends: &str, inode: u32| format!(" 0: {ends} 01 0:0 00:0 0 0 0 {inode} 1 0 20\n");
    let (own, other) = (line("0100007F:C637 0100007F:1F90", 247), |inode| line("0100007F:1F90 0100007F:C637", inode));
    let of = |depth| {
        let look = tree.look(898, depth);
        let Evidence { class, of_job, peer, .. } = Evidence::of(&look, &look, SECOND);
        (class, of_job, peer)
    };
    tree.file("proc/898/net/tcp", &format!("sl local\n{own}{}", other(555))).file("proc/898/environ", "A=1\0").memory(
        898,
        0,
        &[0],
    );
    assert_eq!(of(Depth::Memory), (Class::Peer, false, Some(77)));
    assert_eq!(of(Depth::Kernel), (Class::Peer, false, None), "other processes are not looked through");
    tree.file("proc/898/net/tcp", &format!("sl local\n{own}{}", other(0)));
    assert_eq!(of(Depth::Memory), (Class::Peer, false, None), "no process has accepted it");
    tree.file("proc/898/environ", "RANK=1\0MASTER_PORT=8080\0");
    assert_eq!(of(Depth::Memory), (Class::Peer, true, None), "the store");
}

#[test]
fn a_lock_without_an_owner_is_followed_to_the_thread_that_is_in_a_call() {
    let tree = Tree::new("lock");
    let idle = "202 0x1ca3fd0 0x189 0x0 0x7fcb 0x0 0xffffffff 0x7fcb 0x7fce";
    let rounds = "7 0x7f48 0x4a 0x1f4 0x7f47 0x0 0x7 0x7f48 0x7f4b";
    tree.process(839, 746, "python3", 'S', FUTEX, "futex_do_wait")
        .thread(839, 1134, "pt_nccl_watchdg", 'S', idle, "futex_do_wait")
        .thread(839, 1140, "python3", 'S', rounds, POLL)
        .thread(839, 915, "cuda00001400006", 'S', READS, POLL)
        .thread(
            839,
            1990,
            "async-checkpoin",
            'S',
            "257 0xffffff9c 0x2000 0x241 0x1b6 0x0 0x0 0x7f 0x7f",
            "nfs4_do_open",
        )
        .memory(839, 0x2000, b"/ckpt/step6.pt\0")
        .file("proc/839/mountinfo", "27 22 0:9 / /ckpt rw,relatime - nfs4 server:/ckpt rw\n");
    let sentence = "waits for another thread; thread \"async-checkpoin\" opens /ckpt/step6.pt (nfs4 from server:/ckpt)";
    assert_eq!(tree.told(839, Depth::Memory), told(Class::Lock, sentence));
    // A mutex of the C library that names its owner: the word, two others, and the thread.
    let mut word = [0; 12];
    word[0] = 2;
    word[8..].copy_from_slice(&1990_u32.to_le_bytes());
    let sentence = "waits for thread \"async-checkpoin\", which opens /ckpt/step6.pt (nfs4 from server:/ckpt)";
    tree.memory(839, 0x1572_6420, &word);
    assert_eq!(tree.told(839, Depth::Memory), told(Class::Lock, sentence));
    tree.thread(839, 1990, "async-checkpoin", 'S', idle, "futex_do_wait").memory(839, 0x1572_6420, &[0; 12]);
    let alone = "waits for another thread, and none of them is in a call";
    assert_eq!(tree.told(839, Depth::Memory), told(Class::Waits, alone));
}

#[test]
fn a_lock_that_the_waiting_thread_holds_itself_is_one() {
    let tree = Tree::new("own-lock");
    let mut word = [0; 12];
    word[0] = 2;
    word[8..].copy_from_slice(&839_u32.to_le_bytes());
    tree.process(839, 746, "train", 'S', FUTEX, "futex_do_wait").memory(839, 0x1572_6420, &word);
    assert_eq!(tree.told(839, Depth::Memory), told(Class::Lock, "waits for a lock that it holds itself"));
}

#[test]
fn a_child_that_has_ended_between_two_looks_is_named_though_its_parent_has_waited_for_it() {
    let tree = Tree::new("reaped");
    tree.process(818, 725, "python3", 'S', READS, "anon_pipe_read").descriptor(818, 9, "pipe:[49]", "00");
    tree.process(812, 818, "pt_data_worker", 'S', READS, "anon_pipe_read").descriptor(812, 8, "pipe:[49]", "01");
    let before = tree.look(818, Depth::Kernel);
    fs::remove_dir_all(tree.0.join("proc/812")).unwrap();
    let sentence = "waits for its data-loader worker (process 812), which has ended since the look before";
    assert_eq!(tree.after(&before, 818, Depth::Kernel), told(Class::Child, sentence));
    let unknown = "waits for a pipe, whose other end was not found";
    assert_eq!(tree.told(818, Depth::Kernel), told(Class::Waits, unknown), "no look has seen it");
}

#[test]
fn a_pool_is_followed_through_the_thread_that_reads_its_results() {
    let tree = Tree::new("pool");
    tree.process(873, 785, "python3", 'S', FUTEX, "futex_do_wait")
        .thread(873, 1993, "Thread-5", 'S', READS, "anon_pipe_read")
        .descriptor(873, 9, "pipe:[7]", "00");
    tree.process(
        988,
        873,
        "python3",
        'S',
        "257 0xffffff9c 0x2000 0x80000 0x0 0x0 0x0 0x7ffd 0x7f4b",
        "wait_for_partner",
    )
    .descriptor(988, 5, "pipe:[7]", "01");
    let (class, _, sentence) = tree.told(873, Depth::Kernel);
    assert_eq!(class, Class::Child);
    assert!(
        sentence.contains("thread \"Thread-5\" waits for its child python3 (process 988), which opens a FIFO"),
        "{sentence}"
    );
}

#[test]
fn the_lock_of_a_file_has_a_holder() {
    let tree = Tree::new("flock");
    tree.process(875, 782, "python3", 'S', "73 0x9 0x2 0x0 0x7f7f 0xff000 0x0 0x7fff 0x7f7f", "locks_lock_inode_wait")
        .descriptor(875, 9, "/tmp/held.lock", "0100001")
        .process(400, 1, "flock", 'S', "61 0xffffffff 0x7f 0x0 0x0 0x0 0x0 0x7f 0x7f", "do_wait")
        .file("proc/locks", "1: POSIX  ADVISORY  WRITE 77 fe:00:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 400 fe:00:9 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 875 fe:00:9 0 EOF\n");
    let sentence =
        "waits for the lock of /tmp/held.lock, which flock (process 400) holds; that one waits for a child process";
    assert_eq!(tree.told(875, Depth::Kernel), told(Class::Lock, sentence));
}

#[test]
fn a_compiler_among_the_descendants_is_a_compilation() {
    let tree = Tree::new("compile");
    tree.process(901, 767, "python3", 'S', "61 0x9e6 0x7fff 0x0 0x0 0x0 0x0 0x7fff 0x7f98", "do_wait")
        .process(2534, 901, "nvcc", 'S', "61 0x9ec 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f99", "do_wait")
        .process(2541, 2534, "ptxas", 'R', "running", "0");
    let sentence = "compiles: ptxas (process 2541) for 120 s";
    assert_eq!(tree.told(901, Depth::Kernel), told(Class::Compiles, sentence));
    let before = tree.look(901, Depth::Kernel);
    tree.stat("proc/2541", (2541, 2534), "ptxas", 'R', 99, 0);
    assert_eq!(tree.after(&before, 901, Depth::Kernel), (Class::Compiles, true, sentence.to_owned()));
}

#[test]
fn a_child_process_is_followed_to_its_own_child() {
    let tree = Tree::new("child");
    tree.process(848, 779, "python3", 'S', "61 0x69d 0x7fff 0x0 0x0 0x0 0x0 0x7fff 0x7fe4", "do_wait")
        .process(1693, 848, "sh", 'S', "61 0xffffffff 0x7ffe 0x0 0x0 0x0 0x0 0x7ffe 0x7f32", "do_wait")
        .process(1694, 1693, "cat", 'D', READS, "folio_wait_bit_common")
        .descriptor(1694, 9, "/data/x", "0100000");
    let sentence =
        "waits for its child sh (process 1693), which waits for its child cat (process 1694), which reads /data/x";
    assert_eq!(tree.told(848, Depth::Kernel), told(Class::Child, sentence));
}

#[test]
fn a_process_is_stopped_by_a_signal_a_debugger_or_its_cgroup() {
    let tree = Tree::new("stop");
    tree.process(890, 758, "python3", 'T', "62 0x37a 0x13 0x0 0x0 0x0 0x0 0x7ffc 0x7f37", "do_signal_stop");
    assert_eq!(tree.told(890, Depth::Kernel), told(Class::Stopped, "is stopped (SIGSTOP)"));
    tree.stat("proc/890", (890, 1), "python3", 't', 0, 0).file("proc/890/status", "Name:\tpython3\nTracerPid:\t77\n");
    assert_eq!(tree.told(890, Depth::Kernel), told(Class::Stopped, "is stopped by a debugger (process 77)"));
    tree.stat("proc/890", (890, 1), "python3", 'S', 0, 0).file("proc/890/cgroup", "0::/job/rank1\n");
    tree.file("sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 1\n");
    assert_eq!(tree.told(890, Depth::Kernel), told(Class::Stopped, "is stopped: its cgroup is frozen"));
    tree.file("proc/890/cgroup", "6:freezer:/lg\n").file("sys/fs/cgroup/freezer/lg/freezer.state", "FROZEN\n");
    assert_eq!(tree.told(890, Depth::Kernel), told(Class::Stopped, "is stopped: its cgroup is frozen"));
}

#[test]
fn a_process_without_a_processor_is_starved() {
    let tree = Tree::new("starved");
    tree.process(890, 1, "python3", 'R', "running", "0").file("proc/890/cgroup", "0::/job\n");
    tree.file("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_throttled 1\nthrottled_usec 1000\n");
    let before = tree.look(890, Depth::Kernel);
    tree.file("sys/fs/cgroup/job/cpu.stat", "usage_usec 6\nnr_throttled 9\nthrottled_usec 951000\n");
    let sentence = "has had no processor for 950 ms of 1.0 s: its cgroup is throttled";
    assert_eq!(tree.after(&before, 890, Depth::Kernel), told(Class::Starved, sentence));
    tree.process(890, 1, "python3", 'S', "35 0x1 0x0", "hrtimer_nanosleep");
    let (class, moves, _) = tree.after(&before, 890, Depth::Kernel);
    assert_eq!((class, moves), (Class::Rests, false), "it wants no processor");
    let tree = Tree::new("queue");
    tree.process(890, 1, "python3", 'R', "running", "0").file("proc/890/task/890/schedstat", "0 0 1");
    let before = tree.look(890, Depth::Kernel);
    tree.file("proc/890/task/890/schedstat", "60000000 930000000 3");
    let shared = (Class::Computes, true, "computes".to_owned());
    assert_eq!(tree.after(&before, 890, Depth::Kernel), shared, "it has a part of a processor");
    tree.file("proc/890/task/890/schedstat", "10000000 890000000 3");
    let sentence = "waits for a processor: it has run for 10 ms of 1.0 s";
    assert_eq!(tree.after(&before, 890, Depth::Kernel), told(Class::Starved, sentence));
}

/// As measured over a second and a half on two processors with four to twenty threads that compute: nanoseconds that each thread has run and waited for a
/// processor, its turns and its sleeps.
#[test]
fn a_thread_that_sleeps_between_looks_at_a_flag_lacks_no_processor() {
    let tree = Tree::new("looks");
    let is = |times: &str, sleeps: u32| {
        tree.file("proc/890/task/890/schedstat", times).file(
            "proc/890/task/890/status",
            &format!("voluntary_ctxt_switches:\t{sleeps}\nnonvoluntary_ctxt_switches:\t9\n"),
        );
    };
    tree.process(890, 1, "rank", 'R', "running", "0");
    is("0 0 0", 0);
    let before = tree.look(890, Depth::Kernel);
    let after = || {
        let Evidence { class, moves, sentence, .. } =
            Evidence::of(&before, &tree.look(890, Depth::Kernel), SECOND * 3 / 2);
        (class, moves, sentence)
    };
    let each = |cases: &[(&str, u32, &str)], expect: (Class, bool, String)| {
        for (times, sleeps, how) in cases {
            is(times, *sleeps);
            assert_eq!(after(), expect, "{how}");
        }
    };
    let looks = [
        ("1900000 1335900000 157", 158, "1 ms apart"),
        ("20000000 1421400000 1031", 1031, "0.1 ms apart"),
        ("107300000 1023800000 5011", 5011, "0.1 ms apart"),
        ("24100000 1138700000 890", 889, "in Python"),
        ("10400000 1235700000 279", 267, "in Python, with turns that were too short"),
    ];
    each(&looks, told(Class::Rests, "sleeps until a time"));
    let works = [
        ("400700000 1102900000 1754", 0, "without a sleep"),
        ("60800000 1407200000 508", 0, "without a sleep"),
        ("102900000 1066800000 526", 317, "in steps of 0.3 ms"),
        ("339100000 810800000 1380", 335, "in steps of 1 ms"),
        ("31600000 1485800000 53", 0, "with two hundredths"),
    ];
    each(&works, (Class::Computes, true, "computes".to_owned()));
    is("29700000 1473900000 134", 66);
    assert_eq!(after().0, Class::Starved, "in steps of 0.3 ms");
    is("2900000 1241900000 238", 0);
    assert_eq!(after().0, Class::Starved, "a kernel that does not count sleeps");
    // A throttled group takes no work from it either.
    tree.file("proc/890/cgroup", "0::/job\n").file("sys/fs/cgroup/job/cpu.stat", "throttled_usec 1000\n");
    is("0 0 0", 0);
    let before = tree.look(890, Depth::Kernel);
    tree.file("sys/fs/cgroup/job/cpu.stat", "throttled_usec 1451000\n");
    is("1900000 1335900000 157", 158);
    let evidence = Evidence::of(&before, &tree.look(890, Depth::Kernel), SECOND * 3 / 2);
    assert_eq!((evidence.class, evidence.moves), (Class::Rests, false));
}

#[test]
fn a_process_that_was_killed_for_memory_says_so() {
    let tree = Tree::new("gone");
    tree.process(890, 1, "python3", 'S', FUTEX, "futex_do_wait").file("proc/890/cgroup", "0::/job\n");
    tree.file("sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 1\n");
    let before = tree.look(890, Depth::Kernel);
    tree.stat("proc/890", (890, 1), "python3", 'Z', 0, 9);
    tree.file("sys/fs/cgroup/job/memory.events", "oom 2\noom_kill 2\n");
    let sentence = "was killed for memory: its cgroup's oom_kill rose by 1";
    assert_eq!(tree.after(&before, 890, Depth::Kernel), told(Class::Gone, sentence));
    tree.stat("proc/890", (890, 1), "python3", 'Z', 0, 3 << 8);
    assert_eq!(tree.after(&before, 890, Depth::Kernel), told(Class::Gone, "has ended with status 3"));
    fs::remove_dir_all(tree.0.join("proc/890")).unwrap();
    assert_eq!(tree.after(&before, 890, Depth::Kernel), told(Class::Gone, "is gone"));
}

#[test]
fn a_page_of_a_mapped_file_is_read_without_a_call() {
    let tree = Tree::new("fault");
    tree.process(890, 1, "python3", 'D', "-1 0x7ffd 0x7f4b", "folio_wait_bit_common")
        .file("proc/890/mountinfo", "27 22 0:9 / / rw - ext4 /dev/vda rw\n28 27 0:8 / /data rw - fuse.gcs bucket rw\n")
        .file("proc/890/maps", "1000-2000 r-xp 0 fe:00 7 /lib/libc.so\n2000-3000 r--s 0 0:8 9 /data/tokens.bin\n");
    let sentence = "reads a page of /data/tokens.bin (fuse.gcs from bucket)";
    assert_eq!(tree.told(890, Depth::Memory), told(Class::File, sentence));
    assert_eq!(tree.told(890, Depth::Kernel), told(Class::File, "reads a page of a file"));
}

#[test]
fn a_server_rests_that_waits_for_its_client_and_one_that_has_lost_a_worker_says_so() {
    let tree = Tree::new("serves");
    let receives = "45 0x9 0x7fe2 0xa 0x0 0x0 0x0 0x7ffc 0x7fe5";
    tree.process(898, 1, "python3", 'S', receives, "wait_woken").descriptor(898, 8, "socket:[246]", "02");
    tree.descriptor(898, 9, "socket:[247]", "02");
    let line = |ends: &str, inode: u32| format!(" 0: 0100007F:1F90 {ends} 0:0 00:0 0 0 0 {inode} 1 0 20\n");
    let accepted = line("0100007F:C637 01", 247);
    tree.file("proc/898/net/tcp", &format!("sl local\n{}{accepted}", line("00000000:0000 0A", 246)));
    assert_eq!(tree.told(898, Depth::Kernel), told(Class::Rests, "waits for a connection from outside"));
    tree.file("proc/898/net/tcp", &format!("sl local\n{accepted}"));
    assert_eq!(tree.told(898, Depth::Kernel).0, Class::Peer, "it does not listen there");
    tree.file("proc/898/net/tcp", &format!("sl local\n{}{accepted}", line("00000000:0000 0A", 246)));
    let selects = "23 0x9 0x7f00 0x0 0x0 0x0 0x0 0x7ffc 0x7fe5";
    tree.memory(898, 0x7f00, &[0, 1]).thread(898, 898, "python3", 'S', selects, "do_select");
    let rest = told(Class::Rests, "waits for a connection from outside, at 127.0.0.1:8080");
    assert_eq!(tree.told(898, Depth::Memory), rest);
    for (name, exit, is_lost) in [
        ("python3", 9, true),
        ("python3", 1 << 8, true),
        ("python3", 0, false),
        ("python3", 15, false),
        ("git", 1 << 8, false),
    ] {
        tree.stat("proc/912", (912, 898), name, 'Z', 0, exit);
        let (class, _, sentence) = tree.told(898, Depth::Memory);
        assert_eq!(class == Class::Gone, is_lost, "{name} {exit}: {sentence}");
        assert!(!is_lost || sentence.starts_with("has lost its child python3 (process 912), which "), "{sentence}");
    }
}

#[test]
fn input_a_timer_and_an_event_are_rest() {
    let tree = Tree::new("rests");
    let class = |tree: &Tree| tree.told(890, Depth::Memory).0;
    tree.process(890, 1, "python3", 'S', "0 0x0 0x7f 0x400 0x0 0x0 0x0 0x7f 0x7f", "n_tty_read").descriptor(
        890,
        0,
        "/dev/pts/0",
        "02",
    );
    assert_eq!(class(&tree), Class::Rests);
    for (call, function) in [
        ("230 0x1 0x1 0x7f 0x0 0x0 0x0 0x7f 0x7f", "hrtimer_nanosleep"),
        ("7 0x0 0x0 0x3e8 0x0 0x0 0x0 0x7f 0x7f", POLL),
        ("130 0x7f 0x8 0x1 0x0 0x2 0x0 0x7f 0x7f", "sigsuspend.isra.0"),
    ] {
        tree.thread(890, 890, "python3", 'S', call, function);
        assert_eq!(class(&tree), Class::Rests, "{call}");
    }
}

#[test]
fn a_call_that_may_not_be_read_has_a_line_and_the_kernels_function() {
    let tree = Tree::new("refused");
    tree.process(890, 1, "python3", 'S', "", "hrtimer_nanosleep").descriptor(890, 0, "/dev/null", "0");
    fs::remove_file(tree.0.join("proc/890/task/890/syscall")).unwrap();
    assert_eq!(tree.told(890, Depth::Kernel).0, Class::Rests);
    tree.thread(890, 890, "python3", 'S', "", "some_wait");
    fs::remove_file(tree.0.join("proc/890/task/890/syscall")).unwrap();
    let look = tree.look(890, Depth::Kernel);
    let evidence = Evidence::of(&look, &look, SECOND);
    assert_eq!((evidence.class, evidence.sentence.as_str()), (Class::Waits, "waits in the kernel (some_wait)"));
    assert_eq!(evidence.lacks.len(), 1, "{:?}", evidence.lacks);
}

#[test]
fn a_look_at_the_own_process_and_its_child_is_of_the_machine() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let look = || Look::take(&Source::machine(), std::process::id(), &[], Depth::Memory);
    let evidence = Evidence::of(&look(), &look(), SECOND);
    assert_ne!(evidence.class, Class::Gone, "{evidence:?}");
    let id = child.id();
    let look = || Look::take(&Source::machine(), id, &[], Depth::Memory);
    let slept = (0..100).map(|_| Evidence::of(&look(), &look(), SECOND)).find(|told| told.class == Class::Rests);
    child.kill().unwrap();
    let ended = (0..100_000).map(|_| Evidence::of(&look(), &look(), SECOND)).find(|told| told.class == Class::Gone);
    let zombie = ended.unwrap();
    child.wait().unwrap();
    assert_eq!(slept.map(|told| told.sentence).as_deref(), Some("sleeps until a time"));
    assert_eq!((zombie.class, zombie.sentence.as_str()), (Class::Gone, "was killed by SIGKILL"));
}

/// No thread is stopped: its state would be one that only a tracer or a signal gives, and a call that cannot go on would return early.
#[test]
fn a_thousand_looks_change_neither_the_output_nor_the_signals_of_a_busy_process() {
    use std::process::{Command, Stdio};
    let tree = Tree::new("busy");
    let text = "import select, signal, sys, time\nheard = []\n\
                for number in range(1, 32):\n    number in (9, 19) or signal.signal(number, lambda got, _: heard.append(got))\n\
                poll = select.epoll()\nend, count = time.monotonic() + 300, 0\n\
                import os\nwhile not os.path.exists('FOLDER/end') and time.monotonic() < end:\n    sum(range(1000))\n    \
                before = time.monotonic()\n    poll.poll(0.01)\n    count += time.monotonic() - before < 0.009\n\
                print(heard, count, flush=True)\n";
    let file = tree.0.join("busy.py");
    fs::write(&file, text.replace("FOLDER", &tree.0.to_string_lossy())).unwrap();
    let program = Command::new("python3").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let look = || Look::take(&Source::machine(), program.id(), &[], Depth::Memory);
    for _ in 0..1000 {
        drop(look());
        let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
        assert!(
            status.contains("TracerPid:\t0\n") && !status.contains("State:\tT") && !status.contains("State:\tt"),
            "{status}"
        );
    }
    fs::write(tree.0.join("end"), "").unwrap();
    let output = program.wait_with_output().unwrap();
    let said =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!((output.status.code(), said), (Some(0), ("[] 0\n".to_owned(), String::new())));
}
