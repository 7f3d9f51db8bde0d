"""GPU core dumps on a card: what the report says of the device beside what cuda-gdb says, `--on-hang fail`, and what it costs to be ready.

  dump NAME   a program of the corpus that hangs, ended by `lazyguard run --gpu-dump`: where a kernel of ours is to blame, the dump has it
              resident, at a line of its source; and cuda-gdb names the same kernels, at the same addresses
  fail NAME   a program that hangs gets an error from its blocked call: it ends with its own error, within seconds
  fault KIND  a kernel that raises an exception of the device: the program gets the same errors, ready for a dump and not
  inside NAME a kernel that hangs inside itself, and healthy ones (`gpu_inside`)
  cost        the start and a launch, ready for a dump and not, in turn; a dump of a filled device, without its shared memory and with it

Must not: take the guard's word for where a kernel stands: the lines are those of the source, the addresses those of cuda-gdb.
"""

import json
import os
import re
import statistics
import sys
import time
from collections import defaultdict, namedtuple
from concurrent.futures import ThreadPoolExecutor

import card_tools
import checks
import corpus
import frameworks
import gpu_inside
import guard
import ranks
import spare_time
from checks import Scratch, as_data, judge
from tools import ROOT, TARGET

Row = namedtuple("Row", "what expected said beside verdict")
HEADER = Row("check", "expected", "the report", "cuda-gdb, or note", "result")
HANG_AFTER, RUN_LIMIT_S, TOOL_LIMIT_S = "2s", 60.0, 60.0
# Each dump stops the device for all, and so does the end of a process that had one.
AT_A_TIME, FAILING_AT_A_TIME = 6, 3
MOST_KERNELS = 4
# From the request to the end of the program.
MOST_SECONDS_TO_FAIL, MOST_SECONDS_OF_A_FILLED_DEVICE = 3.0, 15.0
# Calls of each kind that blocks.
FAILING = ("cold_kernel", "module_load", "free", "queue_full", "kernel_never_ends", "wait_never_submitted", "graph_never_ends", "device_filled")
FAILING_FRAMEWORKS = ("torch_first_use_of_operation", "torch_reads_result", "cupy_first_use_beside_persistent_kernel", "triton_kernel_beside_persistent_one")
# Jobs of two ranks: both end. (A rank that only sleeps has no call that could fail, and is ended after --kill-after.)
FAILING_RANKS = ("jiterator_under_all_reduce", "two_groups_crossed")
# The kinds of scripts/gpu/faulting_kernel.py.
FAULTS = ("bad-address", "misaligned", "trap", "shared", "breakpoint", "late")
PAIRS = 12
DUMPS_OF_A_FILLED_DEVICE, LONGEST_DUMP = 2, "30s"
LAUNCH_FAILED = re.compile(r"719|LAUNCH_FAILED|LaunchFailure|unspecified launch failure")


def sources():
    """The lines of each kernel, by its name: (file's name, first line, last line); of several files, where they have one of that name."""
    found = defaultdict(list)
    for path in sorted((ROOT / "kernels").glob("*.cu")):
        begun = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            kernel = re.search(r"^(?:LG_KERNEL|__global__) void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", line)
            if kernel:
                begun = kernel.group(1), number
            if begun and (line.startswith("}") or kernel and line.rstrip().endswith("}")):
                found[begun[0]].append((path.name, begun[1], number))
                begun = None
    return found


def under_run(command, scratch, environment, *options):
    out = scratch.path / "run"
    words = [guard.COMMAND, "run", "--library", guard.LIBRARY, "--out", out, "--keep", "--hang-after", HANG_AFTER, "--timeout", "50s", *options, "--", *command]
    outcome = scratch.run(words, environment, RUN_LIMIT_S)
    ended = time.time()
    return outcome, sorted(out.rglob("gpu.core")), out, ended


def kernels_of(core, scratch):
    """What the report says: (name, places) of each kernel; and why not, if it says nothing."""
    said = scratch.run([guard.COMMAND, "report", "--gpu-core", core, "--format", "json"], guard.clean_environment(), TOOL_LIMIT_S)
    try:
        return [kernel for device in json.loads(said.stdout)["devices"] for kernel in device["kernels"]], ""
    except (ValueError, KeyError, TypeError):
        return [], f"report: {checks.describe(said)} {said.stderr.strip()[-200:]}"


