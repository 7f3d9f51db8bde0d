"""Tests of scripts/bench's own logic: arithmetic, workers that are played, verdicts, tables, and the page of results."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import bench_cupti  # noqa: E402
import bench_plan  # noqa: E402
import bench_report  # noqa: E402
import bench_stats  # noqa: E402
import bench_workers  # noqa: E402
from bench_workers import Loop, Lost, Mode  # noqa: E402


def launch_loop(threads=1, command=("true",), launches=10, settled=True):
    return Loop("1-1-1", "one", "launch", list(command), launches, threads, settled)


def silent(_stderr, _launches):
    return ""


class Statistics(unittest.TestCase):
    def test_percentiles_lie_between_the_closest_ranks(self):
        self.assertEqual(bench_stats.percentile([3, 1, 2], 50), 2)
        self.assertEqual(bench_stats.percentile([1, 2], 50), 1.5)
        self.assertEqual(bench_stats.percentile([1, 2, 3, 4, 5], 5), 1.2)
        self.assertEqual([bench_stats.percentile([7], percent) for percent in (0, 5, 100)], [7, 7, 7])
        with self.assertRaises(ValueError):
            bench_stats.percentile([], 50)

    def test_a_drift_of_the_machine_cancels_and_a_difference_stays(self):
        source = random.Random(1)
        base = [[1000 + 100 * generation + 50 * number + source.random() for number in range(20)] for generation in range(4)]
        other = [[value + 30 + source.random() for value in rounds] for rounds in base]
        found = bench_stats.compare(base, other)
        self.assertAlmostEqual(found.added, 30.5, delta=0.5)
        self.assertLess(found.low, found.added)
        self.assertGreater(found.high, found.added)
        self.assertLess(found.high - found.low, 1)
        self.assertAlmostEqual(found.undisturbed, 30.5, delta=0.6)
        self.assertEqual((found.rounds, found.generations), (80, 4))

    def test_interrupted_batches_move_neither_the_median_nor_the_undisturbed_figure(self):
        base = [[100.0] * 20]
        other = [[130.0] * 15 + [9000.0] * 5]
        found = bench_stats.compare(base, other)
        self.assertEqual((found.added, found.undisturbed, found.ratio), (30.0, 30.0, 1.3))

    def test_what_differs_from_process_to_process_makes_the_interval_wide(self):
        base = [[100.0] * 50 for _ in range(6)]
        steady = [[130.0] * 50 for _ in range(6)]
        layouts = [[130.0 + 20 * generation] * 50 for generation in range(6)]
        narrow, wide = bench_stats.compare(base, steady), bench_stats.compare(base, layouts)
        self.assertEqual(narrow.high - narrow.low, 0)
        self.assertGreater(wide.high - wide.low, 40)

    def test_modes_of_other_rounds_are_not_compared(self):
        with self.assertRaises(ValueError):
            bench_stats.compare([[1.0, 2.0]], [[1.0]])


# Speaks the workers' language: each batch costs `cost`, and the guard's line stands on standard error at the end.
PLAYED = """
import os, sys
print("ready", flush=True)
asked = 0
for line in sys.stdin:
    what, number, *call = line.split()
    asked += int(number)
    if call and what == "batch":
        os.environ["COST"] = str(1 + len(call[0]))
    if os.environ.get("DIES_AFTER") and asked > int(os.environ["DIES_AFTER"]):
        sys.exit("no more of this")
    print(f"wall_ns={os.environ['COST']} cpu_ns=1 closing_ns=0 instructions=-1 cache_misses=-1", flush=True)
