"""Tests of how the programs of frameworks are read and judged. They need no card, no framework and nothing of the project built."""

import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import checks  # noqa: E402
import frameworks  # noqa: E402
import on_host  # noqa: E402
import processes  # noqa: E402
import policies  # noqa: E402
import cold_starts  # noqa: E402
import defaults  # noqa: E402
import heals  # noqa: E402
import profiles  # noqa: E402
import ranks  # noqa: E402
import recordings  # noqa: E402

PATH = Path("a.py")


class TheStatements(unittest.TestCase):
    def test_they_are_in_the_first_lines_and_regular_expressions(self):
        text = "# Sleeps, and: waits.\n# code: LG202\n# culprit: spin.*\n# needs: jax cupy\n# hang-after: 20s\nimport jax\n# code: LG203\n"
        self.assertEqual(frameworks.stated(PATH, text), frameworks.Program(PATH, "LG202", "spin.*", None, ["jax", "cupy"], "20s", False))
        ends = frameworks.stated(PATH, "# Trains.\n# code: none\n")
        self.assertEqual((ends.code, ends.culprit, ends.blame, ends.needs), ("none", None, None, ["torch"]))
        self.assertTrue(frameworks.stated(PATH, "# code: LG202\n# culprit: spin\n# with-profile: completes\n").completes_with_profile)
        heals = frameworks.stated(PATH, "# code: LG202\n# blame: rank 0\n# heals: loss .*\n# torchrun: --max-restarts 2\n")
        self.assertEqual((heals.heals, heals.torchrun), ("loss .*", "--max-restarts 2"))

    def test_what_cannot_be_meant_so_is_refused(self):
        for text in ("# No code.\n", "# code: LG999\n# culprit: a\n", "# code: LG202\n", "# code: none\n# blame: rank 1\n",
                     "# code: LG202\n# culprit: a\n# blame: b\n", "# code: LG202\n# cluprit: a\n", "",
                     "# code: LG202\n# culprit: a\n# with-profile: hangs\n", "# code: none\n# with-profile: completes\n",
                     "# code: LG202\n# culprit: a\n# heals: b\n", "# code: none\n# heals: b\n"):
            with self.assertRaises(ValueError, msg=text):
                frameworks.stated(PATH, text)
        with self.assertRaises(re.error):
            frameworks.stated(PATH, "# code: LG208\n# blame: (AllReduce\n")

    def test_every_program_states_what_its_check_asks(self):
        of_one, of_two = frameworks.programs(frameworks.SOURCES), frameworks.programs(ranks.SOURCES)
        self.assertFalse([name for name, program in of_one.items() if program.blame])
        self.assertFalse([name for name, program in of_two.items() if program.culprit])
        hang = sum(program.code != "none" for program in [*of_one.values(), *of_two.values()])
        self.assertGreaterEqual(hang, 16)
        self.assertGreaterEqual(len(of_one) + len(of_two) - hang, 8)
        with_profile = profiles.programs().values()
        self.assertEqual({program.code for program in with_profile}, {"LG202"})
        self.assertTrue(any(program.blame for program in with_profile) and any(program.culprit for program in with_profile))

    def test_trainings_state_what_keeps_the_late_rank(self):
        programs = frameworks.programs(on_host.SOURCES).values()
        hang = [program for program in programs if program.code != "none"]
        self.assertGreaterEqual(len(hang), 13)
        self.assertGreaterEqual(len(programs) - len(hang), 5)
        # The rank alone is not enough.
        self.assertFalse([program.path.name for program in hang if not re.search(r"communicator 0 \.\*.*\w", program.blame)])

    def test_the_late_rank_and_its_reason_come_first_in_a_report(self):
        program = frameworks.stated(PATH, "# code: LG208\n# blame: rank 1 has not called .*reads shard\n")
        named = "rank 1 has not called collective 5, and reads shard; rank 0 waits in it"
        for lines, faults in (([named], 0), (["1 process", named], 0), (["rank 0 is blocked", named], 1), ([""] * 10 + [named], 1), (["rank 1 has not called it"], 1)):
            self.assertEqual(len(on_host.faults_of_text(program, "\n".join(lines))), faults, lines)

    def test_a_line_that_a_rank_is_said_to_be_at_is_one_where_it_waits(self):
        checked = 0
        for program in frameworks.programs(ranks.SOURCES).values():
            lines = program.path.read_text().splitlines()
            for name, number in re.findall(r"(\w+)\\\.py:(\d+)", program.blame or ""):
                self.assertEqual(name, program.path.stem)
                self.assertRegex(lines[int(number) - 1], r"sleep|wait|DataLoader", program.path.name)
                checked += 1
        self.assertGreater(checked, 0)

    def test_a_program_that_is_not_there_is_refused(self):
        known = {"a": 1, "b": 2}
        self.assertEqual((frameworks.chosen_of(known, ["b"]), frameworks.chosen_of(known, None)), ([2], [1, 2]))
        with self.assertRaises(ValueError):
            frameworks.chosen_of(known, ["a", "c"])


