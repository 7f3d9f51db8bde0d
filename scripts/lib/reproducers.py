"""On a card, the reproducers of `lazyguard export --to cuda`, and loads that come too late.

  reproducer   of each hang of the corpus: compiled by nvcc it hangs bare, and has the hang's code under the guard
  late         kernels that load when the program is ready: LG110 with their names

Must not: judge a hang of the corpus, as scripts/lib/corpus.py does.
"""

import os
import re
import shutil
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import card_tools
import checks
import corpus
import frameworks
import guard
import hazards
import spare_time
from checks import Scratch, as_data, describe, judge
from tools import ROOT, TARGET

LATE = ROOT / "testapps" / "frameworks" / "late"
Row = namedtuple("Row", "what bare guarded note verdict")
HEADER = Row("program", "bare", "guarded", "note", "result")
# Most of a reproducer's time is the compiler's, and that in which it hangs.
AT_A_TIME = 12
# Shorter than that of the corpus, whose programs run on a card that others share for longer.
MS = 700
LIMIT_S, STANDS_S = 30.0, 4.0
LIMIT_OF_TORCH_S = 120.0


def compiler(simulated):
    """What compiles a source `-o` a program, or None."""
    if simulated:
        return ["c++", "-x", "c++", "-std=c++17", "-pthread", "-I", TARGET / "cuda" / "include", "-L", guard.SIMULATED_DRIVER]
    nvcc = card_tools.of_toolkit("nvcc")
    return nvcc and [nvcc, "-std=c++17"]


def reproduced(program, simulated):
    """The hang of a program, exported, compiled, and hanging again."""
    title = f"reproducer: {program.name}"
    with Scratch() as scratch:
        run, source, built, out = (scratch.path / name for name in ("run", "reproducer.cu", "reproducer", "out"))
        settings = {**guard.guarded(simulated, HANG_AFTER=f"{MS}ms", OUT=str(run)), "LG_SCALE_MS": str(MS), **program.env}
        first = scratch.run([corpus.path_of(program)], settings, LIMIT_S, lambda: corpus.is_final(corpus.report(run)))
        clean = guard.clean_environment(simulated)
        for command in ([guard.COMMAND, "export", "--to", "cuda", "-o", source, run], [*compiler(simulated), "-o", built, source, "-lcuda"]):
            made = scratch.run(command, clean, LIMIT_S)
            if made.code != 0:
                return Row(title, describe(made), "", made.stderr[-300:].strip(), "FAIL"), as_data(made, program=program.name, hang=as_data(first))
        alone = scratch.run([built], clean, STANDS_S)
        options = ["--preload", "off", "--hang-after", "1s", "--on-hang", "kill", "--out", out, "--keep"]
        kept = scratch.run([guard.COMMAND, "run", *options, "--", built], clean, LIMIT_S)
        codes, text = checks.verdict_codes(out), source.read_text()
    good = alone.code is None and kept.code == 117 and codes[:1] == [program.code]
    note = "" if good else f"expected {program.code}, {describe(kept)}"
    data = as_data(kept, program=program.name, codes=codes, **({} if good else {"alone": as_data(alone), "source": text}))
    return Row(title, describe(alone), ", ".join(codes[:1]) or "no verdict", note, judge(good)), data


def late_in_corpus(program, simulated):
    row, data = hazards.check(program, corpus.path_of(program), simulated)
    return Row(row.what.replace("corpus: ", "late: "), row.bare, row.guard, row.third, row.verdict), data


def late(path, simulated):
    """A program of a framework that says that it is ready: the report lists the kernel that it loads behind that, which its line `late: REGEX` states."""
    expected = re.search(r"^# late: (.+)$", path.read_text(), re.M).group(1)
    with Scratch() as scratch:
        package, run = scratch.path / "python" / "lazyguard", scratch.path / "run"
        package.mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "lib" / "wheel" / "__init__.py", package)
        own = {**frameworks.with_own_caches(guard.clean_environment(simulated), scratch), "PYTHONPATH": str(package.parent)}
        outcome = scratch.run([guard.COMMAND, "run", "--keep", "--out", run, "--", sys.executable, path], own, LIMIT_OF_TORCH_S)
        said = scratch.run([guard.COMMAND, "report", run, "--hazards"], guard.clean_environment(), LIMIT_OF_TORCH_S).stdout
    listed = said.partition("to warm up before the program is ready:\n")[2].splitlines()
    good = outcome.code == 0 and "LG110" in said and any(re.search(expected, line) for line in listed)
    return Row(f"late: {path.stem}", describe(outcome), f"LG110, {len(listed)} to warm up", "" if good else f"expected {expected}", judge(good)), as_data(outcome, said=said[-8000:])


def each(simulated, lacks_torch):
    """(title, why it is not tried, whether it needs the card for itself, what makes its row) of each."""
    for path in sorted(LATE.glob("*.py")):
        yield f"late: {path.stem}", "no PyTorch on this machine" if simulated or lacks_torch else None, False, lambda path=path: late(path, simulated)
    for name, program in corpus.programs().items():
        if program.hazards is not None and "lazyguard_ready" in (corpus.SOURCES / "hazard" / f"{name}.cpp").read_text():
            yield f"late: {name}", None, False, lambda program=program: late_in_corpus(program, simulated)
        elif program.code and not program.told:
            none = re.search(r"^// reproducer: (none, .+)$", (corpus.SOURCES / "hang" / f"{name}.cpp").read_text(), re.M)
            why = none.group(1) if none else program.card if program.card.startswith("no") and not simulated else None
            why = why or ("no nvcc on this machine" if compiler(simulated) is None else None)
            yield f"reproducer: {name}", why, program.card == "yes, alone", lambda program=program: reproduced(program, simulated)


def check(progress, wanted, simulated):
    """The rows and data of the programs, those that need the card for themselves behind the others."""
    found = list(each(simulated, bool(frameworks.absent(["torch"]))))
    named = {title.partition(": ")[2] for title, *_ in found}
    unknown = [name for name in wanted or () if name not in named]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no hang of the corpus and no late load")
    chosen = [one for one in found if not wanted or one[0].partition(": ")[2] in wanted]
    results = [(Row(title, "", "", why, "SKIP"), {}) for title, why, _, _ in chosen if why]

    def one(title, make):
        if spare_time.is_over():
            return Row(title, "", "", "not begun: --within is over", "SKIP"), {}
        row, data = make()
        progress(f"{row.what}: {row.verdict}" + ("" if row.verdict == "PASS" else f" ({row.bare}; {row.guarded}; {row.note})"))
        return row, data

    for by_itself, most in ((False, AT_A_TIME), (True, 1)):
        with ThreadPoolExecutor(min(most, os.cpu_count() or 1)) as pool:
            results += pool.map(lambda job: one(job[0], job[3]), [job for job in chosen if not job[1] and job[2] is by_itself])
    results.sort(key=lambda result: result[0])
    return [row for row, _ in results], [data for _, data in results if data]
