"""Tests of how gpu-check judges races and their exploration. They need no card and nothing of the project built."""

import json
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import explores  # noqa: E402
import processes  # noqa: E402
import spare_time  # noqa: E402

SAID = """lazyguard: hangs when thread worker's cuMemFree comes after thread main's cuStreamWaitValue32: {code}
lazyguard: cuMemFree cannot return
lazyguard: found in run 3 with seed 2; {hung} of 10 replays hung
"""
SHAPE = explores.Shape("release", ["races", "release"], {"LG204"}, 1, False)


def explored(code, said, seed=2):
    with mock.patch.object(explores.Scratch, "run", return_value=processes.Outcome(code, 1.0, "", said)):
        return explores.explored(SHAPE, seed, True, 1)[:2]


class TheShapes(unittest.TestCase):
    def test_each_has_its_codes_and_its_program(self):
        shapes = explores.shapes()
        self.assertGreaterEqual(len(shapes), 20)
        self.assertEqual((shapes["two_communicators"].ranks, shapes["first_use"].codes), (2, {"LG201", "LG202"}))
        self.assertEqual([Path(word).name for word in shapes["unload"].command], ["reported", "unload"])
        for shape in shapes.values():
            self.assertTrue(shape.codes, shape)
        of_torch = [shape for shape in shapes.values() if shape.of_torch]
        self.assertEqual(len(of_torch), 2)
        self.assertTrue(all(shape.command[-1].is_file() for shape in of_torch))

    def test_a_job_needs_two_cards_and_pytorch_a_machine_that_has_it(self):
        job, torch = SHAPE._replace(ranks=3), SHAPE._replace(of_torch=True)
        self.assertEqual(explores.absent(job, 1, False, False), "for two GPUs")
        self.assertIsNone(explores.absent(job, 2, False, True))
        self.assertIsNone(explores.absent(job, 1, True, True))
        self.assertEqual(explores.absent(torch, 1, False, True), "no PyTorch on this machine")


class TheExploration(unittest.TestCase):
    def test_the_hang_has_its_code_and_is_made_again(self):
        self.assertEqual(explored(117, SAID.format(code="LG204", hung=9)), ("LG204 in run 3, 9 of 10 again", True))
        for code, said in ((117, SAID.format(code="LG203", hung=10)), (117, SAID.format(code="LG204", hung=8)), (0, "lazyguard: no hang in 30 runs with seed 2\n"),
                           (117, "hangs when something"), (None, SAID.format(code="LG204", hung=10))):
            self.assertFalse(explored(code, said)[1], said)

    def test_nothing_is_found_of_a_safe_form(self):
        self.assertEqual(explored(0, "lazyguard: no hang in 30 runs with seed 1\n", "safe"), ("no hang in 30 runs", True))
        self.assertFalse(explored(117, SAID.format(code="LG204", hung=9), "safe")[1])
        self.assertFalse(explored(0, "lazyguard: no hang in 7 runs with seed 1\n", "safe")[1])

    def test_a_row_passes_where_every_form_did(self):
        seen = {form: (f"said {form}", True, {}) for form in explores.FORMS}
        row, data = explores.row_of_shape(SHAPE, seen)
        self.assertEqual((row.plain, row.explored, row.safe, row.verdict), ("said plain", "said 1; said 2; said 3", "no hang in 30 runs", "PASS"))
        self.assertEqual(data["2"], {"said": "said 2", "good": True})
        self.assertEqual(explores.row_of_shape(SHAPE, {**seen, 2: ("exit 0", False, {})})[0].verdict, "FAIL")
        left = explores.row_of_shape(SHAPE, {"plain": seen["plain"]})[0]
        self.assertEqual((left.safe, left.verdict), ("--within is over", "SKIP"))

    def test_the_runs_of_a_safe_form_are_added_up(self):
        forms = explores.forms_of(SHAPE, True)
        seen = {form: ("no hang in 30 runs", True, {}) for form in forms}
        self.assertEqual(explores.row_of_shape(SHAPE, seen, forms)[0].safe, "no hang in 300 runs")
        wrong = explores.row_of_shape(SHAPE, {**seen, "safe 7": ("exit 117", False, {})}, forms)[0]
        self.assertEqual((wrong.safe, wrong.verdict), ("no hang in 270 runs; exit 117; expected LG204", "FAIL"))
        self.assertEqual(explores.row_of_shape(SHAPE, {form: seen[form] for form in explores.FORMS}, forms)[0].verdict, "SKIP")
        self.assertEqual(explores.forms_of(SHAPE._replace(ranks=3), True), explores.FORMS)
        with mock.patch.object(explores.Scratch, "run", return_value=processes.Outcome(0, 1.0, "", "")) as run:
            explores.explored(SHAPE, "safe 7", True, 1)
        command = list(map(str, run.call_args.args[0]))
        self.assertEqual((command[command.index("--seed") + 1], command[-1]), ("7", "safe"))

    def test_all_plain_runs_come_first_and_what_is_wanted_alone(self):
        begun = []
        with mock.patch.object(explores, "plain", side_effect=lambda shape, *_: begun.append(shape.name) or ("ok", True, {"code": 0})), \
                mock.patch.object(explores, "explored", side_effect=lambda shape, form, *_: begun.append(form) or ("found", True, {"code": 117})), \
                mock.patch.object(explores.os, "cpu_count", return_value=1), mock.patch.object(explores.frameworks, "absent", return_value=["torch"]):
            rows, _ = explores.check(lambda _: None, ["unload", "load"], False, 1)
            self.assertRaises(ValueError, explores.check, lambda _: None, ["no_such_shape"], False, 1)
        self.assertEqual(sorted(begun[:2]), ["load", "unload"])
        self.assertEqual(begun[2:], [1, 1, "safe", "safe", 2, 2, 3, 3])
        self.assertEqual([(row.shape, row.verdict) for row in rows], [("race: load", "PASS"), ("race: unload", "PASS")])
        self.assertFalse(spare_time.is_over())

    def test_forms_of_an_earlier_check_are_taken_over(self):
        whole = {form: (f"said {form}", True, {"code": 0}) for form in explores.FORMS}
        _, begun = explores.row_of_shape(SHAPE._replace(name="load"), {form: whole[form] for form in ("plain", 1, "safe")})
        with mock.patch.object(explores, "plain") as plain, mock.patch.object(explores, "explored", side_effect=lambda _, form, *__: whole[form]) as explored, \
                mock.patch.object(explores.frameworks, "absent", return_value=["torch"]):
            rows, data = explores.check(lambda _: None, ["load"], False, 1, {"load": json.loads(json.dumps(begun))})
        plain.assert_not_called()
        self.assertEqual([call.args[1] for call in explored.call_args_list], [2, 3])
        self.assertEqual(rows[0].verdict, "PASS")
        self.assertEqual((data[0]["1"], data[0]["3"]), ({"said": "said 1", "good": True, "code": 0}, {"said": "said 3", "good": True, "code": 0}))

    def test_what_the_end_of_the_time_cuts_short_is_left_out(self):
        cut = lambda *_: spare_time.allow(0) or ("hangs (1 s)", False, {"code": None})
        self.addCleanup(spare_time.allow, None)
        with mock.patch.object(explores, "plain", side_effect=cut), mock.patch.object(explores.frameworks, "absent", return_value=["torch"]):
            rows, _ = explores.check(lambda _: None, ["load"], False, 1)
        self.assertEqual([(row.plain, row.verdict) for row in rows], [("", "SKIP")])
        self.assertEqual(spare_time.at_most(30), 1.0)


if __name__ == "__main__":
    unittest.main()
