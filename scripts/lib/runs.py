"""LazyGuard's findings for runs that pass, on everyday programs: hazards, the summary of the start, the calls that blocked the host.

Each program runs bare, then under `lazyguard run` with the default settings and with preloading switched off. It has to
do the same each time; what is said of it must hold together: the parts of the start are the whole of it, the card was looked at,
and every hazard says what has to meet. Whether a hazard is real is for a person to judge: docs/results has them all, docs/RESULTS.md the judgement.

Must not: decide by how many hazards a program has. Only the programs that are controls are to have none.
"""

import json
import os
import sys

import guard
from checks import Row, Scratch, completes, describe, judge
from tools import ROOT

LIMIT_S = 90.0
# Reported programs that end by themselves under the guard, as the CUDA runtime builds them.
REPORTED = ("lazy_pair", "lazy_pair_single_kernel", "persistent_one_time", "value_fence", "blocking_async")
# For these the guard must report nothing: they have one kernel only, or load all before.
CONTROLS = ("lazy_pair_single_kernel",)
PYTHON = (("torch", "torch_check"), ("torch", "torch_train"), ("triton", "triton_check"), ("cupy", "cupy_check"), ("jax", "jax_check"))
# The parts that PyTorch's first start must show, and the reasons that blocking_async must show.
PARTS_OF_TORCH = ("driver_init", "context", "modules")
REASONS_OF_BLOCKING = ("pageable_memory", "queue_full")


class Program:
    def __init__(self, name, command, entry):
        self.name, self.command, self.entry = name, command, entry


