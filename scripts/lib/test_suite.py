"""The whole test suite behind scripts/test: every step runs, whatever an earlier one gave.

Only a build that fails ends it early, because nothing after it would mean anything. The last line
is `N passed, N failed`, summed over everything; a step that counts nothing itself (format, lints,
documentation) counts as one. For every failing step the command that reruns it is printed.

The steps stand in two lanes that run beside each other: one mostly waits for programs that hang,
the other computes, and gives way to the first, whose tests have limits on time. At the end of its
lane the second runs steps that wait too, and those give way to nothing.

`quick` runs the steps that a change needs first, with the everyday build.

Must not: hang (each step has a time limit and is killed with everything it started), or count a
step as passed that printed no summary.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import processes
from tools import ROOT, TARGET

# counter: reads (passed, failed) off the step's output; None for a step that is one test as a whole.
# lacks: says what the machine lacks for the step, "" when nothing.
Step = namedtuple("Step", "title command counter limit_s environment lacks")
Result = namedtuple("Result", "passed failed")
LINT_FLAGS = ["--", "-D", "warnings"]
JOBS = ["-j", "2"]


def step(title, command, counter=None, limit_s=300, environment=None, lacks=lambda: ""):
    return Step(title, command, counter, limit_s, environment or {}, lacks)


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
    """`Summary [ 1.2s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 3 skipped`"""
    summary = re.search(r"Summary \[.*?\] +\d+(?:/\d+)? tests? run: (.*)", output)
    if not summary:
        return None
    numbers = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|timed out|exec failed)", summary.group(1))}
    return Result(numbers.get("passed", 0), sum(number for word, number in numbers.items() if word != "passed"))


def count_cargo_test(output):
    found = re.findall(r"^test result: .*? (\d+) passed; (\d+) failed", output, re.M)
    return Result(sum(int(a) for a, _ in found), sum(int(b) for _, b in found)) if found else None


def count_unittest(output):
    ran = re.search(r"^Ran (\d+) tests? in", output, re.M)
    if not ran:
        return None
    bad = sum(int(number) for number in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", output))
    return Result(int(ran.group(1)) - bad, bad)


def rust_tests(title, nextest_filter, cargo_test_arguments, limit_s, threads, environment=None, packages=("--workspace",)):
    if answers("cargo", "nextest", "--version"):
        command = ["cargo", "nextest", "run", *packages, "--build-jobs", "2", "--no-fail-fast", "--cargo-quiet", "--status-level", "fail",
                   "--final-status-level", "slow", "--test-threads", str(threads), "-E", nextest_filter]
        return step(title, command, count_nextest, limit_s, environment)
    # Named kinds of target, so that documentation examples are left to their own step.
    command = ["cargo", "test", *JOBS, "--no-fail-fast", "--quiet", "--lib", "--bins", "--tests", *cargo_test_arguments]
    return step(title, command, count_cargo_test, limit_s, environment)


def formatted():
    return step("format", ["cargo", "fmt", "--all", "--check", "--", "-l", "--color", "never"], lacks=component("fmt"))


def alone():
    """The steps before both lanes: a fetch, whose failure the tests would repeat, and one that tells calls that block by the time they take."""
    conformance = TARGET / "simdriver" / "conformance"
    return [
        step("the schemas of JUnit and SARIF", [str(ROOT / "scripts" / "fetch-schemas")]),
        step("the simulated driver's conformance", [str(conformance)], count_last_line,
             environment={"LD_LIBRARY_PATH": str(TARGET / "simdriver")}, lacks=file_there(conformance)),
    ]


def lanes():
    """The two lanes: steps that wait; steps that compute, and those that follow them there."""
    scripts = ROOT / "scripts"
    simulated_programs = "lazy_pair,lazy_pair_single_kernel"
    atlas = ROOT / "testapps" / "simdriver" / "ground-truth" / "atlas-580.159.04.tsv"
    waiting = [
        # Most of them wait most of the time: two processors are not busy with six.
        rust_tests("end to end", "package(lazyguard-e2e)", ["-p", "lazyguard-e2e"], 720, 6),
        step("everything at once, for seconds", [str(scripts / "soak"), "--seconds", "5", "--side-by-side"], count_last_line),
    ]
    computing = [
        step("the library as a file", [str(scripts / "check-library")], count_last_line),
        step("the scripts' own tests", [sys.executable, "-m", "unittest", "discover", "-s", str(scripts / "tests")], count_unittest),
        formatted(),
        rust_tests("unit tests", "not package(lazyguard-e2e)", ["--workspace", "--exclude", "lazyguard-e2e"], 480, 2),
        step("documentation examples", ["cargo", "test", *JOBS, "--quiet", "--workspace", "--doc"], count_cargo_test_or_none),
        step("lints", ["cargo", "clippy", *JOBS, "--quiet", "--workspace", "--all-targets", *LINT_FLAGS], lacks=component("clippy")),
        step("documentation", ["cargo", "doc", *JOBS, "--quiet", "--workspace", "--no-deps", "--document-private-items"], environment={"RUSTDOCFLAGS": "-D warnings"}),
    ]
    waiting_after_computing = [
        step("the simulated driver against the atlas of a card", [str(scripts / "gpu-atlas"), "--simulated", "--compare", str(atlas)],
             count_last_line),
        step("gpu-check, tried on the simulated driver", [str(scripts / "gpu-check"), "--simulated", "--programs", simulated_programs],
             count_last_line),
        step("the commands in the documentation", [sys.executable, str(scripts / "lib" / "doc_commands.py")], count_last_line, 180),
    ]
    return waiting, computing, waiting_after_computing


def on_request():
    """Steps that take too long for every run."""
    scripts = ROOT / "scripts"
    return [
        step("the recording's algorithm under loom", [str(scripts / "loom")], count_cargo_test_or_none, 900),
        step("the reader fuzzed for a minute", [str(scripts / "fuzz"), "60"], limit_s=600),
        step("everything at once, for ten minutes", [str(scripts / "soak")], count_last_line, 1500),
        step("the library and the command as they ship", [str(scripts / "build"), "--release"], limit_s=900),
        rust_tests("end to end, as they ship", "package(lazyguard-e2e)", ["-p", "lazyguard-e2e"], 720, 6, {"GUARD_BUILD": "release"}),
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

    def close(self, begin):
        for one, result in self.results:
            if result.failed:
                print(f"FAILED: {one.title}; rerun: {rerun(one)}")
        passed, failed = (sum(result[at] for _, result in self.results) for at in (0, 1))
        print(f"test: {time.monotonic() - begin:.0f} s in all")
        print(f"{passed} passed, {failed} failed")
        return 1 if failed else 0


def run_lane(lane, report, gives_way=False):
    for one in lane:
        started = time.monotonic()
        nicely = ["nice", "-n", "19"] if gives_way else []
        result, output = run(one._replace(command=[*nicely, *one.command]))
        report.add(one, result, output, time.monotonic() - started)


def run_beside(waiting, computing, waiting_after_computing, report):
    """Runs both lanes to their ends. An exception in a lane is one of the suite."""
    def second():
        run_lane(computing, report, gives_way=True)
        run_lane(waiting_after_computing, report)

    with ThreadPoolExecutor(2) as pool:
        for lane in [pool.submit(run_lane, waiting, report), pool.submit(second)]:
            lane.result()


def main():
    begin = time.monotonic()
    is_quick = sys.argv[1:] == ["quick"]
    if sys.argv[1:] and not is_quick:
        print("usage: scripts/test [quick]", file=sys.stderr)
        return 2
    build = [sys.executable, str(ROOT / "scripts" / "lib" / "demo_build.py")] if is_quick else [str(ROOT / "scripts" / "build"), "--native", "--tested"]
    if subprocess.run(build, cwd=ROOT).returncode != 0:
        print(f"FAILED: build; rerun: {quote_all(build)}\n0 passed, 1 failed")
        return 1
    os.environ["GUARD_BUILD"] = "debug" if is_quick else "tested"
    report = Report()
    if is_quick:
        run_lane(quick(), report)
    else:
        run_lane(alone(), report)
        run_beside(*lanes(), report)
        if os.environ.get("LAZYGUARD_TEST_LONG"):
            run_lane(on_request(), report)
    return report.close(begin)


if __name__ == "__main__":
    sys.exit(main())
