"""`lazyguard explore` on a card: each shape of testapps/races and testapps/frameworks/races passes, each seed finds its hang, and none is
found of its safe form.

A line `shape: NAME CODES` of a source states the codes of the hang, of which it gets one, and `ranks=N` a job, whose ranks share the GPUs where
those are fewer.

Must not: know of one program by its name.
"""

import itertools
import os
import re
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import bench_cupti
import frameworks
import guard
import spare_time
from checks import Scratch, as_data, describe, judge
from tools import ROOT, TARGET

RACES, OF_FRAMEWORKS = ROOT / "testapps" / "races", ROOT / "testapps" / "frameworks" / "races"
Row = namedtuple("Row", "shape plain explored safe verdict")
HEADER = Row("program", "plain", "explored, by each seed", "safe form", "result")
PLAIN_RUNS, RUNS, REPLAYS, ENOUGH = 3, 30, 10, 9
# In this order: what --within leaves out is the same for all shapes.
FORMS = ("plain", 1, "safe", 2, 3)
# With --long, the safe form of a program of one process has ten times the runs, by more seeds: one of its explorations is over in two minutes.
MORE_SAFE = {f"safe {seed}": seed for seed in range(2, 11)}
SEEDS_OF_SAFE = {"safe": 1, **MORE_SAFE}
# Shorter than that of the corpus: a shape has little work, and each of its runs waits for it, up to three times.
HANG_AFTER, HANG_AFTER_OF_TORCH = "500ms", "2s"
# A call that hangs spins on a processor, and the driver makes the contexts of all programs one after the other: with 24, each takes seconds.
# The contexts of ranks on one GPU take turns on it, while their collectives spin.
AT_A_TIME, JOBS_AT_A_TIME = 10, 4
LIMIT_S = 600.0

TURNS = itertools.count()

Shape = namedtuple("Shape", "name command codes ranks of_torch")


def shapes():
    """All shapes by name."""
    found = {}
    for source in sorted([*RACES.glob("*.cpp"), *OF_FRAMEWORKS.glob("*.py")]):
        command = [sys.executable, source] if source.suffix == ".py" else [TARGET / "races" / source.stem]
        for words in map(str.split, re.findall(r"^(?://|#) shape: (.+)$", source.read_text(), re.M)):
            ranks = next((int(word[6:]) for word in words if word.startswith("ranks=")), 1)
            own = command if source.suffix == ".py" else [*command, words[0]]
            found[words[0]] = Shape(words[0], own, {word for word in words if word.startswith("LG")}, ranks, source.suffix == ".py")
    return found


def environment(shape, simulated, cards, scratch):
    """That of a shape, one card after the other. Its NCCL is that of PyTorch, without NVLink multicast, which not every shared machine allows."""
    own = frameworks.with_own_caches(guard.clean_environment(simulated), scratch)
    nccl = [] if simulated else [str(path.parent) for package in bench_cupti.python_packages() for path in package.glob("*/lib/libnccl.so.2")]
    paths = [*nccl[:1], *filter(None, [own.get("LD_LIBRARY_PATH")])]
    if shape.ranks == 1 and cards > 1 and not simulated:
        own["CUDA_VISIBLE_DEVICES"] = str(next(TURNS) % cards)
    return {**own, "NCCL_NVLS_ENABLE": "0", **({"LD_LIBRARY_PATH": ":".join(paths)} if paths else {})}


def run(shape, command, simulated, cards):
    with Scratch() as scratch:
        return scratch.run(command, environment(shape, simulated, cards, scratch), spare_time.at_most(LIMIT_S))


def plain(shape, simulated, cards):
    outcomes = [run(shape, shape.command, simulated, cards) for _ in range(PLAIN_RUNS)]
    wrong = [outcome for outcome in outcomes if outcome.code != 0 or outcome.stderr or outcome.stdout.split() != ["passed"] * shape.ranks]
    return describe((wrong or outcomes)[0]), not wrong, as_data((wrong or outcomes)[0])


def explored(shape, form, simulated, cards):
    """In words, whether it is as expected, and the data; a `form` is a seed, or of SEEDS_OF_SAFE."""
    threshold = HANG_AFTER_OF_TORCH if shape.of_torch or shape.ranks > 1 else HANG_AFTER
    is_safe = form in SEEDS_OF_SAFE
    options = ["--runs", RUNS, "--seed", SEEDS_OF_SAFE.get(form, form), "--replays", REPLAYS, "--hang-after", threshold]
    more = ["safe"] if is_safe else []
    outcome = run(shape, [guard.COMMAND, "explore", *options, "--", *shape.command, *more], simulated, cards)
    said = outcome.stderr
    if is_safe:
        good = outcome.code == 0 and f"no hang in {RUNS} runs" in said
        return (f"no hang in {RUNS} runs" if good else describe(outcome)), good, as_data(outcome)
    code = re.search(r"hangs (?:when .*|now and then.*): (LG\d+)$", said, re.M)
    found = re.search(r"found in run (\d+) with seed \d+; (\d+) of (\d+) replays hung", said)
    if outcome.code != 117 or not code or not found:
        return describe(outcome), False, as_data(outcome)
    words = f"{code.group(1)} in run {found.group(1)}, {found.group(2)} of {found.group(3)} again"
    return words, code.group(1) in shape.codes and int(found.group(2)) >= ENOUGH, as_data(outcome)


