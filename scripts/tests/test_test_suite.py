"""Tests of scripts/test: how it counts, its lanes, and what it makes again where the machine stood still."""

import contextlib
import io
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import nextest  # noqa: E402
import standstills  # noqa: E402
import test_suite  # noqa: E402
from standstills import Standstill  # noqa: E402


class TheMachine:
    """In place of a watch: it has lost that many seconds whenever it is asked."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def lost(self, _begin, _end):
        return self.seconds

    def summary(self):
        return ""


class CountingTests(unittest.TestCase):
    def test_each_summary_is_read(self):
        nextest = "     Summary [   1.234s] 12 tests run: 9 passed (1 slow), 2 failed, 1 timed out, 3 skipped\n"
        self.assertEqual(test_suite.count_nextest(nextest), (9, 3))
        cargo = "test result: ok. 3 passed; 0 failed; 0 ignored\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n"
        self.assertEqual(test_suite.count_cargo_test(cargo), (4, 2))
        self.assertEqual(test_suite.count_unittest("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n"), (3, 2))
        self.assertEqual(test_suite.count_last_line("x\n3 passed, 1 failed (2 figures)\n"), (3, 1))

    def test_a_step_without_a_summary_or_with_an_exit_code_is_no_success(self):
        silent = test_suite.step("x", ["true"], test_suite.count_last_line)
        self.assertEqual(test_suite.run(silent)[0].failed, 1)
        lying = test_suite.step("x", ["bash", "-c", "echo 3 passed, 0 failed; exit 1"], test_suite.count_last_line)
        self.assertEqual(test_suite.run(lying)[0], (3, 1))
        self.assertEqual(test_suite.run(test_suite.step("x", ["true"]))[0], (1, 0))
        self.assertEqual(test_suite.run(test_suite.step("x", ["false"]))[0], (0, 1))
        self.assertEqual(test_suite.run(test_suite.step("x", ["echo", "warning: output filename collision"]))[0], (0, 1))
        slow = test_suite.step("x", ["sleep", "60"], limit_s=0.2)
        self.assertEqual(test_suite.run(slow)[0].failed, 1)
        lacking = test_suite.step("x", ["true"], lacks=lambda: "no such tool")
        self.assertEqual(test_suite.run(lacking), ((0, 1), "no such tool\n"))


def meeting(folder, own, other, then="true"):
    """A command that waits for another one to begin."""
    return ["bash", "-c", f"touch {folder}/{own}; until [ -e {folder}/{other} ]; do sleep 0.01; done; {then}"]


class TheLanes(unittest.TestCase):
    def summary(self, waiting, computing, at_the_end=()):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            report = test_suite.Report()
            watch = TheMachine()
            test_suite.run_beside(waiting, computing, at_the_end, report, watch)
            code = report.close(time.monotonic(), watch)
        return code, said.getvalue().splitlines()

    def test_both_run_to_their_ends_beside_each_other_and_are_summed(self):
        fails_if_nice = test_suite.step("d", ["bash", "-c", f"test $(nice) = {os.nice(0)}"])
        with tempfile.TemporaryDirectory() as folder:
            counted = test_suite.step("b", meeting(folder, "b", "a", "echo 3 passed, 1 failed; exit 1"), test_suite.count_last_line)
            code, lines = self.summary([test_suite.step("a", meeting(folder, "a", "b"))], [counted, test_suite.step("c", ["true"])], [fails_if_nice])
        self.assertEqual((code, lines[-1]), (1, "6 passed, 1 failed"))
        self.assertTrue(any(line.startswith("FAILED: b; rerun: GUARD_BUILD=") and "nice" not in line for line in lines), lines)

    def test_either_lane_takes_what_is_left_at_its_end_and_does_not_give_way_then(self):
        for longest in "ab":
            with tempfile.TemporaryDirectory() as folder:
                # It outlasts the report of the others.
                long = ["bash", "-c", f"until [ -e {folder}/d ]; do sleep 0.01; done; sleep 1"]
                waiting, computing = (test_suite.step(name, long if name == longest else ["true"]) for name in "ab")
                left = [test_suite.step(name, ["bash", "-c", f"touch {folder}/{name}; test $(nice) = {os.nice(0)}"]) for name in "cd"]
                code, lines = self.summary([waiting], [computing], left)
            self.assertEqual((code, lines[-1], len(lines)), (0, "4 passed, 0 failed", 6), lines)
            # Once each, while the other lane still runs.
            self.assertEqual([line[6] for line in lines[1:4]], ["c", "d", longest], lines)

    def test_a_fault_in_a_lane_is_not_lost(self):
        with mock.patch.object(test_suite, "run", side_effect=OSError), self.assertRaises(OSError):
            self.summary([test_suite.step("a", ["true"])], [])


class TheBuild(unittest.TestCase):
    def test_the_steps_beside_it_end_and_are_reported_whether_it_succeeds(self):
        for status in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                report = test_suite.Report()
                build, step = meeting(folder, "build", "step", f"exit {status}"), meeting(folder, "step", "build", "exit 1")
                with contextlib.redirect_stdout(io.StringIO()):
                    good = test_suite.built(build, [test_suite.step("a", step, limit_s=60)], report, TheMachine())
            self.assertEqual((good, [result for _, result in report.results]), (status == 0, [(0, 1)]))


class Standstills(unittest.TestCase):
    def test_the_processor_that_lost_most_counts_and_only_within_the_span(self):
        found = [Standstill(0, 10.0, 11.0), Standstill(0, 20.0, 21.0), Standstill(1, 10.5, 12.0)]
        self.assertEqual(standstills.lost(found, 0.0, 30.0), 2.0)
        self.assertEqual(standstills.lost(found, 11.0, 20.25), 1.0)
        self.assertEqual(standstills.lost(found, 12.0, 20.0), 0.0)
        self.assertEqual(standstills.lost([], 0.0, 30.0), 0.0)

    def test_a_watch_that_could_not_run_has_lost_time_and_ends(self):
        with tempfile.TemporaryDirectory() as folder, standstills.Watch(folder) as watch:
            begin, deadline = time.time(), time.monotonic() + 20
            # It may not watch yet when it is stopped for the first time.
            while watch.lost(begin, time.time()) < 0.4 and time.monotonic() < deadline:
                time.sleep(0.5)
                watch.processes[0].send_signal(signal.SIGSTOP)
                time.sleep(0.6)
                watch.processes[0].send_signal(signal.SIGCONT)
            self.assertGreaterEqual(watch.lost(begin, time.time()), 0.4)
            self.assertIn("stood still", watch.summary())
        self.assertTrue(all(process.poll() is not None for process in watch.processes))


class WhatIsMadeAgain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def second_time_lucky(self):
        """A step that counts its runs and passes in the second."""
        runs = self.folder / "runs"
        script = f"echo >> {runs}; test $(wc -l < {runs}) = 2 && echo 3 passed, 0 failed || {{ echo 2 passed, 1 failed; exit 1; }}"
        return test_suite.step("x", ["bash", "-c", script], test_suite.count_last_line), runs

    def test_a_step_that_failed_while_the_machine_stood_still(self):
        one, runs = self.second_time_lucky()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            result, output = test_suite.run_undisturbed(one, TheMachine(0.3))
        self.assertEqual((result, runs.read_text().count("\n")), ((3, 0), 2))
        self.assertIn("2 passed, 1 failed", output)
        self.assertIn("The machine stood still. Made again: the step: 3 passed, 0 failed", said.getvalue())

    def test_no_step_that_failed_while_the_machine_got_on_or_that_passed(self):
        one, runs = self.second_time_lucky()
        self.assertEqual(test_suite.run_undisturbed(one, TheMachine())[0], (2, 1))
        self.assertEqual(runs.read_text().count("\n"), 1)
        self.assertEqual(test_suite.run_undisturbed(one, TheMachine(9.0))[0], (3, 0))
        self.assertEqual(runs.read_text().count("\n"), 2)

    def test_a_step_that_never_passes_fails_in_the_end(self):
        with contextlib.redirect_stdout(io.StringIO()):
            result, output = test_suite.run_undisturbed(test_suite.step("x", ["false"]), TheMachine(1.0))
        self.assertEqual((result, output.count("Made again")), ((0, 1), test_suite.MOST_REPEATS))

    REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" timestamp="2026-01-02T03:04:05.000+00:00" time="9">
  <testsuite name="a::suite" tests="3">
    <testcase name="m::good" timestamp="2026-01-02T03:04:06.000+00:00" time="1.500"></testcase>
    <testcase name="m::bad" timestamp="2026-01-02T03:04:08.000+00:00" time="2.500"><failure type="test failure with exit code 101"/></testcase>
    <testcase name="m::worse" timestamp="2026-01-02T03:04:20.000+00:00" time="1.000"><failure type="test timeout"/></testcase>
  </testsuite>
</testsuites>"""
    BEGIN = 1767323045.0

    def report(self, text):
        (self.folder / "nextest" / "p").mkdir(parents=True, exist_ok=True)
        (self.folder / "nextest" / "p" / "junit.xml").write_text(text)
        return mock.patch.object(nextest, "TARGET", self.folder)

    def test_the_failed_tests_of_this_run_are_read_with_their_times(self):
        with self.report(self.REPORT):
            failed = nextest.failed("p", self.BEGIN - 1)
            self.assertEqual([(test.name, test.begin - self.BEGIN, test.end - self.BEGIN) for test in failed],
                             [("m::bad", 3.0, 5.5), ("m::worse", 15.0, 16.0)])
            # The file of an earlier run, or of none.
            self.assertEqual(nextest.failed("p", self.BEGIN + 1), [])
            self.assertEqual(nextest.failed("q", 0), [])
        with self.report(self.REPORT[:300]):
            self.assertEqual(nextest.failed("p", 0), [])

    def test_of_the_tests_only_those_that_ran_then(self):
        with mock.patch.object(test_suite, "answers", return_value=True):
            one = test_suite.rust_tests("x", "all()", [], 9, 6, profile="p")
        watch = TheMachine()
        watch.lost = lambda begin, end: standstills.lost([Standstill(0, self.BEGIN + 4, self.BEGIN + 5)], begin, end)
        with self.report(self.REPORT):
            repeat = one.disturbed(one, watch, self.BEGIN - 1)
            self.assertEqual((repeat.what, repeat.instead), ("m::bad", False))
            self.assertEqual(repeat.step.command[-3:], ["1", "-E", "(binary_id(=a::suite) & test(=m::bad))"])
            self.assertIsNone(one.disturbed(one, TheMachine(), self.BEGIN - 1))

    def test_tests_that_pass_alone_are_moved_from_the_failed_to_the_passed(self):
        outcomes = iter([((5, 2), "first"), ((1, 0), "second"), ((9, 9), "never")])
        repeats = iter([True, False])
        one = test_suite.step("x", ["true"])
        one = one._replace(disturbed=lambda *_: test_suite.Repeat(one, "m::bad", False) if next(repeats) else None)
        with mock.patch.object(test_suite, "run", side_effect=lambda _: (lambda r: (test_suite.Result(*r[0]), r[1]))(next(outcomes))), \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(test_suite.run_undisturbed(one, TheMachine(1.0))[0], (6, 1))


if __name__ == "__main__":
    unittest.main()
