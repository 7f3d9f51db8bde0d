"""The whole test suite behind scripts/test: every step runs, whatever an earlier one gave.

Only a build that fails ends it early, because nothing after it would mean anything. What the tests need from the network is fetched beside it. The last line
is `N passed, N failed`, summed over everything; a step that counts nothing itself (format, lints,
documentation) counts as one. For every failing step the command that reruns it is printed.

The steps stand in two lanes that run beside each other: one mostly waits for programs that hang,
the other computes, and gives way to the first, whose tests have limits on time. At its end each lane
takes of what is left, steps that wait too and give way to nothing, until nothing is left.

`quick` runs the steps that a change needs first, with the everyday build.

What failed while the machine stood still (standstills.py) is made again, alone, and the suite says so:
a single test where that can be told, else the step.

Must not: hang (each step has a time limit and is killed with everything it started), count a step
as passed that printed no summary, or repeat what failed while the machine got on.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections import deque, namedtuple
from concurrent.futures import ThreadPoolExecutor

import nextest
import processes
import rust_build
import standstills
from tools import ROOT, TARGET

# counter: reads (passed, failed) off the step's output; None for a step that is one test as a whole.
# lacks: says what the machine lacks for the step, "" when nothing.
# disturbed: of the step, a watch and the moment of its begin, the Repeat of what failed while the machine stood still, or None.
Step = namedtuple("Step", "title command counter limit_s environment lacks disturbed")
# step: what to run; what: what it runs again, for a person; instead: whether it stands for the whole first result.
Repeat = namedtuple("Repeat", "step what instead")
Result = namedtuple("Result", "passed failed")
JOBS = ["-j", "2"]
MOST_REPEATS = 2


def step(title, command, counter=None, limit_s=300, environment=None, lacks=lambda: "", disturbed=None):
    return Step(title, command, counter, limit_s, environment or {}, lacks, disturbed or disturbed_as_a_whole)


def disturbed_as_a_whole(one, watch, since):
    return Repeat(one, "the step", True) if watch.lost(since, time.time()) else None


def answers(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    except OSError:
        return False


def component(name):
    def lacks():
        return "" if answers("cargo", name, "--version") else f"cargo {name} is missing: rustup component add {name if name != 'fmt' else 'rustfmt'}"
    return lacks


def file_there(path):
    return lambda: "" if path.is_file() else f"{path.relative_to(ROOT)} is not there"


def count_last_line(output):
    """Our own programs end with `N passed, N failed`."""
    found = re.findall(r"^(\d+) passed, (\d+) failed", output, re.M)
    return Result(int(found[-1][0]), int(found[-1][1])) if found else None


def count_nextest(output):
    numbers = nextest.summary(output)
    return numbers and Result(*numbers)


def count_cargo_test(output):
    found = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed", output, re.M)
    return Result(sum(int(a) for a, _ in found), sum(int(b) for _, b in found)) if found else None


def count_unittest(output):
    ran = re.search(r"^Ran (\d+) tests? in", output, re.M)
    if not ran:
        return None
    bad = sum(int(number) for number in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", output))
    return Result(int(ran.group(1)) - bad, bad)


def rust_tests(title, nextest_filter, cargo_test_arguments, limit_s, threads, environment=None, packages=("--workspace",), profile="default"):
    if answers("cargo", "nextest", "--version"):
        def disturbed(one, watch, since):
            tests = [test for test in nextest.failed(profile, since) if watch.lost(test.begin, test.end)]
            alone = nextest.command(profile, packages, nextest.exactly(tests), 1)
            return Repeat(one._replace(command=alone), ", ".join(test.name for test in tests), False) if tests else None

        command = nextest.command(profile, packages, nextest_filter, threads)
        return step(title, command, count_nextest, limit_s, environment, disturbed=disturbed)
    # Named kinds of target, so that documentation examples are left to their own step.
    command = ["cargo", "test", *JOBS, "--no-fail-fast", "--quiet", "--lib", "--bins", "--tests", *cargo_test_arguments]
    return step(title, command, count_cargo_test, limit_s, environment)


def formatted():
    return step("format", ["cargo", "fmt", "--all", "--check", "--", "-l", "--color", "never"], lacks=component("fmt"))


def fetches():
    """The steps beside the build, which wait for the network: what the tests need, whose failure they would repeat."""
    return [
        step("the schemas that files are checked by", [str(ROOT / "scripts" / "fetch-schemas")]),
        step("CUDA runtimes of several versions", [str(ROOT / "scripts" / "fetch-cuda-versions")]),
    ]


def alone():
    """The step before both lanes, which tells calls that block by the time they take."""
    conformance = TARGET / "simdriver" / "conformance"
    return [
        step("the simulated driver's conformance", [str(conformance), "--beside"], count_last_line,
             environment={"LD_LIBRARY_PATH": str(TARGET / "simdriver")}, lacks=file_there(conformance)),
    ]


def lanes():
    """The two lanes, steps that wait and steps that compute; and the steps that either takes at its end, those that take longest first."""
    scripts = ROOT / "scripts"
    simulated_programs = "lazy_pair,lazy_pair_single_kernel"
    atlas = ROOT / "testapps" / "simdriver" / "ground-truth" / "atlas-580.159.04.tsv"
    # Of all steps that use the tests' build: without it, they would make another.
    shared = rust_build.of_the_tests()
    waiting = [
        # Most of them wait most of the time: two processors are not busy with eight.
        rust_tests("end to end", "package(lazyguard-e2e) | binary_id(lazyguard-oracle::programs)", ["-p", "lazyguard-e2e", "-p", "lazyguard-oracle"], 1000, 8, shared),
    ]
    computing = [
        step("the library as a file", [str(scripts / "check-library")], count_last_line),
        step("licences and bans of the dependencies", [str(scripts / "check-dependencies")], count_last_line),
        step("the scripts' own tests", [sys.executable, "-m", "unittest", "discover", "-s", str(scripts / "tests")], count_unittest),
        formatted(),
        rust_tests("unit tests", "not (package(lazyguard-e2e) | binary_id(lazyguard-oracle::programs))",
                   ["--workspace", "--exclude", "lazyguard-e2e", "--exclude", "lazyguard-oracle"], 720, 2, shared, profile="units"),
        step("aarch64, a few programs under an emulator", [str(scripts / "aarch64")], count_last_line, 600, shared),
        step("documentation examples", ["cargo", "test", *JOBS, "--quiet", "--workspace", "--doc"], count_cargo_test_or_none, environment=shared),
        # What rustc-with-lints found while the tests were built. A warning is a failure.
        step("lints and documentation", ["cargo", "test", "--no-run", *JOBS, "--quiet", "--workspace"], environment=shared, lacks=component("clippy")),
    ]
    at_the_end = [
        step("the commands in the documentation", [sys.executable, str(scripts / "lib" / "doc_commands.py")], count_last_line, 180),
        step("beside other preloaded libraries", [str(scripts / "check-neighbours")], count_last_line, 300),
        # It packs what the build has made.
        step("the packages, installed and used", [str(scripts / "check-packages")], count_last_line),
        step("the simulated driver against the atlas of a card", [str(scripts / "gpu-atlas"), "--simulated", "--compare", str(atlas)],
             count_last_line),
        step("gpu-check, tried on the simulated driver", [str(scripts / "gpu-check"), "--simulated", "--programs", simulated_programs],
             count_last_line),
        step("everything at once, for seconds", [str(scripts / "soak"), "--seconds", "5", "--side-by-side"], count_last_line),
        step("the recipes for clusters and CI systems", [str(scripts / "check-recipes")], count_last_line),
    ]
    return waiting, computing, at_the_end


def on_request():
    """Steps that take too long for every run."""
    scripts = ROOT / "scripts"
    return [
        step("the recording's algorithm under loom", [str(scripts / "loom")], count_cargo_test_or_none, 900),
        step("the reader fuzzed for a minute", [str(scripts / "fuzz"), "60"], limit_s=600),
        step("everything at once, for ten minutes", [str(scripts / "soak")], count_last_line, 1500),
        step("the library and the command as they ship", [str(scripts / "build"), "--release"], limit_s=900),
        rust_tests("end to end, as they ship", "package(lazyguard-e2e)", ["-p", "lazyguard-e2e"], 720, 6, {"GUARD_BUILD": "release", **rust_build.of_the_tests()}),
        # Its comments are for who changes it: the command has no interface in Rust.
        step("documentation of the command", ["cargo", "doc", *JOBS, "--quiet", "-p", "lazyguard-cli", "--no-deps", "--document-private-items"],
             environment={"RUSTDOCFLAGS": "-D warnings"}),
        step("the packages, as they ship", [str(scripts / "dist")], limit_s=900),
        step("the packages that ship, installed and used", [str(scripts / "check-packages")], count_last_line, environment={"GUARD_BUILD": "release"}),
        step("the packages built again, the same bytes", [str(scripts / "check-reproducible")], count_last_line, 1800),
        step("aarch64, everything under an emulator", [str(scripts / "aarch64"), "--all"], count_last_line, 3600, rust_build.of_the_tests()),
        step("pages of reports in a browser", [str(scripts / "check-page")], count_last_line, 300),
        step("beside other preloaded libraries, every program", [str(scripts / "check-neighbours"), "--all"], count_last_line, 600),
        step("bench, tried on the simulated driver", [str(scripts / "bench"), "--quick"], environment={"GUARD_BUILD": "release"}),
    ]


def quick():
    """Takes under a minute once everything is built, and finds most faults."""
    return [
        formatted(),
        step("check", ["cargo", "check", *JOBS, "--quiet", "--workspace", "--all-targets"]),
        rust_tests("core's unit tests", "package(lazyguard-core) & kind(lib)", ["-p", "lazyguard-core", "--lib"], 300, 2, packages=["-p", "lazyguard-core", "--lib"]),
        rust_tests("lazy_pair, end to end", "test(/::lazy_pair::/)", ["-p", "lazyguard-e2e", "::lazy_pair::"], 120, 4,
                   packages=["-p", "lazyguard-e2e", "--test", "programs"]),
    ]


def as_a_whole(code, output):
    """A step that counts nothing is one test. Cargo's own warnings change no exit status, and are faults here."""
    good = code == 0 and not re.search(r"^warning", output, re.M)
    return Result(int(good), int(not good))


