"""NVIDIA's tools beside the guard, on a card: a library that CUPTI injects, compute-sanitizer, Nsight Compute and Nsight Systems.

Each program runs beside the tool without the guard, with the guard preloaded into both the tool and the program, and with the guard
inside the tool alone. What completes beside the tool has to complete with the same output under the guard.

Must not: judge what a tool finds; install a tool: one that is absent is a row that says so.
"""

import json
import shutil
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bench_cupti
import checks
import guard
import spare_time
from checks import Scratch, as_data, describe, judge

Row = namedtuple("Row", "what alone around inside verdict")
HEADER = Row("tool, and program", "without the guard", "the guard around the tool", "the guard inside the tool", "result")

# Hangs without the guard; waits for a value; needs nothing of the guard; and PyTorch.
PROGRAMS = (("lazy_pair", "app"), ("lazy_pair", "runtime"), ("value_fence", "app"), ("blocking_async", "app"))
PYTORCH = "torch_check.py"
# A tool makes a program slow, most of all PyTorch under compute-sanitizer.
LIMIT_S, LIMIT_OF_PYTORCH_S = 25.0, 100.0
AT_A_TIME = 4
# What it shows to those who have no display is under the folder of another tool.
SYSTEMS = ("/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",)

# command: in front of the program's. variables: set for the program. own_lines: how the lines begin that the tool adds to the output.
Tool = namedtuple("Tool", "name command variables own_lines", defaults=([], {}, ()))


def tools():
    """(the tools that are here, a row for each that is not)"""
    found, absent = [], []
    library, note = bench_cupti.build()
    for way in ("callback", "activity"):
        if library is None:
            absent.append(Row(f"CUPTI, {way}", "", "", note, "SKIP"))
        else:
            found.append(Tool(f"CUPTI, {way}", variables={"CUDA_INJECTION64_PATH": str(library), "BENCH_CUPTI": way}))
    for name, words, own_lines in (("compute-sanitizer", ["--tool", "memcheck"], ("=",)),
                                   ("ncu", ["--target-processes", "all", "--section", "LaunchStats", "--launch-count", "3"], ("=", " ", "[")),
                                   ("nsys", ["profile", "--force-overwrite", "true", "-o", "profile"], ("Generating", "Generated", "Collecting", "[", "\t"))):
        path = path_of(name)
        if path is None:
            absent.append(Row(name, "", "", "it is not on this machine", "SKIP"))
        else:
            found.append(Tool(name, [path, *words], own_lines=own_lines))
    return found, absent


def of_toolkit(name):
    """The path of a tool that is on PATH or in CUDA's usual folder, or None."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def path_of(name):
    found = of_toolkit(name)
    if found is None and name == "nsys":
        found = next((str(path) for pattern in SYSTEMS for path in Path("/").glob(pattern[1:])), None)
    return found


def with_tool(environment, tool):
    return {**environment, **tool.variables}


def ways(tool, command):
    """(command, environment) without the guard, with the guard around the tool, with the guard inside it."""
    run = [guard.COMMAND, "run", "--library", guard.LIBRARY, "--"]
    guarded = with_tool(guard.clean_environment(), tool)
    return (([*tool.command, *command], with_tool(guard.bare("LAZY"), tool)),
            ([*run, *tool.command, *command], guarded), ([*tool.command, *run, *command], guarded))


def output(outcome, tool):
    """The program's own lines."""
    return sorted(line for line in outcome.stdout.splitlines() if line.strip() and not line.startswith(tool.own_lines or ("\0",)))


def one(tool, title, command, limit_s, own):
    """own: what of a line of the output has to be the same."""
    outcomes = []
    for words, environment in ways(tool, command):
        with Scratch() as scratch:
            outcomes.append(scratch.run(words, environment, limit_s))
    alone, *guarded = outcomes
    same = [outcome.code == alone.code and own(output(outcome, tool)) == own(output(alone, tool)) for outcome in guarded]
    # What hangs beside the tool may complete under the guard, and may hang.
    good = alone.code is None or all(same)
    said = [describe(outcome) + ("" if alone.code is None or matches else ", other output" if outcome.code == alone.code else "")
            for outcome, matches in zip(guarded, same)]
    data = {"tool": tool.name, "program": title, "outcomes": [as_data(outcome) for outcome in outcomes]}
    return Row(f"{tool.name}: {title}", describe(alone), *said, judge(good)), data


def digests(lines):
    """What PyTorch computed, without the times."""
    for line in lines:
        try:
            return json.loads(line)["results"]
        except (ValueError, KeyError, TypeError):
            continue
    return None


def check(progress, wanted=None):
    """Rows and data; `wanted`: tools whose names contain one of these."""
    found, absent = tools()
    found = [tool for tool in found if not wanted or any(part in tool.name for part in wanted)]
    listed = guard.programs()
    jobs = [(tool, f"{name} ({kind})", guard.program_command(name, kind, listed[name]), LIMIT_S, lambda lines: lines)
            for tool in found for name, kind in PROGRAMS]
    if checks.torch_is_there():
        jobs += [(tool, PYTORCH, checks.TORCH_CHECK, LIMIT_OF_PYTORCH_S, digests) for tool in found]
    rows, data = [], []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for row, of_row in filter(None, pool.map(lambda job: None if spare_time.is_over() else one(*job), jobs)):
            progress(f"{row.what}: {row.verdict}")
            rows.append(row)
            data.append(of_row)
    return rows + absent, data