def programs(simulated):
    """The programs that this machine can run, and rows for the others."""
    listed = guard.programs()
    kind = "app" if simulated else "runtime"
    found = [Program(f"{name} ({kind})", guard.program_command(name, kind, listed[name]), listed[name])
             for name in REPORTED if kind in listed[name]["kinds"]]
    absent = []
    for package, name in () if simulated else PYTHON:
        with Scratch() as scratch:
            question = [sys.executable, "-c", f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"]
            there = scratch.run(question, guard.bare(), LIMIT_S).code == 0
        if there:
            found.append(Program(f"{name}.py", [sys.executable, ROOT / "scripts" / "gpu" / f"{name}.py"], None))
        else:
            absent.append(Row(f"{name}.py", f"no {package} on this machine", "", "", "SKIP"))
    return found, absent


def environment(scratch, simulated, **settings):
    """Gives the frameworks' compilation caches a folder of their own, so that each run is a first one."""
    found = guard.bare("LAZY", simulated)
    for name in ("CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR"):
        found[name] = str(scratch.path / name.lower())
        os.makedirs(found[name], exist_ok=True)
    found.update({f"LAZYGUARD_{name}": value for name, value in settings.items()})
    return found


def under_run(program, simulated, **settings):
    """The program under `lazyguard run`: its outcome, the findings, and the timing of its processes."""
    with Scratch() as scratch:
        root, findings = scratch.path / "root", scratch.path / "findings.json"
        command = [guard.COMMAND, "run", "--out", root, "--json", findings, "--cold-start", "--", *program.command]
        outcome = scratch.run(command, environment(scratch, simulated, **settings), LIMIT_S)
        report = [guard.COMMAND, "report", root, "--cold-start", "--blocking", "--format", "json"]
        timed = scratch.run(report, guard.bare(), LIMIT_S)
        return outcome, read(findings.read_text() if findings.is_file() else ""), read(timed.stdout)


def read(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def faults(program, findings, timed, simulated, loads_ahead):
    """The contradictions, in a few words each."""
    if findings is None or timed is None:
        return ["no findings" if findings is None else "no summaries"]
    wrong = []
    for hazard in findings["hazards"]:
        if not (hazard["what"] and hazard["fix"] and hazard["must_meet"] and hazard["evidence"] and hazard["count"]):
            wrong.append(f"{hazard['key']} says too little")
    for process in timed["processes"]:
        summary = process["cold_start"]
        parts = {part["part"]: part["ns"] for part in summary["parts"]}
        if sum(parts.values()) != summary["steady"]["until_ns"]:
            wrong.append("the parts are not the whole")
        if not simulated and not process["card"]["cards"]:
            wrong.append(f"the card was not looked at: {process['card']['why']}")
        if "torch" in program.name and not all(parts.get(part) for part in PARTS_OF_TORCH):
            wrong.append(f"no time in one of {', '.join(PARTS_OF_TORCH)}")
    told = [hazard for hazard in findings["hazards"] if not hazard["prevented"]]
    if any(program.name.startswith(control + " ") for control in CONTROLS) and told:
        wrong.append("a hazard in a control")
    if program.name.startswith("blocking_async"):
        reasons = {group["reason"] for process in timed["processes"] for group in process["blocking"]["groups"]}
        wrong += [f"{reason} was not told" for reason in REASONS_OF_BLOCKING if reason not in reasons]
    if loads_ahead and program.name.startswith("lazy_pair (") and not any(hazard["prevented"] for hazard in findings["hazards"]):
        wrong.append("what was prevented was not told")
    return wrong


def in_words(findings):
    """`2 LG102, 1 LG105; prevented 3 LG101`: kinds of hazards, not how often each arose."""
    if findings is None:
        return "nothing"
    def kinds(prevented):
        codes = [hazard["code"] for hazard in findings["hazards"] if hazard["prevented"] is prevented]
        return ", ".join(f"{codes.count(code)} {code}" for code in sorted(set(codes)))
    told, prevented = kinds(False), kinds(True)
    return "; ".join(filter(None, [told, prevented and f"prevented {prevented}"])) or "no hazard"


def start_in_words(timed):
    """`0.61 s: driver_init 38 %, context 21 %, modules 12 %` of the process that took longest."""
    if not timed or not timed["processes"]:
        return ""
    summary = max((process["cold_start"] for process in timed["processes"]), key=lambda one: one["steady"]["until_ns"])
    whole = summary["steady"]["until_ns"]
    largest = sorted(summary["parts"], key=lambda part: -part["ns"])[:3]
    shares = ", ".join(f"{part['part']} {100 * part['ns'] / whole:.0f} %" for part in largest if part["ns"])
    return f"{whole / 1e9:.2f} s: {shares}" if whole else ""


def same(program, bare, kept):
    if program.entry is not None:
        return completes(kept._replace(stderr=""), program.entry)
    # A Python program's figures differ from run to run; the keys of its JSON line do not.
    keys = lambda outcome: sorted((read((outcome.stdout.strip().splitlines() or [""])[-1]) or {}).keys())
    return bare.code == kept.code == 0 and keys(bare) == keys(kept) != []


def check(simulated, progress):
    found, rows = programs(simulated)
    data = []
    for program in found:
        hangs = program.entry is not None and program.entry["hangs_bare"]
        bare = None
        if program.entry is None:
            with Scratch() as scratch:
                bare = scratch.run(program.command, environment(scratch, simulated), LIMIT_S)
        outcome, findings, timed = under_run(program, simulated)
        off = None if hangs else under_run(program, simulated, PRELOAD="off")
        wrong = faults(program, findings, timed, simulated, True)
        if not same(program, bare, outcome):
            wrong.append(f"does something else: {describe(outcome)}")
        if off:
            wrong += [f"{fault}, loading nothing ahead" for fault in faults(program, off[1], off[2], simulated, False)]
            if not same(program, bare, off[0]):
                wrong.append(f"does something else, loading nothing ahead: {describe(off[0])}")
        row = Row(program.name, start_in_words(timed), in_words(findings), in_words(off[1]) if off else "it hangs", judge(not wrong))
        progress(f"{program.name}: {row.verdict} {'; '.join(wrong)}")
        rows.append(row)
        data.append({"name": program.name, "pass": not wrong, "faults": wrong,
                     "modes": {"default": mode(outcome, findings, timed), **({"preload off": mode(*off)} if off else {})}})
    return rows, data


def mode(outcome, findings, timed):
    return {"code": outcome.code, "stderr": outcome.stderr[-1500:], "hazards": (findings or {}).get("hazards", []),
            "timing": (timed or {}).get("processes", [])}
