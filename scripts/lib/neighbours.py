"""The guard preloaded together with other libraries: what scripts/check-neighbours does.

Each neighbour runs in both orders of LD_PRELOAD, beside programs that hang without the guard and one that does not, on the simulated driver. A
program has to do what it does with the guard alone: complete with the same output, be kept from hanging, and with LAZYGUARD_PRELOAD=off hang
with the same code. What is found has to be what docs/DOCTOR.md says; --write writes it there.

A neighbour that this machine lacks and cannot fetch, or beside which the program fails without the guard too, is a line `skipped: NAME: why`
and no test.

Must not: install anything on the machine; use a neighbour that the page does not name.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import checks
import debian
import fetching
import guard
from tools import ROOT, TARGET, Failure, c_compiler

PAGE = ROOT / "docs" / "DOCTOR.md"
BEGIN, END = "<!-- written by scripts/check-neighbours --write -->\n", "<!-- end -->\n"
FETCHED = ROOT / "target" / "tools" / "neighbours"
VERSIONS = FETCHED / "versions.json"

PROGRAMS = ("lazy_pair", "persistent_one_time", "value_fence", "blocking_async")
# In the everyday suite: one that hangs without the guard, and one that does not.
FEW = ("lazy_pair", "blocking_async")
# Whether a program runs beside a neighbour without the guard is asked of this one.
ALONE = "blocking_async"
# Runs that wait more than they compute.
SIDE_BY_SIDE = 4
HANG_AFTER = "1s"
# A program that the guard does not see hangs, and has no verdict: that much time is given to it.
UNSEEN_LIMIT_S = 4.0
# What has no pattern is called a hang after three times the threshold.
VERDICT_LIMIT_S = 20.0

KIND = "app"
# The program does what it does with the guard alone; it does what it does without the guard, which does not see it; it does something else.
WORKS, UNSEEN, FAILS = "works", "runs, unguarded", "fails"
FIRST, LAST = "guard first", "guard last"

# source: a package of Debian's, a library of the compiler's, a wheel, or a file of the build. file: the library in it. variables: set for the
# neighbour. expected: for the order that gives another result than WORKS.
Neighbour = namedtuple("Neighbour", "name source file variables expected", defaults=({}, {}))

TORCH_MEMORY_SAVER = "torch-memory-saver==0.0.10"
NEIGHBOURS = (
    Neighbour("jemalloc", "debian:libjemalloc2", "usr/lib/*/libjemalloc.so.2"),
    Neighbour("mimalloc", "debian:libmimalloc2.0", "usr/lib/*/libmimalloc.so.2.0"),
    Neighbour("tcmalloc", "debian:libtcmalloc-minimal4", "usr/lib/*/libtcmalloc_minimal.so.4"),
    Neighbour("libfaketime, three days ago", "debian:libfaketime", "usr/lib/*/faketime/libfaketimeMT.so.1", {"FAKETIME": "-3d"}),
    # Leaks of the programs and of the simulated driver are not the question.
    Neighbour("AddressSanitizer's runtime", "compiler", "libasan.so", {"ASAN_OPTIONS": "detect_leaks=0"}),
    Neighbour("ThreadSanitizer's runtime", "compiler", "libtsan.so"),
    Neighbour("UndefinedBehaviorSanitizer's runtime", "compiler", "libubsan.so"),
    Neighbour("torch_memory_saver", f"wheel:{TORCH_MEMORY_SAVER}", "torch_memory_saver_hook_mode_preload_cu13.abi3.so", {"TMS_INIT_ENABLE": "1"}),
    Neighbour("an interposer of `cuLaunchKernel`", "build", "libroute_interposer.so"),
    Neighbour("an interposer with a `dlsym` of its own", "build", "libroute_dlsym_interposer.so", {}, {LAST: UNSEEN}),
)


class Skipped(Exception):
    """Why a neighbour cannot be tried."""


class Place(namedtuple("Place", "library version")):
    """Where a neighbour is, and which it is."""


def fetch():
    """Fetches what is not there. What cannot be fetched is said where it is looked for."""
    names = sorted({one.source.partition(":")[2] for one in NEIGHBOURS if one.source.startswith("debian:")})
    wheels = [one for one in NEIGHBOURS if one.source.startswith("wheel:")]
    asked_for = [*names, *(one.source for one in wheels)]
    if versions().get("asked for") == asked_for:
        return
    FETCHED.mkdir(parents=True, exist_ok=True)
    found = {}
    try:
        found.update(debian.unpack(names, FETCHED / "all", "the neighbours"))
    except fetching.Failure:
        # One that this system does not have costs the others nothing.
        for name in names:
            try:
                found.update(debian.unpack([name], FETCHED / name, name))
            except fetching.Failure as failure:
                found[f"{name} is missing"] = str(failure)
    for one in wheels:
        package = one.source.partition(":")[2]
        try:
            fetching.download_wheels([package], FETCHED / "wheels", one.name)
            for wheel in (FETCHED / "wheels").glob(f"{package.partition('==')[0].replace('-', '_')}-*.whl"):
                fetching.unpack(wheel, "", FETCHED / "wheel")
        except fetching.Failure as failure:
            found[f"{package} is missing"] = str(failure)
    complete = not any(name.endswith(" is missing") for name in found)
    VERSIONS.write_text(json.dumps({**found, "asked for": asked_for if complete else []}))


def versions():
    try:
        return json.loads(VERSIONS.read_text())
    except (OSError, ValueError):
        return {}


def find(neighbour):
    """The place of a neighbour; a Skipped says why there is none."""
    how, _, package = neighbour.source.partition(":")
    if how == "build":
        library = TARGET / "apps" / neighbour.file
        if not library.is_file():
            raise Failure(f"{library} is not there: scripts/build")
        return Place(library, "this commit")
    if how == "compiler":
        said = subprocess.run([c_compiler(), f"-print-file-name={neighbour.file}"], capture_output=True, text=True)
        library = Path(said.stdout.strip()).resolve()
        if not library.is_file():
            raise Skipped(f"the compiler {c_compiler()} has no {neighbour.file}")
        version = subprocess.run([c_compiler(), "-dumpfullversion"], capture_output=True, text=True)
        return Place(library, f"GCC {version.stdout.strip()}")
    missing = versions().get(f"{package} is missing")
    if missing:
        raise Skipped(missing)
    inside = "*" if how == "debian" else "wheel"
    library = next(FETCHED.glob(f"{inside}/{neighbour.file}"), None)
    if library is None:
        raise Skipped(f"{package} has no {neighbour.file}")
    return Place(library, package.partition("==")[2] if how == "wheel" else versions()[package])


def environment(neighbour, preloaded, **settings):
    found = guard.guarded(simulated=True, **settings)
    found["LD_PRELOAD"] = ":".join(map(str, preloaded))
    # For neighbours that are linked with the CUDA runtime.
    found["LD_LIBRARY_PATH"] += f":{TARGET / 'cuda' / 'lib'}"
    found.update(neighbour.variables)
    return found


def alone(neighbour, place):
    """What the neighbour writes to standard error beside a program without the guard; a Skipped if the program does not complete."""
    entry = guard.programs()[ALONE]
    command = guard.program_command(ALONE, KIND, entry)
    with checks.Scratch() as scratch:
        outcome = scratch.run(command, environment(neighbour, [place.library]), checks.COMPLETE_LIMIT_S)
    if not checks.completes(outcome._replace(stderr=""), entry):
        said = (outcome.stderr.strip().splitlines() or [""])[0]
        raise Skipped(f"without the guard, {ALONE} does not complete beside it: {checks.describe(outcome)} {said}".rstrip())
    return outcome.stderr


def in_order(place, order):
    return [guard.LIBRARY, place.library] if order == FIRST else [place.library, guard.LIBRARY]


def guarded(neighbour, place, order, name, stderr):
    """WORKS, UNSEEN, or what else a program does under the guard; None where it does the same with the guard and without."""
    entry = guard.programs()[name]
    command = guard.program_command(name, KIND, entry)
    unseen = neighbour.expected.get(order) == UNSEEN
    limit_s = UNSEEN_LIMIT_S if unseen and entry["hangs_bare"] else checks.COMPLETE_LIMIT_S
    with checks.Scratch() as scratch:
        outcome = scratch.run(command, environment(neighbour, in_order(place, order)), limit_s)
        left = scratch.left_behind() if outcome.code is not None else []
    if outcome.code is None and entry["hangs_bare"]:
        return UNSEEN
    if not checks.completes(outcome._replace(stderr=""), entry):
        return f"{name}: {checks.describe(outcome)}: {outcome.stderr.strip()[-300:]}"
    if outcome.stderr != stderr or left:
        return f"{name}: it says otherwise, or leaves files: {outcome.stderr.strip()[-300:]} {' '.join(left)}"
    return WORKS if entry["hangs_bare"] else None


def diagnosed(neighbour, place, order, name):
    """The same with preloading off, for a program that hangs then."""
    entry = guard.programs()[name]
    unseen = neighbour.expected.get(order) == UNSEEN
    with checks.Scratch() as scratch:
        folder = scratch.path / "run"
        settings = environment(neighbour, in_order(place, order), PRELOAD="off", HANG_AFTER=HANG_AFTER, OUT=str(folder))
        command = guard.program_command(name, KIND, entry)
        outcome = scratch.run(command, settings, UNSEEN_LIMIT_S if unseen else VERDICT_LIMIT_S, lambda: checks.is_final(folder))
        codes = checks.verdict_codes(folder)
    if outcome.code is not None:
        return f"{name}, preload off: {checks.describe(outcome)}, and it hangs without the guard: {outcome.stderr.strip()[-300:]}"
    if not codes:
        return UNSEEN
    if entry["expected_code"] not in codes or checks.VERDICT_LINE not in outcome.stderr:
        return f"{name}, preload off: {', '.join(codes)} where {entry['expected_code']} is right"
    return WORKS


def verdict(found):
    """One result of several, and what was wrong: a fault is one of the whole."""
    found = {one for one in found if one is not None}
    faults = sorted(found - {WORKS, UNSEEN})
    if faults:
        return FAILS, "; ".join(faults)
    # Where some programs are guarded and others are not, the result is neither.
    return " and ".join(sorted(found)) or "nothing was tried", ""


def try_one(neighbour, names):
    """The place of a neighbour, and its result in each order."""
    place = find(neighbour)
    stderr = alone(neighbour, place)
    listed = guard.programs()
    results = {}
    for order in (FIRST, LAST):
        found = [guarded(neighbour, place, order, name, stderr) for name in names]
        found += [diagnosed(neighbour, place, order, name) for name in names if listed[name]["hangs_bare"]]
        results[order] = verdict(found)
    return place, results


def kept_by_run():
    """Whether `lazyguard run` keeps the entries of LD_PRELOAD, behind the guard and in their order; what is wrong, or None."""
    first, second = (TARGET / "apps" / name for name in ("libroute_dlsym_interposer.so", "libroute_interposer.so"))
    wanted = f"{guard.LIBRARY.resolve()}:{first}:{second}"
    program = TARGET / "apps" / "route_dlsym_interposer"
    for given in (f"{first}:{second}", f"{first} {second}", f" {first}: {second} ", f"{first}:{guard.LIBRARY} {second}"):
        settings = {**guard.bare(simulated=True), "LD_PRELOAD": given}
        under = [guard.COMMAND, "run", "--library", guard.LIBRARY, "--", "sh", "-c", 'echo "$LD_PRELOAD"; exec "$0"', program]
        with checks.Scratch() as scratch:
            outcome = scratch.run(under, settings, checks.COMPLETE_LIMIT_S)
        if outcome.code != 0 or outcome.stdout != f"{wanted}\nroute ok 3\ninterposed launches: 2\n":
            return f"LD_PRELOAD={given!r}: exit {outcome.code}: {outcome.stdout!r} {outcome.stderr[-300:]!r}"
    return None


def with_a_still_clock():
    """Whether a program is kept from its hang in both orders where libfaketime stops the clock; what is wrong, or None."""
    neighbour = next(one for one in NEIGHBOURS if one.file.endswith("libfaketimeMT.so.1"))
    neighbour = neighbour._replace(variables={"FAKETIME": "2020-01-01 00:00:00"})
    place = find(neighbour)
    found = {order: guarded(neighbour, place, order, "lazy_pair", "") for order in (FIRST, LAST)}
    return next((f"{order}: {result}" for order, result in found.items() if result != WORKS), None)


def row(neighbour, place, results):
    return f"| {neighbour.name} | {place.version} | {results[FIRST][0]} | {results[LAST][0]} |"


def table(rows):
    return "\n".join([f"| neighbour | version | {FIRST} | {LAST} |", "|---|---|---|---|", *rows]) + "\n"


def on_the_page(text):
    """The results of the page, in both orders, by neighbour."""
    part = text.partition(BEGIN)[2].partition(END)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")]
    return {line[0]: {FIRST: line[2], LAST: line[3]} for line in cells if len(line) == 4 and line[0] != "neighbour"}


def write(rows):
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Failure(f"{PAGE} has no part for the table")
    PAGE.write_text(before + begin + table(rows) + end + after)


def main():
    parser = argparse.ArgumentParser(prog="check-neighbours", description="Check the guard beside other preloaded libraries.")
    parser.add_argument("--all", action="store_true", help="every program, instead of two")
    parser.add_argument("--write", action="store_true", help="write the results into docs/DOCTOR.md, from every program")
    parser.add_argument("neighbours", nargs="*", metavar="NAME", help="those whose names contain one of these; all")
    options = parser.parse_args()
    chosen = [one for one in NEIGHBOURS if not options.neighbours or any(part in one.name for part in options.neighbours)]
    if not chosen or options.write and len(chosen) < len(NEIGHBOURS):
        parser.error("no neighbour has such a name" if not chosen else "--write needs all neighbours")
    if not guard.LIBRARY.is_file():
        print(f"check-neighbours: {guard.LIBRARY} is not there: scripts/build", file=sys.stderr)
        return 2
    try:
        return check(chosen, PROGRAMS if options.all or options.write else FEW, options.write)
    except Failure as failure:
        print(f"check-neighbours: {failure}", file=sys.stderr)
        return 2


def check(chosen, names, writes):
    fetch()
    said = on_the_page(PAGE.read_text())
    passed, failed, rows = 0, 0, []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        tried = [(one, pool.submit(try_one, one, names)) for one in chosen]
        for neighbour, future in tried:
            try:
                place, results = future.result()
            except Skipped as why:
                print(f"skipped: {neighbour.name}: {why}", flush=True)
                continue
            rows.append(row(neighbour, place, results))
            for order, (result, details) in results.items():
                good = result == neighbour.expected.get(order, WORKS) and (writes or said.get(neighbour.name, {}).get(order) == result)
                passed, failed = passed + good, failed + (not good)
                wrong = "" if good else f"; the page says {said.get(neighbour.name, {}).get(order, 'nothing')}. {details}"
                print(f"{'ok' if good else 'FAILED'}: {neighbour.name} ({place.version}), {order}: {result}{wrong}", flush=True)
    for what, one in (("`lazyguard run` keeps what LD_PRELOAD has, behind the guard", kept_by_run),
                      ("lazy_pair completes under the guard while libfaketime's clock stands still", with_a_still_clock)):
        try:
            wrong = one()
        except Skipped as why:
            print(f"skipped: {what}: {why}")
            continue
        print(f"{'FAILED' if wrong else 'ok'}: {what}{': ' + wrong if wrong else ''}")
        passed, failed = passed + (not wrong), failed + bool(wrong)
    if writes and not failed and len(rows) == len(chosen):
        write(rows)
    elif writes:
        print("check-neighbours: the page stays as it is: not every neighbour was tried with the expected result", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