def seen_by_debugger(core, scratch):
    """(names of the kernels that run, addresses at which threads stand, all that it says), or None."""
    path = card_tools.of_toolkit("cuda-gdb")
    if path is None:
        return None
    words = ["set pagination off", "set width 0", f"target cudacore {core}", "info cuda kernels", "info cuda threads",
             *(f"info cuda threads kernel {number}" for number in range(MOST_KERNELS))]
    said = scratch.run([path, "--batch", *(part for word in words for part in ("-ex", word))], guard.clean_environment(), TOOL_LIMIT_S)
    names = re.findall(r"\bActive 0x[0-9a-f]+ .*\) (\S+)\(", said.stdout)
    addresses = re.findall(r"^[* ] +\(\d+,\d+,\d+\) .* (0x[0-9a-f]{8,}) ", said.stdout, re.M)
    return sorted(set(names)), {int(address, 16) for address in addresses}, said.stdout[-3000:]


def at_its_source(kernel, lines):
    """Whether a frame of one of its places lies in the kernel's own lines, and where the first place is."""
    frames = [frame for place in kernel["places"] for frame in place["frames"]]
    words = next((f"{kernel['name']} ({os.path.basename(frame['file'])}:{frame['line']})" for frame in frames if frame["file"]), kernel["name"])
    if lines is None:
        return bool(frames), words
    return any(frame["file"] and os.path.basename(frame["file"]) == name and first <= frame["line"] <= last
               for frame in frames for name, first, last in lines), words


def dump(program, known, simulated):
    with Scratch() as scratch:
        environment, _ = corpus.environment(program, simulated, scratch.path / "unused")
        environment = {key: value for key, value in environment.items() if key not in ("LAZYGUARD_OUT", "LAZYGUARD_HANG_AFTER", "LD_PRELOAD")}
        outcome, cores, _, _ = under_run([corpus.path_of(program)], scratch, environment, "--on-hang", "kill", "--kill-after", "2s", "--gpu-dump")
        title, expected = f"dump: {program.name}", f"{program.code} {program.culprit}"
        if len(cores) != 1:
            return Row(title, expected, f"{len(cores)} dumps: {checks.describe(outcome)}", "", "FAIL"), as_data(outcome, program=program.name)
        kernels, fault = kernels_of(cores[0], scratch)
        resident = [kernel for kernel in kernels if kernel["blocks_resident"]]
        ours = [kernel for kernel in resident if kernel["name"] == program.culprit]
        found = [at_its_source(kernel, known.get(kernel["name"])) for kernel in resident]
        # The simulated driver's cores have no lines.
        good = not fault and (bool(ours) or program.culprit not in known) and (simulated or all(right for right, _ in found))
        beside = None if simulated else seen_by_debugger(cores[0], scratch)
        addresses = {address for kernel in resident for place in kernel["places"] for address in place["addresses"]}
        agrees = beside is None or (sorted({kernel["name"] for kernel in resident}) == beside[0] and addresses == beside[1])
        note = "no cuda-gdb" if beside is None else ("the same" if agrees else f"other: {' '.join(beside[0])} {' '.join(map(hex, sorted(beside[1])))}")
        size = cores[0].stat().st_size
        words = fault or f"{'; '.join(words for _, words in found) or 'no kernel is resident'}; {size / 1e6:.1f} MB"
        data = {"program": program.name, "bytes": size, "kernels": [{"name": kernel["name"], "places": kernel["places"]} for kernel in resident], "cuda_gdb": beside and beside[0]}
        if not (good and agrees):
            data.update(as_data(outcome), debugger=beside and beside[2])
        return Row(title, expected, words, note, judge(good and agrees)), data


