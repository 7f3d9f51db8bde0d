//! Releases that are put off: a program that hangs because it releases something completes, and each release is made once.

use lazyguard_e2e::{calls, corpus_program, Outcome, Run, Work};

/// Programs of the corpus that release something beside a kernel that waits for them, and the driver's function.
const RELEASE: [(&str, &str); 6] = [
    ("free", "cuMemFree_v2"),
    ("free_host", "cuMemFreeHost"),
    ("host_unregister", "cuMemHostUnregister"),
    ("module_unload", "cuModuleUnload"),
    ("unloads_library", "cuLibraryUnload"),
    ("worker_frees_others_wait", "cuMemFree_v2"),
];

fn releases(outcome: &Outcome) -> (u64, u64, u64) {
    let preload = &outcome.out().summary()["preload"];
    let number = |name: &str| preload[name].as_u64().unwrap_or_else(|| panic!("{name}: {outcome}"));
    (number("releases_put_off"), number("releases_made"), number("releases_refused"))
}

#[test]
fn a_program_that_hangs_in_a_release_completes_and_the_release_is_made_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, function) in RELEASE {
        let log = work.path().join(name);
        let run = || Run::new(&work, corpus_program(name)).guarded().kept().set("LGSIM_CALL_LOG", &log);
        let outcome = run().set("LAZYGUARD_DEFER", "free").finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}: {outcome}");
        assert_eq!(releases(&outcome), (1, 1, 0), "{name}: {outcome}");
        assert_eq!(calls(&log).get(function), Some(&1), "{name}: {outcome}");
    }
}

/// The stream waits for a word in the host's memory, so that everything in the context has to wait for that.
const WAITS: &str = "import ctypes, threading, time\n\
    d, p = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p\n\
    def made(function, *arguments):\n\
    \x20   out = p()\n\
    \x20   assert getattr(d, function)(ctypes.byref(out), *arguments) == 0, function\n\
    \x20   return out\n\
    d.cuInit(0)\n\
    d.cuCtxSetCurrent(made('cuDevicePrimaryCtxRetain', 0))\n\
    word, stream, size = made('cuMemHostAlloc', p(8), 3), made('cuStreamCreate', 1), p(4096)\n\
    there = made('cuMemHostGetDevicePointer_v2', word, 0)\n\
    def begin():\n\
    \x20   ctypes.c_uint.from_address(word.value).value = 0\n\
    \x20   assert d.cuStreamWaitValue32_v2(stream, there, 1, 1) == 0\n\
    def end():\n\
    \x20   ctypes.c_uint.from_address(word.value).value = 1\n\
    def wait():\n\
    \x20   assert d.cuStreamSynchronize(stream) == 0\n";

fn told(work: &Work, text: &str, defer: &str) -> Outcome {
    let run = Run::new(work, "python3").args(["-c", &format!("{WAITS}{text}")]).guarded().kept();
    let outcome = run.set("LAZYGUARD_DEFER", defer).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    outcome
}

#[test]
fn what_the_driver_refuses_is_refused_at_once_and_nothing_is_released_twice() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "memory, host = made('cuMemAlloc_v2', size), made('cuMemAllocHost_v2', size)\n\
        begin()\n\
        print(d.cuMemFree_v2(memory), d.cuMemFree_v2(memory), d.cuMemFree_v2(p(memory.value + 256)), d.cuMemFree_v2(p()))\n\
        print(d.cuMemFreeHost(host), d.cuMemFreeHost(host), d.cuMemHostUnregister(host), d.cuMemFreeHost(p(memory.value)))\n\
        end()\n\
        wait()\n\
        print(d.cuMemFree_v2(memory), d.cuMemFreeHost(host), d.cuMemFree_v2(made('cuMemAlloc_v2', size)))\n";
    let outcome = told(&work, text, "free");
    assert_eq!(outcome.stdout, "0 1 1 0\n0 1 713 1\n1 1 0\n", "{outcome}");
    assert_eq!(releases(&outcome), (2, 2, 0), "{outcome}");
}