def count_cargo_test_or_none(output):
    """A workspace without documentation examples has nothing to count and nothing that failed."""
    return count_cargo_test(output) or Result(0, 0)


def run(one):
    """The step's result and its output; a step that cannot be tried has failed."""
    lack = one.lacks()
    if lack:
        return Result(0, 1), lack + "\n"
    environment = dict(os.environ, CARGO_TERM_COLOR="never", **one.environment)
    outcome = processes.run(one.command, environment, one.limit_s, ROOT)
    output = outcome.stdout + outcome.stderr
    if outcome.code is None:
        return Result(0, 1), output + f"stopped after {one.limit_s} s\n"
    counted = one.counter(output) if one.counter else as_a_whole(outcome.code, output)
    if counted is None:
        return Result(0, 1), output + "no summary was printed\n"
    if outcome.code != 0 and counted.failed == 0:
        return Result(counted.passed, 1), output + f"exit status {outcome.code}\n"
    return counted, output


def run_undisturbed(one, watch):
    """As run(); what failed while the machine stood still is made again. The output has all attempts."""
    since = time.time()
    result, output = run(one)
    for _ in range(MOST_REPEATS):
        repeat = one.disturbed(one, watch, since) if result.failed else None
        if repeat is None:
            break
        since = time.time()
        again, more = run(repeat.step)
        said = f"The machine stood still. Made again: {repeat.what}: {again.passed} passed, {again.failed} failed"
        output += f"{said}\n{more}"
        print(f"test: {one.title}: {said}", flush=True)
        result = again if repeat.instead else Result(result.passed + again.passed, result.failed - again.passed)
    return result, output