def forms_of(shape, long):
    return FORMS + (tuple(MORE_SAFE) if long and shape.ranks == 1 and not shape.of_torch else ())


def row_of_shape(shape, seen, forms=FORMS):
    """`seen`: by form, what `plain` and `explored` return, where they were run."""
    cell = lambda forms: "; ".join(seen[form][0] for form in forms if form in seen)
    good = all(as_expected for _, as_expected, _ in seen.values())
    verdict = judge(good) if set(forms) <= set(seen) or not good else "SKIP"
    note = f"expected {' or '.join(sorted(shape.codes))}" if not good else "--within is over" if verdict == "SKIP" else ""
    safe = [form for form in seen if form in SEEDS_OF_SAFE]
    none = [form for form in safe if seen[form][1]]
    said = [f"no hang in {RUNS * len(none)} runs"] if none else []
    said += [seen[form][0] for form in safe if form not in none]
    data = {"shape": shape.name, **{str(form): {"said": words, "good": as_expected, **about} for form, (words, as_expected, about) in seen.items()}}
    return Row(f"race: {shape.name}", cell(["plain"]), cell([1, 2, 3]), "; ".join(filter(None, [*said, note])), verdict), data


def absent(shape, cards, simulated, lacks_torch):
    """Why a shape is not tried here, if it is not."""
    if shape.of_torch and (simulated or lacks_torch):
        return "no PyTorch on this machine"
    return "for two GPUs" if shape.ranks > 1 and cards == 1 and not simulated else None


def taken_over(data):
    """By form, what an earlier check has of a shape."""
    forms = {form: data.get(str(form)) for form in (*FORMS, *MORE_SAFE)}
    rest = lambda about: {key: value for key, value in about.items() if key not in ("said", "good")}
    return {form: (about["said"], about["good"], rest(about)) for form, about in forms.items() if about}


def check(progress, wanted, simulated, cards, before=None, long=False):
    """The rows and data of the shapes. `before`: by shape, the data of an earlier check, whose forms are not run again."""
    found = shapes()
    seen = {name: taken_over(data) for name, data in (before or {}).items() if not wanted or name in wanted}
    unknown = [name for name in wanted or () if name not in found]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not in testapps/races")
    lacks_torch = bool(frameworks.absent(["torch"]))
    reasons = {name: absent(shape, cards, simulated, lacks_torch) for name, shape in found.items() if not wanted or name in wanted}
    # First those that take longest.
    tried = sorted((found[name] for name, why in reasons.items() if not why), key=lambda shape: not shape.of_torch)

    def one(shape, form):
        if not spare_time.is_over():
            result = plain(shape, simulated, cards) if form == "plain" else explored(shape, form, simulated, cards)
            if result[2]["code"] is None and spare_time.is_over():
                return
            progress(f"race: {shape.name}, {form}: {result[0]}" + ("" if result[1] else ": FAIL"))
            seen.setdefault(shape.name, {})[form] = result

    # Those of --long shape by shape: what --within leaves out is then of few shapes.
    forms = [(shape, form) for form in FORMS for shape in tried] + [(shape, form) for shape in tried for form in forms_of(shape, long) if form in MORE_SAFE]
    forms = sorted((job for job in forms if job[1] not in seen.get(job[0].name, {})), key=lambda job: not job[0].of_torch)
    most = os.cpu_count() or 1
    with ThreadPoolExecutor(min(JOBS_AT_A_TIME, most)) as jobs, ThreadPoolExecutor(min(AT_A_TIME, most)) as programs:
        for ended in [(jobs if shape.ranks > 1 else programs).submit(one, shape, form) for shape, form in forms]:
            ended.result()
    rows = [(Row(f"race: {name}", "", "", why, "SKIP"), {"shape": name, "absent": why}) for name, why in reasons.items() if why]
    rows = sorted(rows + [row_of_shape(shape, seen.get(shape.name, {}), forms_of(shape, long)) for shape in tried], key=lambda row: row[0])
    return [row for row, _ in rows], [data for _, data in rows]
