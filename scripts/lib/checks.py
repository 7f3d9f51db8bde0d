"""The checks of scripts/gpu-check, one class of question each, and how their outcomes are judged.

Each check returns rows for the table and data for the JSON. A row's verdict is PASS, FAIL, or MISS:
a MISS is a figure that was measured and is worse than the promised one, which is said and is not an
error of the run.
"""

import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import guard
import processes
from tools import ROOT, TARGET

Row = namedtuple("Row", "what bare guard third verdict")
HANG_LIMIT_S = 4.0
COMPLETE_LIMIT_S = 20.0
HANG_AFTER_S = 2.0
# The threshold, a second for the verdict, and the start of the program on a busy machine.
# What has no pattern is called a hang after three times the threshold.
DIAGNOSE_LIMIT_S = 3 * HANG_AFTER_S + 1.0 + 3.0
PAIRS = 5
# One launch is a noisy figure on a shared machine.
LAUNCH_PAIRS = 15
EAGER_RUNS = 2
TORCH_LIMIT_S = 90.0
COLLECTIVE_COST = [sys.executable, ROOT / "scripts" / "gpu" / "collective_cost.py"]
TORCH_CHECK = [sys.executable, ROOT / "scripts" / "gpu" / "torch_check.py"]
MOST_COLD_START_RATIO = 1.1
MOST_MEMORY_RATIO = 1.1
MOST_ADDED_LAUNCH_NS = 30.0
MOST_ADDED_COLLECTIVE_NS = 200.0
MOST_ADDED_START_MS = 1.0
VERDICT_LINE = "lazyguard: HANG"
# A report without stacks is on standard error by then.
UNREAD_STACKS_S = 3.0


def judge(good):
    return "PASS" if good else "FAIL"