def rerun(one):
    settings = [f"{name}='{value}'" for name, value in {"GUARD_BUILD": os.environ.get("GUARD_BUILD", "debug"), **one.environment}.items()]
    return " ".join([*settings, quote_all(one.command)])


def quote_all(command):
    return " ".join(quote(str(part).replace(str(ROOT) + "/", "")) for part in command)


def quote(word):
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word + "'"


class Report:
    """The results of the steps; the lanes add to it concurrently."""

    def __init__(self):
        self.results, self.lock = [], threading.Lock()

    def add(self, one, result, output, seconds):
        with self.lock:
            self.results.append((one, result))
            print(f"test: {one.title}: {result.passed} passed, {result.failed} failed ({seconds:.1f} s)", flush=True)
            if result.failed:
                print(output, flush=True)

    def close(self, begin, watch):
        for one, result in self.results:
            if result.failed:
                print(f"FAILED: {one.title}; rerun: {rerun(one)}")
        passed, failed = (sum(result[at] for _, result in self.results) for at in (0, 1))
        print(", ".join(filter(None, [f"test: {time.monotonic() - begin:.0f} s in all", watch.summary()])))
        print(f"{passed} passed, {failed} failed")
        return 1 if failed else 0


def run_lane(lane, report, watch, gives_way=False):
    for one in lane:
        started = time.monotonic()
        nicely = ["nice", "-n", "19"] if gives_way else []
        result, output = run_undisturbed(one._replace(command=[*nicely, *one.command]), watch)
        report.add(one, result, output, time.monotonic() - started)


