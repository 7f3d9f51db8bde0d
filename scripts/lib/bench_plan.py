"""What scripts/bench measures: the modes, and the loops on the simulated driver and on a card."""

import importlib.util
import itertools
import os
import re
import sys
from pathlib import Path

import guard
from bench_workers import Loop, Mode
from tools import ROOT, TARGET

BENCH = TARGET / "bench"
BARE, AGAIN, GUARD, UNRECORDED, BESIDE = "bare", "again", "guard", "record-off", "beside"
CALLBACK, ACTIVITY, CLOCK = "cupti-callback", "cupti-activity", "clock"
LAUNCH_WORKER = BENCH / "launch_worker"
CALL_WORKER = BENCH / "call_worker"
# The launches of a batch, long enough that reading the clock is nothing, short enough that few batches are interrupted.
SIMULATED_LAUNCHES = 10000
CARD_LAUNCHES, CALLS_IN_A_BATCH = 2000, 800
TORCH_OPERATIONS, TORCH_TOKENS, TORCH_REPLAYS = 2000, 32, 500
# (generations, rounds in each). Two processes of one mode differ by more than what is measured: where the memory lies, and which of a card's queues
# they get.
SIMULATED_ROUNDS, CARD_ROUNDS, CALL_ROUNDS, QUICK_ROUNDS = (6, 25), (10, 10), (20, 8), (2, 5)
# What goes through the nearest caches before each launch of one loop, as a real driver's own code and data do: more than any processor's have.
EVICTED_KIB, EVICTED_LAUNCHES = 64, 2000
EVICTED = ", the nearest caches filled before each"
# The other calls that real loops make: the worker's name of each, and the driver's.
CALLS = (("launch", "cuLaunchKernel"), ("record", "cuEventRecord"), ("wait-event", "cuStreamWaitEvent"), ("query", "cuEventQuery"),
         ("write-value", "cuStreamWriteValue32"), ("graph", "cuGraphLaunch"), ("copy", "cuMemcpyDtoDAsync"), ("fill", "cuMemsetD8Async"),
         ("allocate-free", "cuMemAllocAsync and cuMemFreeAsync in turn"), ("synchronize", "cuStreamSynchronize, idle"), ("set-current", "cuCtxSetCurrent"))
COLLECTIVE = (("collective", "ncclAllReduce, one rank, in place"),)
# On a card: measured with fewer processes, so that the time suffices for all.
AMONG_THE_LAST = ("call-collective", "driver", "varied", "driver-fresh")
# At first the recorder writes to untouched memory. So many launches pass through all of the recording once: more than the records of 64
# bytes that the default size holds.
SETTLE_LAUNCHES = 300000
# Few enough that all rounds of a process together stay within the first time through.
FRESH_LAUNCHES, MOST_FRESH_LAUNCHES = 4000, 120000


def core():
    """The processor of the measuring thread: the last one, because interrupts like the first."""
    return max(os.sched_getaffinity(0))


def sees(pattern, what):
    """A check that the mode saw all launches: a watcher that sees none costs nothing."""
    def check(stderr, launches):
        found = re.search(pattern, stderr)
        if not found:
            return f"did not say how many launches it saw: {stderr.strip()[-200:] or 'nothing on standard error'}"
        return "" if int(found.group(1)) >= 0.9 * launches else f"{what} saw {found.group(1)} of {launches} launches"
    return check


def silent(_stderr, _launches):
    return ""


def modes(simulated, cupti=None, beside=()):
    """Every mode, bare first. A second bare process shows the noise; `beside` are other builds of the library."""
    more = {"LGSIM_FREE_RUNNING": "1"} if simulated else {}
    saw = sees(r" (\d+) launches, ", "the guard")
    found = [
        Mode(BARE, "bare", dict(guard.bare(None, simulated), **more), silent, 0),
        Mode(AGAIN, "bare, another process", dict(guard.bare(None, simulated), **more), silent, 0),
        Mode(GUARD, "guarded", dict(guard.guarded(simulated, SUMMARY="on"), **more), saw, SETTLE_LAUNCHES),
        Mode(UNRECORDED, "guarded, LAZYGUARD_RECORD=off", dict(guard.guarded(simulated, SUMMARY="on", RECORD="off"), **more), saw, 0),
    ]
    environment = dict(guard.bare(None, simulated), LD_PRELOAD=str(BENCH / "libbench_clock.so"), **more)
    found.append(Mode(CLOCK, "two readings of the clock", environment, sees(r"seen=(\d+)", "the clock's library"), 0))
    for number, library in enumerate(beside, 1):
        environment = dict(guard.guarded(simulated, SUMMARY="on"), **more, LD_PRELOAD=str(library))
        found.append(Mode(f"{BESIDE}-{number}", f"guarded by {library}", environment, saw, SETTLE_LAUNCHES))
    if cupti:
        for key, title in ((CALLBACK, "CUPTI, callback at each launch"), (ACTIVITY, "CUPTI, kernel activity records")):
            environment = dict(guard.bare(None, simulated), CUDA_INJECTION64_PATH=str(cupti), BENCH_CUPTI=key.split("-")[1])
            found.append(Mode(key, title, environment, sees(r"seen=(\d+)", "CUPTI"), 0))
    return found