class Scratch:
    """A folder for one run: the program's working folder and its TMPDIR, gone afterwards."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="lazyguard-check-"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, command, environment, limit_s, stop=None):
        # A cache of its own: a run is a first one.
        environment = {"XDG_CACHE_HOME": str(self.path / ".cache"), **environment, "TMPDIR": str(self.path)}
        return processes.run(command, environment, limit_s, self.path, stop)

    def left_behind(self):
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


def describe(outcome):
    if outcome.code is None:
        return f"hangs ({outcome.seconds:.0f} s)"
    if outcome.code != 0:
        return f"exit {outcome.code}"
    return f"ok {outcome.seconds:.2f} s"


def as_data(outcome, **more):
    return {"code": outcome.code, "seconds": round(outcome.seconds, 3), "stdout": outcome.stdout[-4000:],
            "stderr": outcome.stderr[-4000:], **more}


def same_output(stdout, expected, unordered):
    if expected is None:
        return True
    lines, wanted = stdout.rstrip("\n").split("\n"), expected.rstrip("\n").split("\n")
    return sorted(lines) == sorted(wanted) if unordered else lines == wanted


def completes(outcome, entry):
    """Ended by itself, without an error, with the expected output and nothing on stderr."""
    return (outcome.code == 0 and outcome.stderr == ""
            and same_output(outcome.stdout, entry.get("expected_output"), entry.get("unordered", False)))


def verdict_codes(folder):
    """The codes of every readable hang.json under `folder`; it may be in the middle of being written."""
    codes = []
    for path in folder.rglob("hang.json"):
        try:
            codes += [verdict["code"] for verdict in json.loads(path.read_text())["verdicts"]]
        except (ValueError, KeyError, OSError):
            continue
    return codes


def is_final(folder):
    """Whether the driver was asked about the hang, and the report stands on standard error.

    The library writes the file once before standard error, without stacks, and once after it."""
    for path in folder.rglob("hang.json"):
        try:
            hang = json.loads(path.read_text())
            age_s = time.time() - path.stat().st_mtime
        except (ValueError, OSError):
            continue
        told = hang.get("stacks") or age_s > UNREAD_STACKS_S
        if hang.get("status") == "hang" and hang.get("probe") is not None and told:
            return True
    return False


def program(name, kind, entry, simulated):
    """One program bare, under the guard, and under the guard with preloading off."""
    command = guard.program_command(name, kind, entry)
    hangs = entry["hangs_bare"]
    prevented = not entry.get("hangs_guarded", False)

    def run_bare():
        with Scratch() as scratch:
            return scratch.run(command, guard.bare("LAZY", simulated), HANG_LIMIT_S if hangs else COMPLETE_LIMIT_S)

    def run_guarded():
        with Scratch() as scratch:
            outcome = scratch.run(command, guard.guarded(simulated), COMPLETE_LIMIT_S if prevented else HANG_LIMIT_S)
            return outcome, scratch.left_behind()

    def run_off():
        with Scratch() as scratch:
            folder = scratch.path / "run"
            environment = guard.guarded(simulated, PRELOAD="off", HANG_AFTER=f"{HANG_AFTER_S:.0f}s", OUT=str(folder))
            # A program that hangs is ended once its verdict is there; until then it has to be waited for.
            stop = (lambda: is_final(folder)) if hangs else None
            outcome = scratch.run(command, environment, DIAGNOSE_LIMIT_S if hangs else COMPLETE_LIMIT_S, stop)
            return outcome, verdict_codes(folder)

    if hangs:
        # The two runs that hang may share the card. The guarded run has to complete in time, so that neither runs beside it.
        with ThreadPoolExecutor(2) as pool:
            hanging = [pool.submit(run_bare), pool.submit(run_off)]
            bare, (off, codes) = (run.result() for run in hanging)
        kept, left = run_guarded()
    else:
        bare, (kept, left), (off, codes) = run_bare(), run_guarded(), run_off()
    expected = entry.get("expected_code")
    if hangs:
        bare_good = bare.code is None
        off_good = off.code is None and expected in codes and VERDICT_LINE in off.stderr
        third = (f"{','.join(codes)} after {off.seconds:.1f} s" if codes else f"no verdict, {describe(off)}")
        if codes and expected not in codes:
            third += f", expected {expected}"
    else:
        bare_good = completes(bare, entry)
        off_good = completes(off, entry) and not codes
        third = describe(off) + (f", verdict {','.join(codes)}" if codes else "")
    guard_good = completes(kept, entry) if prevented else kept.code is None
    kept_text = describe(kept)
    if kept.code == 0 and prevented and not guard_good:
        kept_text += ", stderr" if kept.stderr else ", other output"
    good = bare_good and guard_good and off_good
    data = {"name": name, "kind": kind, "hangs_bare": hangs,
            "hangs_guarded": not prevented, "expected_code": expected,
            "pass": good, "output_checked": entry.get("expected_output") is not None or not prevented,
            "bare": as_data(bare, good=bare_good), "guard": as_data(kept, good=guard_good, left_behind=left),
            "preload_off": as_data(off, good=off_good, codes=codes)}
    bare_text = describe(bare) if bare_good or bare.code is None or bare.code else describe(bare) + ", other output"
    return Row(f"{name} ({kind})", bare_text, kept_text, third, judge(good)), data


INNOCENT = (
    ("/bin/true", ["/bin/true"]),
    ("bash", ["bash", "-c", "echo hello; (exit 3)"]),
    ("python3 -c pass", ["python3", "-c", "pass"]),
    ("git --version", ["git", "--version"]),
    ("threads and open files of python3",
     ["python3", "-c", "import os; print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')))"]),
)


def do_no_harm():
    """Programs that never touch CUDA: same output and exit code, and no file left."""
    rows, data = [], []
    for name, command in INNOCENT:
        if shutil.which(command[0]) is None:
            rows.append(Row(name, "not on this machine", "", "", "SKIP"))
            continue
        with Scratch() as scratch:
            bare = scratch.run(command, guard.bare(), COMPLETE_LIMIT_S)
        with Scratch() as scratch:
            kept = scratch.run(command, guard.guarded(), COMPLETE_LIMIT_S)
            left = scratch.left_behind()
        same = (bare.code, bare.stdout, bare.stderr) == (kept.code, kept.stdout, kept.stderr)
        good = same and not left and kept.code is not None
        note = "" if good else ("leaves " + ", ".join(left) if left else "differs")
        rows.append(Row(name, f"exit {bare.code}", f"exit {kept.code}", note, judge(good)))
        data.append({"command": command, "pass": good, "bare": as_data(bare), "guard": as_data(kept, left_behind=left)})
    row, start = start_cost()
    return rows + [row], {"programs": data, "start": start}


def start_cost():
    """What the library adds to the start of a process that never touches CUDA."""
    times = {"bare": [], "guard": []}
    with Scratch() as scratch:
        for _ in range(30):
            times["bare"].append(scratch.run(["/bin/true"], guard.bare(), 10).seconds * 1e3)
            times["guard"].append(scratch.run(["/bin/true"], guard.guarded(), 10).seconds * 1e3)
    bare, kept = statistics.median(times["bare"]), statistics.median(times["guard"])
    row = Row("start of /bin/true, median of 30", f"{bare:.2f} ms", f"{kept:.2f} ms", f"{kept - bare:+.2f} ms",
              "PASS" if kept - bare < MOST_ADDED_START_MS else "MISS")
    return row, {"bare_ms": bare, "guard_ms": kept}


def host_time(what, command, unit, most_added, simulated):
    """Host nanoseconds of one call, bare and guarded in turn, as a program prints them."""
    figures = {"bare": [], "guard": []}
    for _ in range(LAUNCH_PAIRS):
        for name, environment in (("bare", guard.bare(None, simulated)), ("guard", guard.guarded(simulated))):
            if simulated:
                environment["LGSIM_FREE_RUNNING"] = "1"
            with Scratch() as scratch:
                outcome = scratch.run(command, environment, COMPLETE_LIMIT_S)
            match = re.match(rf"{unit} median=([0-9.]+)", outcome.stdout)
            if outcome.code == 0 and outcome.stdout.startswith("no "):
                return [Row(what, "", "", outcome.stdout.strip(), "SKIP")], None
            if outcome.code != 0 or not match:
                row = Row(what, "", "", f"{name}: {describe(outcome)}", "FAIL")
                return [row], {"failed": as_data(outcome)}
            figures[name].append(float(match.group(1)))
    bare, kept = statistics.median(figures["bare"]), statistics.median(figures["guard"])
    added = kept - bare
    row = Row(f"{what}, median of {LAUNCH_PAIRS}", f"{bare:.0f} ns", f"{kept:.0f} ns",
              f"{added:+.0f} ns, x{kept / bare:.3f}", "PASS" if added <= most_added else "MISS")
    return [row], {"bare_ns": figures["bare"], "guard_ns": figures["guard"], "added_ns": added, "ratio": kept / bare}


def launches(simulated):
    """One launch."""
    return host_time("launch, host time", [TARGET / "apps" / "launch_bench"], "launch_ns", MOST_ADDED_LAUNCH_NS, simulated)


def collectives():
    """One collective of one rank, in place: what following NCCL adds to a call."""
    return host_time("collective of one rank, host time", COLLECTIVE_COST, "collective_ns", MOST_ADDED_COLLECTIVE_NS, False)


def torch_run(environment):
    with Scratch() as scratch:
        outcome = scratch.run(TORCH_CHECK, environment, TORCH_LIMIT_S)
    lines = outcome.stdout.strip().splitlines()
    try:
        # Said on stderr by the guard alone, or by both.
        data = {**json.loads(lines[-1]), "stderr": outcome.stderr[-1000:]}
    except (IndexError, ValueError, TypeError):
        data = None
    return (data if outcome.code == 0 else None), outcome


def torch_is_there():
    with Scratch() as scratch:
        question = [sys.executable, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"]
        return scratch.run(question, guard.bare(), TORCH_LIMIT_S).code == 0


def torch():
    """PyTorch: the same numbers, and the cold start beside LAZY and EAGER."""
    if not torch_is_there():
        return [Row("PyTorch", "not on this machine", "", "", "SKIP")], None
    modes = {"LAZY": guard.bare("LAZY"), "guard": guard.guarded(), "EAGER": guard.bare("EAGER")}
    # The first use of a file comes from the disk; the run that pays for that counts for nothing.
    torch_run(modes["LAZY"])
    found = {name: [] for name in modes}
    for turn in range(PAIRS):
        for name, environment in modes.items():
            if name == "EAGER" and turn >= EAGER_RUNS:
                continue
            data, outcome = torch_run(environment)
            if data is None:
                return [Row("PyTorch", "", "", f"{name}: {describe(outcome)}", "FAIL")], {"failed": as_data(outcome)}
            found[name].append(data)
    rows = [torch_results_row(found)]
    rows += [torch_figure_row("PyTorch cold start", "s", "cold_start_s", MOST_COLD_START_RATIO, found, "{:.2f}"),
             torch_figure_row("PyTorch device memory", "MB", "device_memory_mb", MOST_MEMORY_RATIO, found, "{:.0f}")]
    return rows, found


def torch_results_row(found):
    bare = [run["results"] for run in found["LAZY"]]
    kept = [run["results"] for run in found["guard"]]
    steady = [name for name in bare[0] if all(run[name] == bare[0][name] for run in bare)]
    same = bool(steady) and all(run[name] == bare[0][name] for run in kept for name in steady)
    quiet = not any("lazyguard" in run["stderr"] for run in found["guard"])
    note = "" if len(steady) == len(bare[0]) else f"{len(bare[0]) - len(steady)} differ between bare runs"
    return Row("PyTorch results", f"{len(steady)} digests", "same" if same else "other", note if quiet else "stderr", judge(same and quiet))


def torch_figure_row(what, unit, key, most, found, form):
    lazy, kept, eager = (statistics.median(run[key] for run in found[name]) for name in ("LAZY", "guard", "EAGER"))
    bare_text, kept_text, eager_text = (form.format(value) + f" {unit}" for value in (lazy, kept, eager))
    return Row(f"{what}, median of {PAIRS}", bare_text, f"{kept_text}, x{kept / lazy:.2f}", f"EAGER {eager_text}, x{eager / lazy:.1f}",
               "PASS" if kept <= most * lazy else "MISS")