class TheJudgement(unittest.TestCase):
    def test_of_ranks_the_code_and_the_beginning_of_the_sentence_count(self):
        program = frameworks.stated(PATH, "# code: LG208\n# blame: rank 1 has not called collective \\d+ of communicator 0 \\(AllReduce\n")
        good = 'rank 1 has not called collective 14 of communicator 0 "tensor" (AllReduce of 4 float32, sum); rank 0 waits in it.'
        self.assertEqual(ranks.faults_of_ranks(program, ["LG299", "LG208"], good), [])
        for codes, sentence in ((["LG299"], good), (["LG208"], good.replace("rank 1", "rank 0")), (["LG208"], "so: " + good), (["LG208"], "")):
            self.assertEqual(len(ranks.faults_of_ranks(program, codes, sentence)), 1, sentence)

    def test_of_a_verdict_the_code_and_the_whole_name_of_the_culprit_count(self):
        program = frameworks.stated(PATH, "# code: LG202\n# culprit: spin|cuStreamWaitValue32(_v2)?\n")
        verdict = lambda code, **operation: {"code": code, "sentence": "It waits.", "culprits": [{"operation": operation}]}
        for verdicts, faults in (([verdict("LG202", function="spin", call="cuLaunchKernel")], 0), ([verdict("LG202", call="cuStreamWaitValue32_v2")], 0),
                                 ([verdict("LG299", function="a"), verdict("LG202", function="spin")], 0), ([verdict("LG202", function="spinner")], 1),
                                 ([verdict("LG201", function="spin")], 1), ([{"code": "LG202", "sentence": "It waits.", "culprits": []}], 1), ([], 1)):
            self.assertEqual(len(frameworks.faults_of_verdict(program, verdicts)[0]), faults, verdicts)

    def test_a_job_has_healed_if_each_rank_has_revoked_and_prints_its_line(self):
        program = frameworks.stated(PATH, "# code: LG202\n# blame: rank 0\n# heals: rank \\d: loss 0\n")
        process = lambda *communicators: {"run": {"revoked": [{"communicators": list(communicators)}]}}
        for lines, processes_, faults in (("rank 0: loss 0\nrank 1: loss 0\n", [process(1), process(1), {"run": None}, {"run": {}}], 0),
                                          ("rank 0: loss 0\nrank 1: loss 1\n", [process(1), process(1)], 1), ("rank 0: loss 0\n" * 2, [process(1), process()], 2)):
            outcome = processes.Outcome(0, 1.0, lines, "")
            self.assertEqual(len(ranks.faults_of_healing(program, outcome, {"processes": processes_})), faults, lines)

    def test_torchrun_starts_the_ranks_of_a_job_that_says_so(self):
        program = next(one for one in ranks.sources().values() if one.torchrun)
        command = [str(word) for word in ranks.command_of(program)]
        self.assertEqual((command[5], command[-3:]), ("torch.distributed.run", ["--max-restarts", "2", str(program.path)]))

    def test_a_job_fails_where_one_of_its_ranks_does(self):
        for failing, status in (("7", 0), ("1", 1), ("0", 1)):
            with checks.Scratch() as scratch:
                path = scratch.path / "a.py"
                # In one write: the ranks share a file.
                path.write_text(f"import os, sys\nos.write(1, os.environ['RANK'].encode() + b'\\n')\nsys.exit(3 if os.environ['RANK'] == '{failing}' else 0)\n")
                outcome = scratch.run(ranks.job(path), dict(os.environ), 30)
            self.assertEqual((outcome.code, sorted(outcome.stdout.split())), (status, ["0", "1"]))

    def ended(self, script, **guarded):
        """The verdict on this program, where a run with the guard has these variables besides."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            path.write_text(script)
            program = frameworks.stated(path, "# code: none\n")
            with mock.patch.object(frameworks.guard, "guarded", lambda **settings: {**os.environ, **guarded, "OUT": settings["OUT"]}):
                row, data = frameworks.ending("frameworks", program, lambda: [sys.executable, path], 2, None)
        self.assertEqual(row.verdict == "FAIL", "faults" in data)
        return row.verdict

    def test_a_program_that_ends_fails_for_a_hazard_that_fails_a_run(self):
        one = {"code": "LG101", "kernel": None, "call": "cuLaunchKernel", "because": "a collective is in flight"}
        with tempfile.TemporaryDirectory() as folder:
            def fail(told):
                with mock.patch.object(frameworks.hazards, "reported", lambda _: told):
                    return frameworks.hazards_that_fail(Path(folder))

            of = lambda **more: fail([{**one, "prevented": False, "confidence": "likely", **more}])
            self.assertEqual(of(), [])
            (Path(folder) / "trace.lgt").touch()
            self.assertEqual(of(), ["LG101 (likely) cuLaunchKernel: a collective is in flight"])
            self.assertEqual(of(confidence="possible") + of(prevented=True), [])
            self.assertEqual(len(fail(None)), 1)

    def test_a_program_that_ends_passes_where_all_runs_print_the_same_and_nothing_is_said(self):
        said = "import os\nif 'GUARD' in os.environ: "
        self.assertEqual(self.ended("print(1)"), "PASS")
        self.assertEqual(self.ended(said + "import sys; print('a warning', file=sys.stderr)\nprint(1)", GUARD="1"), "PASS")
        for script in (said + "print(2)\nelse: print(1)", said + "import sys; print('lazyguard: SLOW', file=sys.stderr)\nprint(1)", "pass",
                       "import os; print(1, flush=True); os._exit(3)", "import time; print(time.monotonic_ns())",
                       said + "import json, pathlib; f = pathlib.Path(os.environ['OUT'], 'p'); f.mkdir(parents=True); "
                       "(f / 'hang.json').write_text(json.dumps({'verdicts': [{'code': 'LG208'}]}))\nprint(1)"):
            self.assertEqual(self.ended(script, GUARD="1"), "FAIL", script)


# In place of the command: a run leaves a report, which it copies and prints.
COMMAND = """#!{python}
import pathlib, shutil, sys
if sys.argv[1] == "run":
    out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    shutil.copytree(pathlib.Path(__file__).with_name("run"), out)
    sys.exit(117)
