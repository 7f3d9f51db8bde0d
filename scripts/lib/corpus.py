"""The corpus on a card: programs that hang for one reason each get the right code and culprit, live and from the recording alone,
programs that are only slow get neither, and for programs that complete the guard reports their hazards.

The first lines of each source state the expected result, and no other file does; testapps/README.md says how to read them. Several
run at a time, each in a process and a context of its own; those that need the device for themselves run alone.
"""

import json
import os
import re
import subprocess
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import guard
import hazards
import spare_time
from checks import Row, Scratch, as_data, describe, judge
from tools import ROOT, TARGET

SOURCES = ROOT / "testapps" / "corpus"
# The threshold, and the pace of the slow programs: on a card that several processes share, and on the simulated driver.
CARD_MS, SIMULATED_MS = 2000, 600
HANGING_AT_A_TIME, SLOW_AT_A_TIME = 6, 4
# They take a fraction of a second each, and a launch that blocks for a millisecond changes their outcome.
HAZARDOUS_AT_A_TIME = 4
# The start of a program and its context on a busy card, and the driver's answers to the guard.
START_S, ANSWERS_S = 4.0, 2.0
# The longest of the slow programs lasts four times the pace.
SLOW_LIMIT_S = 60.0
REPORT_LIMIT_S = 20.0

Program = namedtuple("Program", "name what code culprit innocent slow_said env card told hazards completes_with_profile", defaults=(None, False))


def programs():
    """Every program of the corpus, by name; `code` is None of one that ends, and `hazards` of one without that question."""
    found = {}
    for source in sorted(SOURCES.glob("*/*.cpp")):
        found[source.stem] = parsed(source.stem, source.read_text())
    return found


def parsed(name, text):
    lines = []
    for line in text.splitlines():
        if not line.startswith("// "):
            break
        lines.append(line[3:])
    keyed = dict(line.split(": ", 1) for line in lines if re.match(r"(expect|env|card|told|with-profile): ", line))
    what = " ".join(line for line in lines if not re.match(r"(expect|hazard|prevented|env|default|told|with-profile|reproducer|card|build): ", line))
    env = dict(word.split("=", 1) for word in keyed.get("env", "").split())
    stated = hazards.stated(lines)
    if stated is not None:
        return Program(name, what, None, None, None, (False,), env, keyed["card"], None, stated)
    words = keyed["expect"].split()
    if words[0].startswith("LG"):
        named = dict(word.split("=", 1) for word in words[1:])
        completes = keyed.get("with-profile") == "completes"
        return Program(name, what, words[0], named["culprit"], named.get("innocent"), None, env, keyed["card"], keyed.get("told"), None, completes)
    said = {"slow": (True,), "none": (False,), "slow or none": (True, False)}[keyed["expect"]]
    return Program(name, what, None, None, None, said, env, keyed["card"], keyed.get("told"))


# All programs but those with flags of their own are this one: each starts it by a name of its own.
ALL = TARGET / "corpus" / "corpus"


def path_of(program):
    """The program. Where only ALL was copied, as to a kit, this makes its name: by a hard link, as testapps/corpus/CMakeLists.txt does."""
    path = ALL.with_name(program.name)
    try:
        if ALL.is_file() and not path.exists():
            os.link(ALL, path)
    except FileExistsError:
        pass  # Made by another thread.
    return path


def files():
    """The files that hold the programs: ALL, and those with a file of their own."""
    paths = [path_of(program) for program in programs().values()]
    return [ALL] + [path for path in paths if not (path.is_file() and path.samefile(ALL))]


def environment(program, simulated, folder):
    pace = SIMULATED_MS if simulated else CARD_MS
    kept = guard.guarded(simulated, HANG_AFTER=f"{pace}ms", OUT=str(folder))
    return {**kept, "LG_SCALE_MS": str(pace), **program.env}, pace / 1000


def report(folder):
    """The report of a hang; empty where there is none."""
    try:
        return json.loads((folder / "hang.json").read_text())
    except (OSError, ValueError):
        return {}


def is_final(hang):
    """Whether the guard has reported a hang, and has asked the driver about it."""
    return hang.get("status") == "hang" and hang.get("probe") is not None


def verdicts_of_recording(folder):
    """What `lazyguard report` derives from the recording where the process wrote no report."""
    (folder / "hang.json").unlink(missing_ok=True)
    try:
        result = subprocess.run([guard.COMMAND, "report", folder, "--format", "json"], capture_output=True, text=True, timeout=REPORT_LIMIT_S)
        return json.loads(result.stdout)["recording"]["verdicts"]
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return []