#[test]
fn where_there_is_no_room_the_releases_are_made_first() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // More than half of the simulated card, twice.
    let text = "large = p(80 << 30)\n\
        first, registered = made('cuMemAlloc_v2', large), ctypes.create_string_buffer(8192)\n\
        assert d.cuMemHostRegister_v2(registered, p(8192), 0) == 0\n\
        begin()\n\
        print(d.cuMemHostUnregister(registered), d.cuMemFree_v2(first))\n\
        threading.Timer(0.2, end).start()\n\
        print(d.cuMemHostRegister_v2(registered, p(8192), 0))\n\
        wait()\n\
        begin()\n\
        second = made('cuMemAlloc_v2', large)\n\
        print(d.cuMemFree_v2(second))\n\
        threading.Timer(0.2, end).start()\n\
        made('cuMemAlloc_v2', large)\n\
        wait()\n";
    let outcome = told(&work, text, "free");
    assert_eq!(outcome.stdout, "0 0\n0\n0\n", "{outcome}");
    assert_eq!(releases(&outcome), (3, 3, 0), "{outcome}");
}

/// What is no longer registered is copied as pageable memory is: what it holds at the call, whatever the program does with it after that.
#[test]
fn memory_that_is_no_longer_registered_is_copied_as_it_is_at_the_call() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import mmap\n\
        pages = mmap.mmap(-1, 65536)\n\
        at = ctypes.addressof(ctypes.c_char.from_buffer(pages))\n\
        device = (made('cuMemAlloc_v2', p(65536)) for _ in range(2))\n\
        def copied(submit):\n\
        \x20   assert d.cuMemHostRegister_v2(p(at), p(65536), 0) == 0\n\
        \x20   ctypes.memset(at, 1, 65536)\n\
        \x20   begin()\n\
        \x20   threading.Timer(0.2, end).start()\n\
        \x20   assert d.cuMemHostUnregister(p(at)) == 0\n\
        \x20   to = next(device)\n\
        \x20   assert submit(to) == 0\n\
        \x20   ctypes.memset(at, 2, 65536)\n\
        \x20   wait()\n\
        \x20   back = ctypes.c_uint()\n\
        \x20   assert d.cuMemcpyDtoH_v2(ctypes.byref(back), to, p(4)) == 0\n\
        \x20   print(hex(back.value))\n\
        copied(lambda to: d.cuMemcpyHtoDAsync_v2(to, p(at + 4096), p(8192), stream))\n\
        copied(lambda to: d.cuMemcpyAsync(to, p(at), p(8192), stream))\n";
    let [off, free] = ["off", "free"].map(|defer| told(&work, text, defer));
    assert_eq!((off.stdout.as_str(), off.stdout.as_str()), ("0x1010101\n0x1010101\n", free.stdout.as_str()), "{free}");
    assert_eq!((releases(&off), releases(&free)), ((0, 0, 0), (2, 2, 0)), "{free}");
}

/// Other copies do not wait for it.
#[test]
fn a_copy_of_other_memory_does_not_make_the_releases_that_wait() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "registered = ctypes.create_string_buffer(8192)\n\
        one, two = made('cuMemAlloc_v2', size), made('cuMemAlloc_v2', size)\n\
        assert d.cuMemHostRegister_v2(registered, p(8192), 0) == 0\n\
        begin()\n\
        assert d.cuMemHostUnregister(registered) == 0\n\
        other = made('cuStreamCreate', 1)\n\
        assert d.cuMemcpyAsync(one, two, size, other) == 0\n\
        print('goes on')\n\
        assert d.cuStreamSynchronize(other) == 0\n\
        end()\n\
        wait()\n";
    let outcome = told(&work, text, "free");
    assert_eq!((outcome.stdout.as_str(), releases(&outcome)), ("goes on\n", (1, 1, 0)), "{outcome}");
}

#[test]
fn in_an_idle_context_or_unless_it_is_asked_for_nothing_is_put_off() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "memory = made('cuMemAlloc_v2', size)\n\
        begin()\n\
        end()\n\
        wait()\n\
        print(d.cuMemFree_v2(memory), d.cuMemFree_v2(memory))\n";
    let waits = "memory = made('cuMemAlloc_v2', size)\n\
        begin()\n\
        threading.Timer(0.1, end).start()\n\
        print(d.cuMemFree_v2(memory), d.cuMemFree_v2(memory))\n\
        wait()\n";
    for (text, defer) in [(text, "free"), (waits, "off")] {
        let outcome = told(&work, text, defer);
        assert_eq!((outcome.stdout.as_str(), releases(&outcome)), ("0 1\n", (0, 0, 0)), "{defer}: {outcome}");
    }
}