def fail(title, command, environment, hang_after, most_seconds, is_own):
    with Scratch() as scratch:
        outcome, cores, out, ended = under_run(command, scratch, frameworks.with_own_caches(environment, scratch),
                                               "--hang-after", hang_after, "--on-hang", "fail", "--kill-after", "8s")
        seconds = ended - cores[0].stat().st_mtime if cores else None
        said = scratch.run([guard.COMMAND, "report", out], guard.clean_environment(), TOOL_LIMIT_S).stdout
    good = outcome.code is not None and is_own(outcome) and seconds is not None and seconds <= most_seconds and "FAILED ON PURPOSE" in said.upper()
    words = checks.describe(outcome) + ("" if seconds is None else f", {max(seconds, 0):.1f} s after the dump was written")
    own = next((line.replace(f"{ROOT}/", "") for line in outcome.stderr.splitlines() if LAUNCH_FAILED.search(line) and not line.startswith("lazyguard:")), "")
    return Row(f"fail: {title}", f"its own error, within {most_seconds:.0f} s", words, own[-100:], judge(good)), as_data(outcome, program=title, seconds_after=seconds, said=said[-1500:] if good else said[:8000])


def with_own_error(outcome):
    return outcome.code not in (0, 117, 125) and bool(LAUNCH_FAILED.search(outcome.stderr))


def fault(kind):
    """The driver that is ready for a dump also dumps at exceptions, and gives their errors late."""
    program, answers = [sys.executable, ROOT / "scripts" / "gpu" / "faulting_kernel.py", kind], {}
    for name, environment in (("bare", guard.bare()), ("ready", guard.guarded(ON_HANG="fail"))):
        with Scratch() as scratch:
            outcome = scratch.run(program, environment, TOOL_LIMIT_S)
            answers[name] = outcome.stdout.strip() or checks.describe(outcome)
    bare, ready = answers["bare"], answers["ready"]
    fails = bare.startswith("synchronize") and "synchronize 0" not in bare
    # The driver lets a synchronize over a bad store succeed before there is any sign of the exception.
    late = fails and bare != ready and bare.endswith(ready[ready.rfind(","):]) and not ready.endswith(" 0")
    verdict = "MISS" if late else judge(fails and bare == ready)
    return Row(f"fault: {kind}", bare, ready, "the error comes late" if late else "", verdict), answers


def cost(simulated):
    """A launch, and a short program, ready for a dump and not."""
    ready, not_ready = guard.guarded(simulated, ON_HANG="fail"), guard.guarded(simulated)
    rows, data = [], {}
    for what, command, of in (("a launch", [TARGET / "apps" / "launch_bench"], lambda outcome: float(re.match(r"launch_ns median=([0-9.]+)", outcome.stdout).group(1))),
                              ("a short program", guard.program_command("lazy_pair_single_kernel", "app", guard.programs()["lazy_pair_single_kernel"]), lambda outcome: outcome.seconds * 1e3)):
        figures = {"ready": [], "not": []}
        for _ in range(PAIRS):
            for name, environment in (("ready", ready), ("not", not_ready)):
                with Scratch() as scratch:
                    figures[name].append(of(scratch.run(command, environment, TOOL_LIMIT_S)))
        added = [one - other for one, other in zip(figures["ready"], figures["not"])]
        unit = "ns" if what == "a launch" else "ms"
        rows.append(Row(f"cost: {what}, median of {PAIRS}", f"{statistics.median(figures['not']):.0f} {unit} when not ready", f"{statistics.median(figures['ready']):.0f} {unit}",
                        f"{statistics.median(added):+.1f} {unit} in the same round ({min(added):+.0f} to {max(added):+.0f})", "PASS"))
        data[what] = figures
    return rows, data