def run_beside(waiting, computing, at_the_end, report, watch):
    """Runs both lanes to their ends, and what is left in the one that gets there first. An exception in a lane is one of the suite."""
    left = deque(at_the_end)

    def taken():
        while True:
            try:
                yield left.popleft()
            except IndexError:
                return

    def lane(steps, gives_way):
        run_lane(steps, report, watch, gives_way)
        run_lane(taken(), report, watch)

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(lane, waiting, False), pool.submit(lane, computing, True)]:
            one.result()


def built(build, beside, report, watch):
    """Whether the build succeeds; runs the steps beside it to their ends."""
    with ThreadPoolExecutor(1) as pool:
        steps = pool.submit(run_lane, beside, report, watch)
        good = subprocess.run(build, cwd=ROOT).returncode == 0
        steps.result()
    return good


def main():
    begin = time.monotonic()
    is_quick = sys.argv[1:] == ["quick"]
    if sys.argv[1:] and not is_quick:
        print("usage: scripts/test [quick]", file=sys.stderr)
        return 2
    build = [sys.executable, str(ROOT / "scripts" / "lib" / "demo_build.py")] if is_quick else [str(ROOT / "scripts" / "build"), "--native", "--tested"]
    report = Report()
    TARGET.mkdir(exist_ok=True)
    with standstills.Watch(TARGET) as watch:
        if not built(build, [] if is_quick else fetches(), report, watch):
            print(f"FAILED: build; rerun: {quote_all(build)}\n0 passed, 1 failed")
            return 1
        os.environ["GUARD_BUILD"] = "debug" if is_quick else "tested"
        if is_quick:
            run_lane(quick(), report, watch)
        else:
            run_lane(alone(), report, watch)
            run_beside(*lanes(), report, watch)
            if os.environ.get("LAZYGUARD_TEST_LONG"):
                run_lane(on_request(), report, watch)
    return report.close(begin, watch)


if __name__ == "__main__":
    sys.exit(main())