elif sys.argv[1] == "anonymise":
    run, out = map(pathlib.Path, sys.argv[-2:])
    # Of a long run the last records do not say everything.
    if run.joinpath("long").exists() and "--last" in sys.argv:
        run = run / "long"
    out.mkdir()
    (out / "report").write_text((run / "report").read_text())
    (out / "options").write_text(" ".join(sys.argv[2:-2]))
else:
    assert sys.argv[1] == "report"
    print((pathlib.Path(sys.argv[-1]) / "report").read_text())
"""


class TheKeptRecordings(unittest.TestCase):
    BLAME = r"rank 1 has not called collective \d+ of communicator 0 \(AllReduce of 4 float32, sum\), and its main thread was at a\.py:7 .*; rank 0 waits in it\.$"

    def stub(self, scratch, report):
        """The command, of whose runs this is said; and such a run."""
        command, run = scratch.path / "lazyguard", scratch.path / "run"
        command.write_text(COMMAND.format(python=sys.executable))
        command.chmod(0o700)
        run.mkdir()
        (run / "report").write_text(json.dumps(report))
        return mock.patch.object(recordings.guard, "COMMAND", command), run

    def kept(self, head, report, judge, times=1):
        """What is wrong with the recordings of a run of which this is said, and what is expected of them from then on."""
        with checks.Scratch() as scratch:
            stub, run = self.stub(scratch, report)
            program, into = frameworks.stated(PATH, head), scratch.path / "all" / "of_them"
            with stub:
                for _ in range(times):
                    faults = recordings.keep(program, run, into, scratch, lambda found: judge(program, found))
            written = into / "a" / "expected.json"
            return faults, json.loads(written.read_text()) if written.exists() else None

    def report(self, code, sentence="", **ranks):
        culprit = {"operation": {"function": "spin", "call": "cuLaunchKernel"}}
        verdict = {"code": code, "sentence": "It waits.", "culprits": [culprit]}
        return {"processes": [{"hang": {"verdicts": [verdict]}}, {"hang": None}], "ranks": {"sentence": sentence, **ranks}}

    def test_of_a_job_the_ranks_to_blame_are_expected_where_its_statement_holds(self):
        head = f"# code: LG208\n# blame: {self.BLAME}\n"
        sentence = 'rank 1 has not called collective 9 of communicator 0 "group 1" (AllReduce of 4 float32, sum); rank 0 waits in it.'
        report = self.report("LG208", sentence, number=9, behind=[{"rank": 1}], different=[], joined=[0])
        expected = {"program": "a", "code": "LG208", "ranks": {"number": 9, "behind": [1], "different": [], "blocked": []}}
        self.assertEqual(self.kept(head, report, ranks.judged), ([], expected))
        other = self.report("LG208", sentence.replace("rank 1 has", "rank 0 has"), number=9, behind=[{"rank": 0}])
        for wrong in (other, self.report("LG299", sentence), {"processes": []}):
            faults, expected = self.kept(head, wrong, ranks.judged)
            self.assertTrue(faults and all(fault.startswith("from the kept recordings: ") for fault in faults), faults)
            self.assertIsNone(expected)

    def test_of_one_process_its_culprit_is_expected_and_of_one_that_ends_nothing(self):
        head = "# code: LG202\n# culprit: spin\n"
        self.assertEqual(self.kept(head, self.report("LG202"), frameworks.judged), ([], {"program": "a", "code": "LG202", "culprit": "spin"}))
        faults, expected = self.kept(head, self.report("LG201"), frameworks.judged)
        self.assertEqual((len(faults), expected), (1, None))
        nothing = lambda _, report: frameworks.says_nothing(report)
        self.assertEqual(self.kept("# code: none\n", {"processes": [{"hang": None}]}, nothing), ([], {"program": "a", "code": "none"}))
        self.assertEqual(self.kept("# code: none\n", self.report("LG208"), nothing), (["from the kept recordings: said LG208"], None))

    def test_a_check_keeps_the_recordings_where_that_is_asked_for_and_fails_where_they_say_something_else(self):
        sentence = "rank 1 has not called collective 9 of communicator 0 (AllReduce of 4 float32, sum), and its main thread was at a.py:7 in f; rank 0 waits in it."
        for check, head, report in ((frameworks.check_one, "# code: LG202\n# culprit: spin\n", self.report("LG202")),
                                    (ranks.check_one, f"# code: LG208\n# blame: {self.BLAME}\n", self.report("LG208", sentence, behind=[{"rank": 1}]))):
            with checks.Scratch() as scratch:
                stub, _ = self.stub(scratch, report)
                program, into = frameworks.stated(PATH, head), scratch.path / "kept"
                with stub:
                    self.assertEqual(check(program, None)[0].verdict, "PASS")
                    self.assertFalse(into.exists())
                    self.assertEqual(check(program, into)[0].verdict, "PASS")
                    self.assertEqual(json.loads((into / "a" / "expected.json").read_text())["code"], program.code)
                    row, data = check(program, into)
                self.assertEqual((row.verdict, data["faults"]), ("FAIL", [f"not kept: {into / 'a'} is there already"]))

    def test_as_few_records_are_kept_as_its_statements_follow_from(self):
        for is_long, options in ((False, "--keep-kernel-names --last 300"), (True, "--keep-kernel-names")):
            with checks.Scratch() as scratch:
                stub, run = self.stub(scratch, self.report("LG202"))
                if is_long:
                    (run / "long").mkdir()
                    (run / "long" / "report").write_text('{"processes": []}')
                program = frameworks.stated(PATH, "# code: LG202\n# culprit: spin\n")
                with stub:
                    self.assertEqual(recordings.keep(program, run, scratch.path / "all", scratch, lambda found: frameworks.judged(program, found)), [])
                self.assertEqual((scratch.path / "all" / "a" / "options").read_text(), options)

    def test_nothing_is_written_over(self):
        faults, _ = self.kept("# code: none\n", {"processes": []}, lambda _, report: frameworks.says_nothing(report), times=2)
        self.assertEqual(len(faults), 1)
        self.assertRegex(faults[0], "^not kept: .*/a is there already$")

    def test_what_recordings_do_not_show_is_not_expected_of_them(self):
        for program in frameworks.programs(ranks.SOURCES).values():
            if program.blame:
                of_recordings = recordings.of_recordings(program.blame)
                re.compile(of_recordings)
                self.assertTrue(program.blame.startswith(of_recordings))
                self.assertNotRegex(of_recordings, r"\.py|main thread|answer")
                self.assertRegex(of_recordings, r"^rank|^in their|^as collective")

    def test_what_is_expected_of_each_run_is_what_its_program_states(self):
        programs = {**frameworks.programs(frameworks.SOURCES), **frameworks.programs(ranks.SOURCES), **frameworks.programs(on_host.SOURCES)}
        runs = [path for path in recordings.FOLDER.iterdir() if path.is_dir()]
        self.assertTrue(runs)
        for run in runs:
            expected = json.loads((run / recordings.EXPECTED).read_text())
            program = programs[expected["program"]]
            self.assertTrue(run.name.startswith(program.path.stem), run)
            self.assertLessEqual(expected.keys(), {"program", "code", "culprit", "ranks", "differs"})
            if expected.get("differs") is None:
                self.assertEqual(expected["code"], program.code, run)
                self.assertTrue(not program.culprit or re.fullmatch(program.culprit, expected["culprit"]), run)
                self.assertTrue(not program.blame or any(expected["ranks"][name] for name in recordings.OF_RANKS), run)
            else:
                self.assertNotEqual(expected["code"], program.code, run)


# In place of the command: a run hangs unless it finds as many notes of others in the profile, and their cache.
LEARNS = """#!{python}
import json, os, pathlib, sys
if sys.argv[1] == "report":
    print(pathlib.Path(sys.argv[-1]).read_text())
    sys.exit()