def blamed(verdict):
    operations = [culprit["operation"] for culprit in verdict.get("culprits", [])]
    return [operation.get("function") or operation.get("call") for operation in operations]


def judged(program, verdicts):
    """Whether the verdicts are right, and the first one in words."""
    if not verdicts:
        return False, "no verdict"
    first = blamed(verdicts[0])
    words = f"{verdicts[0].get('code')} {first[0] if first else 'nothing'}"
    good = verdicts[0].get("code") == program.code and first[:1] == [program.culprit]
    if program.innocent and any(program.innocent in blamed(verdict) for verdict in verdicts):
        return False, words + f", and {program.innocent}"
    return good, words


def hanging(program, simulated):
    with Scratch() as scratch:
        folder = scratch.path / "run"
        settings, threshold = environment(program, simulated, folder)
        outcome = scratch.run([path_of(program)], settings, START_S + 11 * threshold + ANSWERS_S, lambda: is_final(report(folder)))
        live = report(folder)
        recorded = verdicts_of_recording(folder) if folder.is_dir() else []
    live_good, live_words = judged(program, live.get("verdicts", []))
    recorded_good, recorded_words = judged(program, recorded)
    if live and not is_final(live):
        live_good, live_words = False, live_words + ", not final"
    good = outcome.code is None and live_good and recorded_good
    note = "recording alone: " + recorded_words
    if not good:
        note += f"; expected {program.code} {program.culprit}"
    ended = "" if outcome.code is None else f", {describe(outcome)}"
    row = Row(f"corpus: {program.name}", "", f"{live_words} after {outcome.seconds:.1f} s{ended}", note, judge(good))
    return row, as_data(outcome, name=program.name, expected=[program.code, program.culprit], live=live, recorded=recorded, good=good)


def ending(program, simulated):
    with Scratch() as scratch:
        settings, _ = environment(program, simulated, scratch.path / "run")
        outcome = scratch.run([path_of(program)], settings, SLOW_LIMIT_S)
    lines = outcome.stderr.splitlines()
    called_slow = any(line.startswith("lazyguard: SLOW") for line in lines)
    called_hang = "lazyguard: HANG" in outcome.stderr or "LG2" in outcome.stderr
    ours = all(line.startswith("lazyguard: ") for line in lines)
    good = outcome.code == 0 and outcome.stdout != "" and ours and not called_hang and called_slow in program.slow_said
    said = "called a hang" if called_hang else "called slow" if called_slow else "nothing said"
    row = Row(f"corpus: {program.name}", "", describe(outcome), said, judge(good))
    return row, as_data(outcome, name=program.name, called_slow=called_slow, called_hang=called_hang, good=good)


def check(simulated, progress, wanted=None):
    """Rows and data of the corpus, or of the programs that are wanted; ValueError where it has no such."""
    started = time.monotonic()
    skipped, alone, hang, slow, hazardous = [], [], [], [], []
    chosen = programs()
    unknown = [name for name in wanted or () if name not in chosen]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not in testapps/corpus")
    for program in chosen.values():
        if wanted and program.name not in wanted:
            continue
        if program.told or program.card.startswith("no") and not simulated:
            skipped.append(program)
        elif program.card == "yes, alone":
            alone.append(program)
        elif program.hazards is not None:
            hazardous.append(program)
        else:
            (hang if program.code else slow).append(program)

    def one(program):
        if spare_time.is_over():
            return Row(f"corpus: {program.name}", "", "", "not begun: --within is over", "SKIP"), {"name": program.name, "left_out": True}
        if program.hazards is not None:
            row, data = hazards.check(program, path_of(program), simulated)
        else:
            row, data = (hanging if program.code else ending)(program, simulated)
        progress(f"{row.what}: {row.verdict}" + ("" if row.verdict == "PASS" else f" ({row.guard}; {row.third})"))
        return row, data

    results = []
    for group, at_a_time in ((hang, HANGING_AT_A_TIME), (slow, SLOW_AT_A_TIME), (hazardous, HAZARDOUS_AT_A_TIME), (alone, 1)):
        with ThreadPoolExecutor(at_a_time) as pool:
            results += pool.map(one, group)
    rows = [row for row, _ in results] + [Row(f"corpus: {program.name}", "", "", f"known to be told {program.told}" if program.told else program.card, "SKIP") for program in skipped]
    return sorted(rows), {"programs": [data for _, data in results], "seconds": round(time.monotonic() - started, 1)}