print(f"lazyguard: {asked} launches, 0 hangs", file=sys.stderr)
"""


class Workers(unittest.TestCase):
    def mode(self, key, cost, check=silent, settle=0, **environment):
        return Mode(key, key, dict({"COST": str(cost), "PATH": "/usr/bin:/bin"}, **environment), check, settle)

    def loop(self, **more):
        return launch_loop(command=[sys.executable, "-c", PLAYED], **more)

    def test_each_mode_answers_once_a_round_in_every_generation(self):
        outcome, = bench_workers.lockstep([self.loop()], [self.mode("bare", 100), self.mode("guard", 130)], generations=2, rounds=3)
        self.assertEqual(outcome.lost, {})
        self.assertEqual([[answer["wall_ns"] for answer in rounds] for rounds in outcome.samples["guard"]], [[130.0] * 3] * 2)
        self.assertEqual([len(rounds) for rounds in outcome.samples["bare"]], [3, 3])

    def test_a_worker_that_ends_early_loses_its_mode_alone_and_says_its_last_words(self):
        modes = [self.mode("bare", 100), self.mode("cupti-callback", 1, DIES_AFTER="15")]
        outcome, = bench_workers.lockstep([self.loop()], modes, generations=2, rounds=3)
        self.assertEqual(list(outcome.samples), ["bare"])
        self.assertIn("no more of this", outcome.lost["cupti-callback"])

    def test_a_worker_that_does_not_start_loses_its_mode(self):
        outcome, = bench_workers.lockstep([launch_loop(command=["/nowhere/worker"])], [self.mode("bare", 1)], 1, 1)
        self.assertEqual(outcome.samples, {})
        self.assertIn("/nowhere/worker", outcome.lost["bare"])

    def test_a_watcher_that_saw_too_few_launches_is_not_believed(self):
        check = bench_plan.sees(r" (\d+) launches, ", "the guard")
        seen, = bench_workers.lockstep([self.loop()], [self.mode("guard", 1, check)], 1, 2)
        self.assertEqual(seen.lost, {})
        unseen, = bench_workers.lockstep([self.loop(threads=4)], [self.mode("guard", 1, check)], 1, 2)
        self.assertEqual(unseen.lost, {"guard": "the guard saw 20 of 80 launches"})
        self.assertIn("did not say", check("", 1))

    def test_settling_counts_for_nothing_but_happens(self):
        for settled, launches in ((True, 1020), (False, 20)):
            asked = []
            mode = self.mode("guard", 1, lambda _, number: asked.append(number) or "", settle=1000)
            outcome, = bench_workers.lockstep([self.loop(settled=settled)], [mode], 1, 2)
            self.assertEqual((asked, outcome.lost, len(outcome.samples["guard"][0])), ([launches], {}, 2))

    def test_settling_and_the_watchers_count_go_by_the_kernels_of_a_launch(self):
        for kernels, launches in ((40, (25 + 20) * 40), (0, 0)):
            asked = []
            mode = self.mode("guard", 1, lambda _, number: asked.append(number) or "", settle=1000)
            outcome, = bench_workers.lockstep([self.loop()._replace(kernels=kernels)], [mode], 1, 2)
            self.assertEqual((asked, outcome.lost), ([launches], {}))

    def test_the_calls_of_one_command_are_measured_by_the_same_processes(self):
        asked = []
        modes = [self.mode("bare", 100), self.mode("guard", 130, lambda _, kernels: asked.append(kernels) or "")]
        loops = [self.loop()._replace(call="ab"), self.loop()._replace(call="abcd", kernels=0)]
        outcomes = bench_workers.lockstep(loops, modes, generations=2, rounds=3)
        self.assertEqual([[answer["wall_ns"] for answer in one.samples["bare"][1]] for one in outcomes], [[3.0] * 3, [5.0] * 3])
        self.assertEqual(asked, [30, 30], "the launches of one loop count as kernels, those of the other do not")

    def test_when_the_time_is_up_there_are_fewer_processes_and_never_too_few(self):
        for ahead, generations in ((-1, bench_workers.FEWEST), (3600, 5)):
            outcome, = bench_workers.lockstep([self.loop()], [self.mode("bare", 1)], 5, 1, until=time.monotonic() + ahead)
            self.assertEqual(len(outcome.samples["bare"]), generations)

    def test_an_answer_that_is_none_is_refused(self):
        self.assertEqual(bench_workers.answer_of("wall_ns=1.5 cpu_ns=-1"), {"wall_ns": 1.5, "cpu_ns": -1.0})
        for line in ("hello", "wall_ns=", "wall_ns=fast"):
            with self.assertRaises(Lost):
                bench_workers.answer_of(line)


def answers(*costs, instructions=-1.0):
    return [[{"wall_ns": cost, "cpu_ns": cost / 2, "closing_ns": 10.0, "instructions": instructions} for cost in costs]]


class Rows(unittest.TestCase):
    MODES = [Mode(key, key, None, silent, 0) for key in (bench_plan.BARE, bench_plan.AGAIN, bench_plan.GUARD, bench_plan.UNRECORDED)]

    def rows(self, loop, added, stepped=None, **more):
        samples = {bench_plan.BARE: answers(1000.0, 1010.0, 990.0)}
        samples.update({key: answers(*(cost + value for cost in (1000.0, 1010.0, 990.0)), **more) for key, value in added.items()})
        outcome = bench_workers.Outcome(samples, {})
        return bench_report.rows_of(loop, self.MODES, outcome, stepped or {})

    def test_the_guard_alone_is_held_against_the_promise(self):
        for added, verdict in ((30.0, "PASS"), (30.5, "MISS"), (-1.0, "PASS")):
            rows = self.rows(launch_loop(), {bench_plan.GUARD: added, bench_plan.UNRECORDED: 99.0, bench_plan.AGAIN: 0.0})
            self.assertEqual({row["mode"]: row["verdict"] for row in rows},
                             {bench_plan.GUARD: verdict, bench_plan.UNRECORDED: "", bench_plan.AGAIN: ""})
        self.assertEqual(bench_report.counts(rows), {"PASS": 1, "MISS": 0})

    def test_pytorch_is_judged_by_the_ratio_alone_and_to_the_end_of_the_work(self):
        loop = launch_loop()._replace(key="torch-operations", unit="operation")
        for added, verdict in ((4.0, "PASS"), (6.0, "MISS")):
            rows = self.rows(loop, {bench_plan.GUARD: added})
            self.assertEqual([row["verdict"] for row in rows], [verdict] * 2)
            self.assertEqual([row["bare_ns"] for row in rows], [1000.0, 1010.0])

    def test_many_functions_and_streams_may_take_thirty_nanoseconds_more(self):
        for added, verdict in ((60.0, "PASS"), (60.5, "MISS")):
            rows = self.rows(launch_loop()._replace(key="varied"), {bench_plan.GUARD: added})
            self.assertEqual([row["verdict"] for row in rows], [verdict])

    def test_replays_may_take_one_part_in_a_hundred_more(self):
        loop = bench_plan.torch_loop("replays", "replays", "replay", 10, kernels=0)
        for added, verdict in ((9.5, "PASS"), (10.5, "MISS")):
            self.assertEqual([row["verdict"] for row in self.rows(loop, {bench_plan.GUARD: added})], [verdict] * 2)

    def test_several_threads_are_judged_by_their_own_time(self):
        row = self.rows(launch_loop(threads=8), {bench_plan.GUARD: 50.0})[0]
        self.assertEqual((row["bare_ns"], row["added_ns"]), (500.0, 25.0))
        self.assertIn("processor time", row["title"])

    def test_instructions_come_of_the_counter_or_of_the_steps_or_are_not_told(self):
        stepped = {bench_plan.BARE: {"instructions": 300.0}, bench_plan.GUARD: {"instructions": 420.0}}
        self.assertEqual(self.rows(launch_loop(), {bench_plan.GUARD: 1.0}, stepped)[0]["instructions_added"], 120.0)
        self.assertIsNone(self.rows(launch_loop(), {bench_plan.GUARD: 1.0})[0]["instructions_added"])
        samples = {bench_plan.BARE: answers(1.0, 1.0, instructions=100.0), bench_plan.GUARD: answers(2.0, 2.0, instructions=180.0)}
        rows = bench_report.rows_of(launch_loop(), self.MODES, bench_workers.Outcome(samples, {}), stepped)
        self.assertEqual(rows[0]["instructions_added"], 80.0)

    def test_launches_past_the_library_are_what_those_through_it_are_held_against(self):
        modes = [*self.MODES, Mode(bench_plan.CALLBACK, "CUPTI", None, silent, 0)]
        samples = {mode.key: answers(100.0, 104.0) for mode in modes}
        for [rounds] in samples.values():
            for answer in rounds:
                answer["direct_ns"] = 90.0
        del samples[bench_plan.UNRECORDED][0][1]["direct_ns"]
        rows = [row for row in bench_report.rows_of(launch_loop(), modes, bench_workers.Outcome(samples, {}), {}) if "past the library" in row["title"]]
        self.assertEqual([(row["mode"], row["bare_ns"], row["added_ns"], row["verdict"]) for row in rows],
                         [(bench_plan.AGAIN, 90.0, 12.0, ""), (bench_plan.GUARD, 90.0, 12.0, "PASS")])

    def test_the_guard_is_held_against_the_clock_as_well(self):
        modes = [*self.MODES, Mode(bench_plan.CLOCK, "clock", None, silent, 0)]
        for guarded, verdict in ((165.0, "PASS"), (166.0, "MISS")):
            samples = {bench_plan.BARE: answers(100.0), bench_plan.CLOCK: answers(135.0), bench_plan.GUARD: answers(guarded)}
            rows = bench_report.rows_of(launch_loop(), modes, bench_workers.Outcome(samples, {}), {})
            self.assertEqual([(row["mode"], row["bare_ns"], row["added_ns"], row["verdict"]) for row in rows],
                             [(bench_plan.GUARD, 100.0, guarded - 100.0, "MISS"), (bench_plan.CLOCK, 100.0, 35.0, ""), (bench_plan.GUARD, 135.0, guarded - 135.0, verdict)])

    def test_the_clocks_library_sees_the_driver_s_own_launches_alone(self):
        modes = bench_plan.modes(simulated=False)
        of = lambda loop: bench_plan.CLOCK in [mode.key for mode in bench_plan.modes_of(loop, modes)]
        self.assertEqual({loop.key: of(loop) for loop in bench_plan.card_loops()}, {"driver": True, "runtime": False, "torch-operations": False, "torch-tokens": False, "torch-replays": False, "varied": True, "driver-fresh": True, "call-set-device": False, **{f"call-{name}": False for name, _ in bench_plan.CALLS}})

    def test_of_pytorch_s_loops_the_guard_is_measured_and_nothing_else(self):
        modes = bench_plan.modes(simulated=False, cupti="libcupti.so", beside=["other.so"])
        known = {loop.key: [mode.key for mode in bench_plan.modes_of(loop, modes)] for loop in bench_plan.card_loops()}
        self.assertEqual([keys for key, keys in known.items() if key.startswith("torch")], [[bench_plan.BARE, bench_plan.AGAIN, bench_plan.GUARD]] * 3)
        self.assertIn(bench_plan.CALLBACK, known["driver"])

    def test_without_a_bare_run_there_is_no_row(self):
        outcome = bench_workers.Outcome({bench_plan.GUARD: answers(1.0)}, {bench_plan.BARE: "gone"})
        self.assertEqual(bench_report.rows_of(launch_loop(), self.MODES, outcome, {}), [])

    def test_the_table_lines_up_and_says_the_interval(self):
        rows = self.rows(launch_loop(), {bench_plan.GUARD: 30.0})
        text = bench_report.as_text(bench_report.HEADER, bench_report.table(rows))
        self.assertIn("+30.0 ns (+30.0 ns to +30.0 ns)", text)
        self.assertIn("x1.0300", text)
        header, rule, line = text.splitlines()
        self.assertEqual(header.index("result"), line.index("PASS"))
        self.assertEqual(rule.rindex(" ") + 1, header.index("result"))

    def test_times_are_told_as_people_read_them(self):
        self.assertEqual([bench_report.time(value, "+") for value in (0.04, -31.26, 3402.4, 188871.0)], ["+0.0 ns", "-31.3 ns", "+3402 ns", "+189 us"])

    def test_the_noise_is_the_worst_of_two_bare_processes(self):
        rows = self.rows(launch_loop(), {bench_plan.AGAIN: -7.0, bench_plan.GUARD: 100.0})
        self.assertEqual(bench_report.noise(rows), 7.0)
        self.assertIsNone(bench_report.noise([]))


class ThePlan(unittest.TestCase):
    def test_every_combination_is_there_once_and_a_lone_thread_has_no_stream_each(self):
        keys = [loop.key for loop in bench_plan.simulated_loops(2, quick=False)]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(len(keys), 6 + 9 + 9 + 2 + 2 * len(bench_plan.CALLS) + len(bench_plan.COLLECTIVE))
        self.assertTrue({"1-1-1", "1-10000-200", "2-100-0", "4-10000-200", "1-1-1-fresh", "evicted"} <= set(keys), keys)

    def test_the_calls_of_a_worker_are_measured_together_and_launches_by_themselves(self):
        card = [[loop.key for loop in group] for group in bench_plan.together(bench_plan.card_loops())]
        self.assertEqual(card[0], [f"call-{name}" for name, _ in bench_plan.CALLS])
        self.assertEqual(card[1:3], [["runtime", "call-set-device"], ["torch-operations", "torch-tokens", "torch-replays"]])
        self.assertEqual(card[-2:], [["varied"], ["driver-fresh"]])
        simulated = [len(group) for group in bench_plan.together(bench_plan.simulated_loops(2, quick=False))]
        self.assertEqual(simulated, [1] * (6 + 9 + 9 + 2) + [len(bench_plan.CALLS)] * 2 + [1])

    def test_every_call_is_made_by_twenty_processes_on_a_card(self):
        chosen = argparse.Namespace(quick=False, card=True)
        few = {loop.key for loop in bench_plan.card_loops() if bench_plan.rounds(loop, chosen)[0] < 20}
        self.assertLessEqual(few, set(bench_plan.AMONG_THE_LAST))

    def test_a_fresh_recording_is_not_gone_through_once(self):
        for card, loops in ((False, bench_plan.simulated_loops(2, quick=False)), (True, bench_plan.card_loops())):
            fresh, = [loop for loop in loops if not loop.settled]
            _, rounds = bench_plan.rounds(fresh, argparse.Namespace(quick=False, card=card))
            # Each batch is preceded by a short one that counts for nothing, and each 400 launches of it by 40.
            self.assertLessEqual(rounds * (fresh.launches * 11 // 10 + 400), bench_plan.MOST_FRESH_LAUNCHES)
            self.assertTrue(all(loop.settled for loop in loops if loop is not fresh))

    def test_modes_differ_in_what_they_are_and_start_with_bare(self):
        modes = bench_plan.modes(simulated=False, cupti=Path("/x/libbench_cupti.so"))
        self.assertEqual([mode.key for mode in modes], ["bare", "again", "guard", "record-off", "clock", "cupti-callback", "cupti-activity"])
        self.assertNotIn("LD_PRELOAD", modes[0].environment)
        self.assertEqual(modes[5].environment["BENCH_CUPTI"], "callback")
        self.assertNotIn("LD_PRELOAD", modes[5].environment)
        self.assertEqual(modes[3].environment["LAZYGUARD_RECORD"], "off")
        simulated = bench_plan.modes(simulated=True, beside=[Path("/y/liblazyguard.so"), Path("/z/liblazyguard.so")])
        self.assertEqual([(mode.key, mode.environment["LD_PRELOAD"]) for mode in simulated[-2:]],
                         [("beside-1", "/y/liblazyguard.so"), ("beside-2", "/z/liblazyguard.so")])
        self.assertTrue(all(mode.environment["LGSIM_FREE_RUNNING"] == "1" for mode in simulated))


class FindingCupti(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def test_the_toolkits_own_comes_before_that_of_a_python_package(self):
        found = bench_cupti.places([Path("/cuda")], [Path("/site/nvidia")])
        self.assertEqual(found[0], (Path("/cuda/extras/CUPTI/include"), Path("/cuda/extras/CUPTI/lib64")))
        self.assertLess(found.index((Path("/cuda/include"), Path("/cuda/lib64"))), found.index((Path("/site/nvidia/cu13/include"), Path("/site/nvidia/cu13/lib"))))

    def test_a_library_with_a_version_alone_is_found_too(self):
        self.assertIsNone(bench_cupti.library_in(self.folder))
        (self.folder / "libcupti.so.13").write_text("")
        self.assertEqual(bench_cupti.library_in(self.folder).name, "libcupti.so.13")
        self.assertIsNone(bench_cupti.library_in(self.folder / "nowhere"))


class ThePage(unittest.TestCase):
    REPORT = {
        "schema": 1, "kind": "bench", "card": "NVIDIA X1", "cuda": 13000, "simulated": False, "driver": "580.1", "whole": True, "date": "2026-01-02",
        "command": "scripts/bench --card", "lazyguard": "lazyguard 0.1.0", "kernel": "6", "glibc": "glibc 2.36", "python": "3.11", "processors": 2,
        "processor": "Some", "seconds": 12.0, "promises": "little", "rows": [], "header": bench_report.HEADER,
        "table": [["cuLaunchKernel", "bare, another process", "3402 ns", "3403 ns", "+1.0 ns (-2.0 ns to +2.0 ns)", "x1.0", "+0.0 ns", "", ""],
                  ["cuLaunchKernel", "guarded", "3402 ns", "3424 ns", "+22.0 ns (+20.0 ns to +24.0 ns)", "x1.0065", "+21.0 ns", "+80", "PASS"]],
        "counts": {"PASS": 1, "MISS": 0}, "notes": ["CUPTI: /x"], "failures": [],
    }
    CHECK = {
        "schema": 1, "card": "NVIDIA X1", "cards": 1, "driver": "580.1", "cuda": 13000, "simulated": False, "date": "2026-01-01",
        "command": "scripts/gpu-check", "lazyguard": "lazyguard 0.1.0", "kernel": "6", "glibc": "glibc 2.36", "python": "3.11",
        "processors": 2, "programs": [], "no_harm": {}, "seconds": 12.0, "counts": {"PASS": 1, "FAIL": 0, "MISS": 0, "SKIP": 0},
        "table": [["a (app)", "hangs (4 s)", "ok", "LG201", "PASS"]],
    }

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.page = self.folder / "RESULTS.md"
        self.page.write_text("# Results\n\nWords of a person.\n")

    def results(self, report):
        path = self.folder / "report.json"
        path.write_text(json.dumps(report))
        return subprocess.run([sys.executable, str(SCRIPTS / "results"), str(path), "--into", str(self.page)], capture_output=True, text=True)

    def test_card_and_the_checks_have_sections_of_their_own_and_the_simulated_driver_where_there_is_no_card(self):
        simulated = "## What it costs: the simulated driver\n"
        for report, is_shown in ((self.CHECK, False), (dict(self.REPORT, simulated=True, card="Simulated GPU"), True), (self.REPORT, False), (dict(self.REPORT, date="2026-03-04"), False)):
            self.assertEqual(self.results(report).returncode, 0)
            self.assertEqual(simulated in self.page.read_text(), is_shown)
        text = self.page.read_text()
        self.assertIn("Words of a person.", text)
        for heading in ("## Checks: X1, driver 580.1", "## What it costs: X1, driver 580.1"):
            self.assertEqual(text.count(heading + "\n"), 1, heading)
        self.assertEqual(text.count("2026-01-02"), 1, "the simulated one's; the card's is replaced")
        self.assertIn(", 2026-03-04: ", text)
        self.assertIn("| loop | bare | guarded adds | bare again adds, ns | instructions |", text)
        self.assertIn("| cuLaunchKernel | 3402 ns | +22.0 ns (+20.0 to +24.0) | +1.0 | +80 |", text)
        self.assertIn("* CUPTI: /x", text)

    def test_loops_of_launches_are_one_table_with_a_column_for_each_number_of_threads(self):
        cells = ["24.0 ns", "64.0 ns", "+40.0 ns (+20.0 ns to +44.0 ns)", "x2.7", "+40.0 ns", ""]
        table = [["1 thread, 10 functions, 1 stream", "guarded", *cells, "MISS"], ["2 threads, 10 functions, 1 stream, processor time", "guarded", *cells, "PASS"]]
        self.assertEqual(self.results(dict(self.REPORT, table=[*self.REPORT["table"], *table])).returncode, 0)
        text = self.page.read_text()
        self.assertIn("| loop | 1 thread | 2 threads |\n|---|---|---|\n| 10 functions, 1 stream | +40.0 ns MISS | +40.0 ns |\n", text)
        self.assertIn("| cuLaunchKernel | 3402 ns |", text)

    def test_what_is_no_whole_run_is_refused(self):
        before = self.page.read_text()
        for report in (dict(self.REPORT, whole=False), dict(self.REPORT, failures=["guarded: gone"]), dict(self.REPORT, schema=2)):
            result = self.results(report)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(result.stderr.startswith("results: "), result.stderr)
        self.assertEqual(self.page.read_text(), before)


if __name__ == "__main__":
    unittest.main()
