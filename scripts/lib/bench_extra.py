"""What scripts/bench measures beside the loops: the start of a process, instructions, and cache misses by valgrind."""

import os
import re
import shutil
import subprocess

import bench_plan
import bench_report
import guard
from bench_plan import AGAIN, BARE, GUARD, UNRECORDED
from bench_workers import Loop, Lost, Mode, steps

# Whole segments of 63 records, so that what is done once a segment has its share; a real driver's launch is thousands of steps, as is a call that launches a graph.
STEP_LAUNCHES, FEW_STEP_LAUNCHES = 126, 63
STEP_LIMIT_S = 60
VALGRIND_LIMIT_S = 300
VALGRIND_LAUNCHES = (2000, 22000)
COUNTS = (("instructions", r"I\s+refs:\s+([\d,]+)"), ("d1_misses", r"D1\s+misses:\s+([\d,]+)"), ("ll_misses", r"LLd misses:\s+([\d,]+)"))


START = "start and end of /bin/true"


def start_rows(rounds):
    """What the library adds to a process that never touches CUDA: /bin/true from its start to its end."""
    command = [bench_plan.BENCH / "start_cost", rounds, guard.LIBRARY, "/bin/true"]
    result = subprocess.run([str(word) for word in command], env=guard.bare(), capture_output=True, text=True)
    if result.returncode != 0:
        raise Lost(result.stderr.strip() or f"exit {result.returncode}")
    lives = [[float(number) for number in line.split()] for line in result.stdout.splitlines()]
    # Every process is a fresh one here, so tenths of the run stand for the generations.
    tenth = max(1, len(lives) // 10)
    parts = [lives[at:at + tenth] for at in range(0, tenth * (len(lives) // tenth), tenth)]
    loop = Loop("start", START, "process", command, 1, 1)
    found = []
    for column, mode in ((1, Mode(AGAIN, "bare, another process", None, None, 0)), (2, Mode(GUARD, "preloaded", None, None, 0))):
        base, other = ([[life[index] for life in part] for part in parts] for index in (0, column))
        found.append(bench_report.judged(bench_report.row(loop, loop.title, mode, base, other, None)))
    return found


def stepped(loop, modes, launches):
    """{mode: {"instructions", "usual", "locked", "system_calls"}} of one launch (`usual`: the instructions of the one in the middle, the others
    are averages), and a note for what could not be counted."""
    found, notes = {}, []
    for mode in modes:
        if mode.key == AGAIN or not bench_plan.of_library(mode):
            continue
        try:
            found[mode.key] = steps(loop, mode, launches, STEP_LIMIT_S)
        except Lost as why:
            notes.append(f"{loop.title}, {mode.title}: instructions not counted: {why}")
    return found, notes


def cachegrind(loop, mode, launches):
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", *loop.command]
    result = subprocess.run([str(word) for word in command], input=f"batch {launches}\n", env=mode.environment, capture_output=True, text=True,
                            timeout=VALGRIND_LIMIT_S)
    found = {name: re.search(pattern, result.stderr) for name, pattern in COUNTS}
    if result.returncode != 0 or not all(found.values()):
        raise Lost(f"valgrind: exit {result.returncode}")
    return {name: int(match.group(1).replace(",", "")) for name, match in found.items()}


def caches(loop, modes):
    """Misses of one launch in the caches that valgrind simulates, as the difference of a short run and a long one: {mode: {...}}."""
    short, long = VALGRIND_LAUNCHES
    found = {}
    for mode in modes:
        if mode.key not in (BARE, GUARD, UNRECORDED):
            continue
        few, many = cachegrind(loop, mode, short), cachegrind(loop, mode, long)
        found[mode.key] = {name: (many[name] - few[name]) / (long - short) for name in few}
    return found


def cache_notes(loops, modes):
    """A line a loop and mode, and the data. Without valgrind, the line says so."""
    if shutil.which("valgrind") is None:
        return ["cache misses: not measured: there is no valgrind"], {}
    notes, data = [], {}
    for loop in loops:
        try:
            data[loop.key] = found = caches(loop, modes)
        except (Lost, OSError, subprocess.TimeoutExpired) as why:
            notes.append(f"cache misses, {loop.title}: not measured: {why}")
            continue
        for key, title in ((GUARD, "guarded"), (UNRECORDED, "LAZYGUARD_RECORD=off")):
            added = {name: found[key][name] - found[BARE][name] for name in found[BARE]}
            notes.append(f"valgrind's simulated caches, {loop.title}, {title}: {added['d1_misses']:+.2f} misses of the first level and "
                         f"{added['ll_misses']:+.2f} of the last for each launch (bare {found[BARE]['d1_misses']:.2f} and {found[BARE]['ll_misses']:.2f})")
    return notes, data


def processor():
    """The processor's name as the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else os.uname().machine