def filled():
    """From the request of a dump to its last byte, and how many these are, of a device whose threads and shared memory are all in use."""
    nvcc, title = card_tools.of_toolkit("nvcc"), f"cost: a dump of a filled device, median of {DUMPS_OF_A_FILLED_DEVICE}"
    figures = {"on": [], "full": []}
    with Scratch() as built:
        program = built.path / "filled_device"
        words = [nvcc or "nvcc", "-arch=native", "-O2", "-o", program, ROOT / "scripts" / "gpu" / "filled_device.cu"]
        said = built.run(words, guard.clean_environment(), TOOL_LIMIT_S) if nvcc else None
        if said is None or said.code != 0:
            return Row(title, "", "", "no nvcc" if said is None else f"nvcc: {said.stderr[-200:]}", "SKIP"), {}
        for mode in list(figures) * DUMPS_OF_A_FILLED_DEVICE:
            with Scratch() as scratch:
                outcome, cores, _, _ = under_run([program], scratch, guard.clean_environment(), "--on-hang", "abort", f"--gpu-dump={mode}", "--gpu-dump-wait", LONGEST_DUMP)
                if len(cores) != 1:
                    return Row(title, "a dump", f"{mode}: {len(cores)} dumps: {checks.describe(outcome)}", "", "FAIL"), as_data(outcome)
                hang, about = json.loads((cores[0].parent / "hang.json").read_text()), cores[0].stat()
                asked = (hang["armed_unix_nanos"] + hang["gpu_dump"]["at"]) / 1e9
                figures[mode].append((about.st_mtime - asked, about.st_size))
    cell = lambda mode: f"{mode}: {statistics.median(s for s, _ in figures[mode]):.2f} s, {statistics.median(size for _, size in figures[mode]) / 1e6:.1f} MB"
    return Row(title, "all threads, all shared memory", cell("on"), cell("full"), "PASS"), figures


def check(progress, wanted, simulated, cards):
    listed, known = corpus.programs(), sources()
    hanging = [program for program in listed.values() if program.code and program.told != "nothing" and (program.card or "yes").startswith("yes")]
    jobs = [(1 if "alone" in (program.card or "") else AT_A_TIME, f"dump: {program.name}", lambda program=program: dump(program, known, simulated)) for program in hanging]
    for name in FAILING:
        program = listed[name]
        environment = {**guard.clean_environment(simulated), "LG_SCALE_MS": str(corpus.SIMULATED_MS if simulated else corpus.CARD_MS), **program.env}
        most = MOST_SECONDS_OF_A_FILLED_DEVICE if "alone" in (program.card or "") else MOST_SECONDS_TO_FAIL
        jobs.append((1 if most != MOST_SECONDS_TO_FAIL else FAILING_AT_A_TIME, f"fail: {name}",
                     lambda name=name, path=corpus.path_of(program), environment=environment, most=most: fail(name, [path], environment, HANG_AFTER, most, with_own_error)))
    names = () if simulated else FAILING_FRAMEWORKS + (FAILING_RANKS if cards >= ranks.RANKS else ())
    of_frameworks = [ranks.sources()[name] for name in names]
    lacks = frameworks.lacking(of_frameworks)
    for program in (program for program in of_frameworks if program.path.stem not in lacks):
        # A job of ranks has both cards for itself: a context waits for its turn with the others on its card, also to be dumped.
        at_a_time, title = (1, f"{program.path.stem}, two ranks") if program.blame else (FAILING_AT_A_TIME, program.path.stem)
        jobs.append((at_a_time, f"fail: {title}", lambda program=program, title=title: fail(title, ranks.command_of(program), guard.clean_environment(),
                                                                                           program.hang_after, MOST_SECONDS_TO_FAIL, with_own_error)))
    for program in () if simulated else gpu_inside.programs().values():
        jobs.append((FAILING_AT_A_TIME, f"inside: {program.path.stem}", lambda program=program: gpu_inside.check_one(program, under_run, Row, judge)))
    jobs = [job for job in jobs if not wanted or any(part in job[1] for part in wanted)]
    rows, data = [], {}

    def one(job):
        if spare_time.is_over():
            return None
        row, about = job[2]()
        progress(f"{row.what}: {row.verdict} ({row.said}; {row.beside})")
        return row, about

    for most in (AT_A_TIME, FAILING_AT_A_TIME, 1):
        with ThreadPoolExecutor(most) as pool:
            for done in filter(None, pool.map(one, [job for job in jobs if job[0] == most])):
                rows.append(done[0])
                data[done[0].what] = done[1]
    if not simulated and (not wanted or "fault" in wanted):
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for row, answers in pool.map(fault, FAULTS):
                rows.append(row)
                data[row.what] = answers
    if not wanted or "cost" in wanted:
        more, data["cost"] = cost(simulated)
        rows += more
    if not simulated and (not wanted or "filled_device" in wanted):
        row, data["filled_device"] = filled()
        progress("; ".join(row))
        rows.append(row)
    return rows, data
