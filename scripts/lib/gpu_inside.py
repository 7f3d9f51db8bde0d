"""Kernels that hang inside themselves (testapps/inside): on a card of compute capability 9.0, `lazyguard run --gpu-dump=full` and the report's sentence.

The first lines of a source state the result:

  expect    LG210 or another code, with the culprit; or `slow`: a healthy kernel, of which the report has no wait
  inside    how the sentence about the wait begins, without the kernel's name
  missing   what it says of who is missing

Must not: be used on a simulated driver, whose cores are of other kernels.
"""

import json
import re
import sys
from collections import namedtuple

import card_tools
import guard
from checks import Scratch, as_data, describe
from tools import ROOT

FOLDER = ROOT / "testapps" / "inside"
BUILD_LIMIT_S, REPORT_LIMIT_S = 120.0, 60.0
# The hang is certain after three times the threshold; the healthy ones work for longer than that.
SECONDS_OF_WORK = "40"

Program = namedtuple("Program", "path code culprit inside missing")


def stated(path):
    """The program of a source; ValueError where its statements cannot be meant so."""
    lines = re.findall(r"^(?://|#) (expect|inside|missing): (.+)$", path.read_text(), re.M)
    known = dict(lines)
    expect = re.fullmatch(r"(LG2\d\d) culprit=(\w+)|slow", known.get("expect", ""))
    if not expect or len(known) != len(lines) or bool(expect.group(1)) != ("inside" in known):
        raise ValueError(f"{path.name}: its first lines do not state its result")
    return Program(path, expect.group(1), expect.group(2), known.get("inside"), known.get("missing"))


def programs():
    return {path.stem: stated(path) for path in sorted(FOLDER.glob("*")) if path.suffix in (".cu", ".py")}


def command_of(program, scratch):
    """The command, or what kept it from being built."""
    if program.path.suffix == ".py":
        return [sys.executable, program.path], None
    nvcc, built = card_tools.of_toolkit("nvcc"), scratch.path / program.path.stem
    if nvcc is None:
        return None, "no nvcc"
    said = scratch.run([nvcc, "-arch=sm_90", "-O2", "-std=c++17", "-lineinfo", "-I", FOLDER, "-o", built, program.path], guard.clean_environment(), BUILD_LIMIT_S)
    return ([built], None) if said.code == 0 else (None, f"nvcc: {said.stderr[-200:]}")


def waits_of(run, scratch):
    """The waits of all kernels in the report of the run's only process."""
    said = scratch.run([guard.COMMAND, "report", run, "--format", "json"], guard.clean_environment(), REPORT_LIMIT_S)
    try:
        devices = (json.loads(said.stdout)["gpu"] or {"devices": []})["devices"]
        return [wait for device in devices for kernel in device["kernels"] for wait in kernel["waits"]]
    except (ValueError, KeyError, TypeError):
        return None


def check_one(program, under_run, row, verdict):
    """A row of the table: `row` makes it, and `under_run` runs a command under `lazyguard run`."""
    title = f"inside: {program.path.stem}"
    with Scratch() as scratch:
        command, lacks = command_of(program, scratch)
        if command is None:
            return row(title, program.inside or "no wait", lacks, "", "FAIL"), {}
        environment = {**guard.clean_environment(), "SECONDS_OF_WORK": SECONDS_OF_WORK, "TRITON_CACHE_DIR": str(scratch.path / "triton")}
        outcome, cores, _, _ = under_run(command, scratch, environment, "--on-hang", "kill", "--kill-after", "2s", "--gpu-dump=full")
        if len(cores) != 1:
            return row(title, program.inside or "no wait", f"{len(cores)} dumps: {describe(outcome)}", "", "FAIL"), as_data(outcome)
        said = scratch.run([guard.COMMAND, "report", cores[0].parent], guard.clean_environment(), REPORT_LIMIT_S).stdout
        waits = waits_of(cores[0].parent, scratch)
        size = cores[0].stat().st_size
    if program.code is None:
        good, expected = waits == [], "no wait"
    else:
        expected = f"{program.code}: {program.inside}"
        lines = [line for line in said.splitlines() if f"{program.culprit}: {program.inside}" in line]
        good = any((program.missing or "") in line for line in lines) and f"\n{program.code} (" in f"\n{said}"
    first = next((line.strip() for line in said.splitlines() if line.startswith("LG")), "no verdict")
    data = {"program": program.path.stem, "bytes": size, "waits": waits} | ({} if good else as_data(outcome, said=said[:8000]))
    return row(title, expected, first[:300], f"{size / 1e6:.1f} MB", verdict(good)), data
