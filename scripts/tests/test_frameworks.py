"""Tests of how the programs of frameworks are read and judged. They need no card, no framework and nothing of the project built."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import frameworks  # noqa: E402
import ranks  # noqa: E402

PATH = Path("a.py")


class TheStatements(unittest.TestCase):
    def test_they_are_in_the_first_lines_and_regular_expressions(self):
        text = "# Sleeps, and: waits.\n# code: LG202\n# culprit: spin.*\n# needs: jax cupy\n# hang-after: 20s\nimport jax\n# code: LG203\n"
        self.assertEqual(frameworks.stated(PATH, text), frameworks.Program(PATH, "LG202", "spin.*", None, ["jax", "cupy"], "20s"))
        ends = frameworks.stated(PATH, "# Trains.\n# code: none\n")
        self.assertEqual((ends.code, ends.culprit, ends.blame, ends.needs), ("none", None, None, ["torch"]))

    def test_what_cannot_be_meant_so_is_refused(self):
        for text in ("# No code.\n", "# code: LG999\n# culprit: a\n", "# code: LG202\n", "# code: none\n# blame: rank 1\n",
                     "# code: LG202\n# culprit: a\n# blame: b\n", "# code: LG202\n# cluprit: a\n", ""):
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

    def ended(self, script, **guarded):
        """The verdict on this program, where a run with the guard has these variables besides."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            path.write_text(script)
            program = frameworks.stated(path, "# code: none\n")
            with mock.patch.object(frameworks.guard, "guarded", lambda **settings: {**os.environ, **guarded, "OUT": settings["OUT"]}):
                row, data = frameworks.ending("frameworks", program, lambda: [sys.executable, path], 2)
        self.assertEqual(row.verdict == "FAIL", "faults" in data)
        return row.verdict

    def test_a_program_that_ends_passes_where_all_runs_print_the_same_and_nothing_is_said(self):
        said = "import os\nif 'GUARD' in os.environ: "
        self.assertEqual(self.ended("print(1)"), "PASS")
        self.assertEqual(self.ended(said + "import sys; print('a warning', file=sys.stderr)\nprint(1)", GUARD="1"), "PASS")
        for script in (said + "print(2)\nelse: print(1)", said + "import sys; print('lazyguard: SLOW', file=sys.stderr)\nprint(1)", "pass",
                       "import os; print(1, flush=True); os._exit(3)", "import time; print(time.monotonic_ns())",
                       said + "import json, pathlib; f = pathlib.Path(os.environ['OUT'], 'p'); f.mkdir(parents=True); "
                       "(f / 'hang.json').write_text(json.dumps({'verdicts': [{'code': 'LG208'}]}))\nprint(1)"):
            self.assertEqual(self.ended(script, GUARD="1"), "FAIL", script)


if __name__ == "__main__":
    unittest.main()