profile, cache = pathlib.Path(os.environ["LAZYGUARD_PROFILE"]), pathlib.Path(os.environ["TRITON_CACHE_DIR"])
assert profile.stat().st_mode & 0o777 == 0o700
notes = len(list(profile.iterdir()))
run = {{"preload": {{"modules_ahead": notes, "modules_handed_over": notes}}}}
pathlib.Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps({{"processes": [{{"hang": None, "run": run}}]}}))
if notes == {after} and (not notes or cache.is_dir()):
    print("a result")
    sys.exit()
cache.mkdir(exist_ok=True)
(profile / str(notes)).write_text("")
sys.exit(117)
"""


class TheProfiles(unittest.TestCase):
    HANGS, ENDS = processes.Outcome(None, 25.0, "", ""), processes.Outcome(0, 3.0, "b\na\n", "")
    REPORT = {"processes": [{"hang": None}]}

    def runs(self, *outcomes, report=None):
        return [frameworks.GuardedRun(outcome, report or self.REPORT, []) for outcome in outcomes]

    def learned(self, after):
        """The runs of a program that completes once so many runs have left something."""
        with checks.Scratch() as scratch:
            command = scratch.path / "lazyguard"
            command.write_text(LEARNS.format(python=sys.executable, after=after))
            command.chmod(0o700)
            with mock.patch.object(profiles.guard, "COMMAND", command):
                return profiles.until_it_completes(lambda: ["program"], "2s")

    def test_runs_share_a_profile_and_caches_until_one_completes(self):
        for after, exits in ((0, [0]), (2, [117, 117, 0]), (9, [117] * 5)):
            self.assertEqual([run.outcome.code for run in self.learned(after)], exits)

    def test_the_row_says_in_which_run_it_completes_and_what_was_handed_over(self):
        program = frameworks.stated(PATH, "# code: LG202\n# culprit: spin\n")
        row, data = profiles.judged(program, self.HANGS, self.HANGS, self.learned(2))
        self.assertRegex(row.later, r"^completes in run 3, \d+\.\d s: 2 of 2 modules, 0 of 0 libraries handed over$")
        self.assertEqual((row.what, row.bare, row.eager, row.verdict), ("a", "hangs (25 s)", "hangs (25 s)", "PASS"))
        self.assertEqual([run["modules_ahead"] for run in data["runs"]], [0, 1, 2])

    def test_what_was_handed_over_is_summed_and_what_a_build_does_not_say_is_none(self):
        process = lambda **preload: {"run": {"preload": preload}}
        report = {"processes": [process(modules_ahead=2, modules_handed_over=1), process(modules_ahead=3, libraries_ahead=4, libraries_handed_over=4), {"run": None}]}
        self.assertEqual(profiles.handed_over(report),
                         {"modules_ahead": 5, "modules_handed_over": 1, "libraries_ahead": 4, "libraries_handed_over": 4})

    def test_a_program_passes_that_hangs_bare_and_completes_with_what_it_prints_with_eager(self):
        hung, crashed = processes.Outcome(117, 9.0, "", ""), processes.Outcome(1, 2.0, "", "")
        said = {"processes": [{"hang": {"verdicts": [{"code": "LG202"}]}}]}
        self.assertEqual(profiles.faults_of(self.HANGS, self.HANGS, self.runs(hung, self.ENDS)), [])
        self.assertEqual(profiles.faults_of(self.HANGS, self.ENDS._replace(stdout="a\nb\n"), self.runs(self.ENDS)), [])
        for bare, eager, seen in ((self.ENDS, self.HANGS, self.runs(self.ENDS)), (crashed, self.HANGS, self.runs(self.ENDS)),
                                  (self.HANGS, self.HANGS, self.runs(*[hung] * 5)), (self.HANGS, self.HANGS, self.runs(crashed, self.ENDS)),
                                  (self.HANGS, self.ENDS._replace(stdout="a\n"), self.runs(self.ENDS)),
                                  (self.HANGS, self.HANGS, self.runs(self.ENDS, report=said))):
            self.assertEqual(len(profiles.faults_of(bare, eager, seen)), 1, (bare, eager, seen))

    def test_a_cold_start_is_as_promised_up_to_two_percent_and_one_for_writing(self):
        def verdict(guard, writing, profile):
            figures = {"bare": (100, 200), "again": (110, 200), "guard": guard, "writing": writing, "profile": profile}
            return profiles.figure_row("PyTorch", "s", "{:.1f} s", {mode: [{"s": s} for s in of_mode] for mode, of_mode in figures.items()})
        row = verdict((110, 220), (111, 222), (102, 204))
        self.assertEqual((row.verdict, row.later), ("PASS", "153.0 s, x1.020 (quartiles 1.020 and 1.020) of bare"))
        self.assertEqual(row.bare, "150.0 s, again x1.050 (quartiles 1.025 and 1.075)")
        self.assertEqual(verdict((110, 220), (111, 222), (103, 206)).verdict, "MISS")
        self.assertEqual(verdict((110, 220), (112, 224), (102, 204)).verdict, "MISS")

    def test_a_profile_is_empty_or_a_copy_before_each_start(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "taught").mkdir()
            (folder / "taught" / "a.profile").write_text("known")
            for profile, files in ((None, []), (folder / "taught", ["a.profile"])):
                for _ in range(2):
                    profiles.renewed(folder / "own", profile)
                    self.assertEqual([path.name for path in (folder / "own").iterdir()], files)
                    (folder / "own" / "b.profile").write_text("learned")


# In place of the command: it reports a hang, and goes on two seconds later.
HEALS = """#!{python}
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir()
(folder / "hang.json").write_text(json.dumps({{"status": "hang"}}))
time.sleep(2)
print("rank 0: step 5: revoked\\nrank 1: right after 10 steps, in group 1\\nrank 0: right after 10 steps, in group 1")
"""


class TheHeals(unittest.TestCase):
    def test_a_job_is_timed_from_the_report_to_its_end(self):
        with checks.Scratch() as scratch:
            command = scratch.path / "lazyguard"
            command.write_text(HEALS.format(python=sys.executable))
            command.chmod(0o700)
            with mock.patch.object(heals.guard, "COMMAND", command):
                ended = heals.run("skipped", "revoke")
        self.assertEqual((ended.how, ended.wrong), ("goes on", False))
        self.assertTrue(0.5 < ended.seconds < ended.outcome.seconds, ended)

    def test_how_a_job_ends_is_told_by_its_ranks_and_its_attempts(self):
        right = "rank 0: right after 10 steps\nrank 1: right after 10 steps\n"
        for code, stdout, stderr, how in ((0, right, "", "goes on"), (0, right, "lazyguard: attempt 1 hung (LG208): attempt 2 has it\n", "made again"),
                                          (1, right, "", "exit 1"), (0, "rank 0: right after 10 steps\n" * 2, "", "exit 0"), (None, "", "", "killed")):
            ended = heals.how_it_ended(processes.Outcome(code, 9.0, stdout, stderr), 4.0)
            self.assertEqual((ended.how, ended.seconds), (how, 5.0))

    def test_a_revoked_job_has_to_go_on_soon_and_no_sum_may_be_wrong(self):
        ended = lambda how, seconds, wrong=False: heals.Ended(how, seconds, how == "goes on", wrong, processes.Outcome(0, 9.0, "", ""))
        by_act = {act: ended("exit 1", 9.0) for act in heals.ACTS}
        for revoked, faults in ((ended("goes on", 5.0), 0), (ended("goes on", 21.0), 1), (ended("made again", 5.0), 1), (ended("goes on", None), 1), (ended("goes on", 5.0, True), 1)):
            self.assertEqual(len(heals.faults_of({**by_act, "revoke": revoked})), faults, revoked)
        row, data = heals.row_of("order", {**by_act, "revoke": ended("goes on", 5.0), "kill": ended("made again", 9.0, True)})
        self.assertEqual((row.verdict, row.kill, data["faults"]), ("FAIL", "made again, 9.0 s", ["kill: a wrong sum"]))

    def test_the_program_knows_each_fault(self):
        named = set(re.findall(r'"([a-z]+)"', heals.PROGRAM.read_text()))
        self.assertEqual(set(heals.FAULTS) - named, set())


class TheDefaults(unittest.TestCase):
    def seen(self, stdout="a\n", left=(), written=("run",), stderr="", seconds=2.0, memory=700):
        return defaults.Seen(processes.Outcome(0, seconds, stdout, stderr, left), memory, set(written))

    def test_what_a_guarded_run_does_otherwise_is_a_fault(self):
        bare = [self.seen(), self.seen()]
        for other, faults in ((self.seen(), 0), (self.seen(stdout="b\n"), 1), (self.seen(left=(7,)), 1), (self.seen(written=("run", "./x", "home/y")), 2),
                              (self.seen(written=("run", "./tmpabc")), 0), (self.seen(stderr="lazyguard: a line\n"), 1)):
            self.assertEqual(len(defaults.faults_of([(bare, [self.seen(), other])])), faults, other)

    def test_a_program_is_within_noise_unless_each_round_is_slower_or_takes_more(self):
        program = frameworks.stated(PATH, "# code: none\n")
        for seconds, memory, verdict in ((2.0, 700, "PASS"), (2.2, 700, "MISS"), (2.0, 800, "MISS")):
            rounds = [([self.seen()] * 2, [self.seen(), self.seen(seconds=seconds, memory=memory)])] * 3
            row, _ = defaults.row_of(program, rounds)
            self.assertEqual((row.bare, row.verdict), ("2.00 s and 2.00 s", verdict))

    def test_each_mode_of_a_job_has_a_run_in_each_round(self):
        modes = []
        with mock.patch.object(defaults, "job_once", lambda program, options, devices: modes.append(options) or 3.0):
            row, found = defaults.cost_of_a_job(frameworks.stated(PATH, "# code: none\n"), lambda _: None, None)
        self.assertEqual({len(values) for values in found.values()}, {defaults.ROUNDS_OF_A_JOB})
        self.assertEqual({str(sorted(map(str, modes[at:at + 3]))) for at in range(0, len(modes), 3)}, {str(sorted(map(str, defaults.MODES.values())))})
        self.assertEqual((row.one, row.verdict), ("3.00 s, x1.000 (1.00 to 1.00)", "PASS"))

    def test_what_a_program_leaves_is_seen_and_what_is_meant_for_it_is_not(self):
        with checks.Scratch() as scratch:
            command = ["sh", "-c", "mkdir -p \"$HOME/x\" \"$XDG_CACHE_HOME/lazyguard/profiles\"; touch y; sleep 9 & echo a"]
            with mock.patch.object(defaults, "memory_used", lambda _: 0):
                [seen] = defaults.runs(lambda: command, [], 1, scratch, None)
            self.assertEqual(seen.written, {"home/x", "./y"})
            self.assertEqual(len(seen.outcome.left), 1)


class ColdStarts(unittest.TestCase):
    """Without PyTorch: a program that answers as torch_starts.py does, each start by a child of its own."""
    PROGRAM = '''
import json, os, sys
print(json.dumps({"torch": "none"}), flush=True)
for number, _ in enumerate(iter(sys.stdin.readline, "")):
    child = os.fork()
    if child == 0:
        if sys.argv[1] == "dies": os._exit(3)
        if sys.argv[1] == "hangs": sys.stdin.readline()
        os.write(1, (json.dumps({"cold_start_s": number, "mode": sys.argv[1]}) + "\\n").encode())
        print("said", file=sys.stderr)
        sys.exit(4 if sys.argv[1] == "fails" else 0)
    print(json.dumps({"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)
'''

    def measured(self, modes, most_rounds=3, ends=lambda: False, prepare=lambda mode: None):
        said = []
        commands = {mode: ([sys.executable, "-c", self.PROGRAM, mode], dict(os.environ)) for mode in modes}
        return cold_starts.in_rounds(commands, prepare, most_rounds, ends, lambda number, data: said.append((number, sorted(data)))), said

    def test_each_mode_has_a_start_in_each_round_but_for_the_first_which_counts_for_nothing(self):
        prepared = []
        found, said = self.measured(["bare", "guard"], prepare=prepared.append)
        self.assertEqual({mode: [one["cold_start_s"] for one in of_mode] for mode, of_mode in found.items()}, {"bare": [1, 2, 3], "guard": [1, 2, 3]})
        self.assertEqual({one["mode"] for one in found["guard"]}, {"guard"})
        self.assertEqual(found["bare"][0]["stderr"], "said\nsaid\n")
        self.assertEqual(said, [(number, ["bare", "guard"]) for number in (1, 2, 3)])
        self.assertEqual([sorted(prepared[at:at + 2]) for at in range(0, 8, 2)], [["bare", "guard"]] * 4)

    def test_one_round_is_measured_whatever_the_time_is(self):
        found, _ = self.measured(["bare"], ends=lambda: True)
        self.assertEqual(len(found["bare"]), 1)

    def test_a_start_that_does_not_end_well_is_said(self):
        for mode, what in (("dies", "a start ended with 3: "), ("fails", "a start ended with 4: said"), ("hangs", "no answer within 0.3 s: ")):
            with mock.patch.object(cold_starts, "START_LIMIT_S", 0.3 if mode == "hangs" else 60.0), self.assertRaises(cold_starts.Failed) as failed:
                self.measured([mode])
            self.assertTrue(str(failed.exception).startswith(what), failed.exception)

    def test_a_program_that_ends_or_says_something_else_is_said(self):
        for program, what in (("", "ended: "), ("print('hello')", "an answer that means nothing: b'hello'"), ("print(3)", "an answer that means nothing: b'3'")):
            with self.assertRaises(cold_starts.Failed) as failed:
                cold_starts.in_rounds({"bare": ([sys.executable, "-c", program], dict(os.environ))}, print, 1, lambda: False, print)
            self.assertTrue(str(failed.exception).startswith(what), failed.exception)

    def test_the_quartiles_have_the_median_between_them(self):
        self.assertEqual(cold_starts.quartiles([4, 1, 3, 2, 5]), [2, 3, 4])
        self.assertEqual(cold_starts.quartiles([7]), [7, 7, 7])


class ThePolicies(unittest.TestCase):
    """What is measured is a card's; here its places are taken by numbers."""

    SECONDS = {"bare": 2.0, "auto": 4.0}

    def checked(self, cards, results=None, training=None):
        def in_rounds(commands, prepare, most_rounds, is_over, progress):
            self.assertEqual({environment.get("LAZYGUARD_PRELOAD") for _, environment in commands.values()}, {None, *policies.POLICIES})
            start = lambda mode: {"cold_start_s": self.SECONDS.get(mode, 3.0), "device_memory_mb": 700, "stderr": "", "results": {"sum": (results or {}).get(mode, 1)}}
            return {mode: [start(mode)] * most_rounds for mode in commands}

        with mock.patch.object(policies.cold_starts, "in_rounds", in_rounds), mock.patch.multiple(
                policies, training=training or (lambda mode: self.SECONDS.get(mode, 3.0)), end=lambda program, policy: f"ends under {policy}"):
            return policies.check(lambda _: None, None, cards)

    def test_each_mode_is_a_row_beside_bare(self):
        rows, data = self.checked(2)
        self.assertEqual([row.policy for row in rows], list(policies.MODES))
        by_mode = {row.policy: row for row in rows}
        self.assertEqual(by_mode["auto"][1:4], ("4.00 s, x2.00", "700 MB, x1.00", "4.0 s, x2.00"))
        self.assertEqual(by_mode["bare"].programs, "")
        self.assertEqual(by_mode["eager"].programs, "; ".join(f"{name}: ends under eager" for name in policies.HANGING))
        self.assertEqual({row.verdict for row in rows}, {"PASS"})
        self.assertEqual(len(data["starts"]["bare"]), policies.ROUNDS)

    def test_on_one_gpu_there_is_no_job_and_no_program_of_two_ranks(self):
        rows, data = self.checked(1)
        self.assertEqual({row.ranks for row in rows}, {policies.NO_JOBS})
        self.assertEqual(rows[-1].programs, "torch_first_use_of_operation: ends under eager")
        self.assertIsNone(data["jobs"])

    def test_another_result_fails_its_row(self):
        rows, _ = self.checked(1, {"auto": 2})
        self.assertEqual([row.policy for row in rows if row.verdict == "FAIL"], ["auto"])

    def test_a_job_that_fails_leaves_what_the_programs_did(self):
        failed = processes.Outcome(1, 2.0, "", "")
        with mock.patch.object(policies, "Scratch", lambda: mock.MagicMock(**{"__enter__.return_value.run.return_value": failed})):
            [row], data = self.checked(2, training=policies.training)
        self.assertEqual(row.verdict, "FAIL")
        self.assertRegex(row.start, "healthy_training under .*: exit 1")
        self.assertEqual(list(data["programs"]), list(policies.POLICIES))

    def test_where_no_round_of_jobs_has_time_the_rest_is_there(self):
        with mock.patch.object(policies.spare_time, "is_over", lambda: True):
            rows, _ = self.checked(2)
        self.assertEqual({(row.ranks, row.programs) for row in rows}, {(policies.NO_JOBS, "")})
        self.assertEqual([row.policy for row in rows], list(policies.MODES))


if __name__ == "__main__":
    unittest.main()
