"""The programs of the corpus that complete and have hazards: the guard reports exactly those that the first lines state, both in the
process's file and from its recording alone.
"""

import json
import re
import subprocess

import guard
from checks import Row, Scratch, as_data, describe, judge

# The longest lasts half a second; the start of a program and its context on a busy card.
LIMIT_S = 15.0
REPORT_LIMIT_S = 20.0


def key(code, kernel, call, stream, prevented):
    """The key of a hazard, as in baselines and suppressions."""
    return f"{code}|{kernel}|{call}|{stream}" + ("|prevented" if prevented else "")


def stated(lines):
    """The keys that first lines state; None for a program without that question."""
    stated_lines = [re.match(r"(hazard|prevented): (.*)", line) for line in lines]
    stated_lines = [match.groups() for match in stated_lines if match]
    if not stated_lines:
        return None
    keys = set()
    for kind, text in stated_lines:
        code, *words = text.split()
        if code != "none":
            named = dict(word.split("=", 1) for word in words)
            keys.add(key(code, named["kernel"], named["call"], named["stream"], kind == "prevented"))
    return frozenset(keys)


def keys_of(hazards):
    """The keys of a list of hazards in JSON."""
    return {key(h["code"], h["kernel"] or "-", h["call"], h["stream_class"], h["prevented"]) for h in hazards}


def written_down(folder):
    """The hazards that the process wrote; empty where it had none."""
    try:
        return json.loads((folder / "hazards.json").read_text())["hazards"]
    except (OSError, ValueError, KeyError):
        return []


def recorded(folder):
    """The hazards that `lazyguard report` finds in the recording, without the process's file; None where it fails."""
    (folder / "hazards.json").unlink(missing_ok=True)
    return reported(folder)


def reported(folder):
    """Those that `lazyguard report` says of a folder; None where it fails."""
    try:
        command = [guard.COMMAND, "report", folder, "--hazards", "--format", "json"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=REPORT_LIMIT_S)
        return json.loads(result.stdout)["hazards"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def difference(expected, found):
    """In words; nothing where they are the same."""
    if found is None:
        return "no report"
    found = keys_of(found)
    missing = ["no " + one for one in sorted(expected - found)]
    return ", ".join(missing + ["also " + one for one in sorted(found - expected)])


def check(program, path, simulated):
    """The row and the data of one program."""
    with Scratch() as scratch:
        folder = scratch.path / "run"
        settings = {**guard.guarded(simulated, OUT=str(folder)), **program.env}
        outcome = scratch.run([path], settings, LIMIT_S)
        live = written_down(folder)
        alone = recorded(folder) if folder.is_dir() else None
    wrong = {"live": difference(program.hazards, live), "recording alone": difference(program.hazards, alone)}
    note = "; ".join(f"{whence}: {what}" for whence, what in wrong.items() if what)
    good = outcome.code == 0 and outcome.stderr == "" and outcome.stdout != "" and not note
    told = ", ".join(sorted({h["code"] + (" prevented" if h["prevented"] else "") for h in live})) or "no hazard"
    row = Row(f"corpus: {program.name}", "", f"{describe(outcome)}, {told}", note, judge(good))
    return row, as_data(outcome, name=program.name, expected=sorted(program.hazards), live=live, recorded=alone, good=good)