def modes_of(loop, modes):
    """Those that see the loop's launches: the clock's library is in front of the driver's own function alone. PyTorch starts for seconds, so that of
    its loops only the guard is measured."""
    if of_torch(loop.key):
        return [mode for mode in modes if mode.key in (BARE, AGAIN, GUARD)]
    return [mode for mode in modes if mode.key != CLOCK or loop.command[0] == LAUNCH_WORKER]


def of_torch(key):
    """Whether a loop with this key is one of PyTorch's."""
    return key.startswith("torch")


def of_library(mode):
    """Whether what it measures is preloaded, or nothing: CUPTI sees launches of any way."""
    return mode.key not in (CALLBACK, ACTIVITY)


def counted(number, word):
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def launch_loop(threads, functions, streams, launches, evicted=0):
    """streams: how many in all, or 0 for one of each thread's own; evicted: kibibytes that go through the caches before each launch."""
    command = [LAUNCH_WORKER, "--threads", threads, "--functions", functions, "--streams", streams, "--core", core()]
    if evicted:
        command += ["--evict", evicted]
    where = "a stream each" if streams == 0 else counted(streams, "stream")
    title = f"{counted(threads, 'thread')}, {counted(functions, 'function')}, {where}"
    return Loop(f"{threads}-{functions}-{streams}", title, "launch", command, launches, threads)


def simulated_loops(processors, quick):
    loops = []
    for threads in sorted({1, 2, max(4, processors)}):
        for functions in (1, 100, 10000):
            for streams in (1, 200) if threads == 1 else (1, 0, 200):
                loops.append(launch_loop(threads, functions, streams, max(1000, SIMULATED_LAUNCHES // threads)))
    loops.append(fresh(launch_loop(1, 1, 1, FRESH_LAUNCHES)))
    evicted = launch_loop(1, 1, 1, EVICTED_LAUNCHES, EVICTED_KIB)
    loops.append(evicted._replace(key="evicted", title=evicted.title + EVICTED + " launch"))
    nccl = library_of_nccl(simulated=True)
    calls = [*call_loops(), *call_loops(EVICTED_KIB), *call_loops(nccl=nccl)]
    return [loops[0], loops[-2], *calls[:2]] if quick else loops + calls


def call_loops(evicted=0, nccl=None):
    """Each call as fast as it comes, or from caches that are filled before it; with a library of NCCL its collective alone, whose threads are beside no
    other call."""
    command = [CALL_WORKER, "--core", core()]
    command += ["--evict", evicted] if evicted else []
    command += ["--nccl", nccl] if nccl else []
    ending = (EVICTED + " call", "-evicted") if evicted else ("", "")
    return [Loop(f"call-{name}{ending[1]}", title + ending[0], "call", command, CALLS_IN_A_BATCH, 1, kernels=int(name == "launch"), call=name)
            for name, title in (COLLECTIVE if nccl else CALLS)]


def library_of_nccl(simulated):
    """The path of the simulated NCCL, or of that of PyTorch's packages; None without one."""
    if simulated:
        found = [TARGET / "simnccl" / "libnccl.so.2"]
    else:
        package = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
        found = [Path(folder) / "lib" / "libnccl.so.2" for folder in (package.submodule_search_locations if package else [])]
    return next(filter(Path.is_file, found), None)


def together(loops):
    """The loops in their order, those that the same processes can measure beside each other."""
    return [list(group) for _, group in itertools.groupby(loops, lambda loop: (loop.command, loop.settled))]


def fresh(loop):
    """The same before a recording has been gone through once."""
    return loop._replace(key=loop.key + "-fresh", title=loop.title + ", first time through the recording", settled=False)


def rounds(loop, chosen):
    """How many generations, and rounds in each."""
    if chosen.quick:
        return QUICK_ROUNDS
    if not chosen.card:
        return SIMULATED_ROUNDS
    return CARD_ROUNDS if loop.key in AMONG_THE_LAST else CALL_ROUNDS


def torch_loop(name, title, unit, launches, kernels=1):
    command = [sys.executable, ROOT / "scripts" / "gpu" / "bench_torch.py", "--core", core()]
    return Loop(f"torch-{name}", f"PyTorch, {title}", unit, command, launches, 1, kernels=kernels, call=name)


def card_loops():
    """What matters most comes first."""
    driver = launch_loop(1, 1, 1, CARD_LAUNCHES)
    varied = launch_loop(1, 1000, 64, CARD_LAUNCHES)
    runtime = [BENCH / "runtime_worker", "--core", core()]
    nccl = library_of_nccl(simulated=False)
    return [
        *call_loops(),
        Loop("runtime", "cudaLaunchKernel, a kernel that does nothing", "launch", runtime, CARD_LAUNCHES, 1, call="launch"),
        Loop("call-set-device", "cudaSetDevice", "call", runtime, CALLS_IN_A_BATCH, 1, kernels=0, call="set-device"),
        torch_loop("operations", "small operations", "operation", TORCH_OPERATIONS),
        torch_loop("tokens", "tokens decoded eagerly", "token", TORCH_TOKENS, kernels=40),
        torch_loop("replays", "replays of a CUDA graph", "replay", TORCH_REPLAYS, kernels=0),
        *(call_loops(nccl=nccl) if nccl else []),
        driver._replace(key="driver", title="cuLaunchKernel, a kernel that does nothing"),
        varied._replace(key="varied", title="cuLaunchKernel, " + counted(1000, "function") + ", " + counted(64, "stream")),
        fresh(driver._replace(key="driver", title="cuLaunchKernel")),
    ]
