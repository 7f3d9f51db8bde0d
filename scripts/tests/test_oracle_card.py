"""Tests of how gpu-check judges the oracle's programs. They need no card and nothing of the project built."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
import oracle_card  # noqa: E402
import processes  # noqa: E402
from oracle_card import ALWAYS, EITHER, NEVER, Played, Truth  # noqa: E402

END = ("thread 0: 0\n", "code 0")
OUTCOME = processes.Outcome(0, 1.0, *END)


def completed(end=END, **hang):
    return Played(OUTCOME, end, False, hang)


def stuck(**hang):
    return Played(OUTCOME._replace(code=None), None, True, hang)


class OraclesPrograms(unittest.TestCase):
    def test_an_end_is_judged_by_the_truth(self):
        for kind, played, wrong in ((ALWAYS, completed(), None), (ALWAYS, stuck(), "does not complete"), (NEVER, stuck(), None), (NEVER, completed(), "completes"),
                                    (EITHER, completed(), None), (EITHER, stuck(), None)):
            self.assertEqual(oracle_card.wrong_end(Truth(kind, True, END), played), wrong, (kind, played))
        self.assertIn("ends otherwise", oracle_card.wrong_end(Truth(ALWAYS, False, END), completed(("thread 0: 1\n", "code 3"))))
        self.assertIn("did not play", oracle_card.wrong_end(Truth(EITHER, False, None), Played(OUTCOME, None, False, {})))

    def test_the_guard_may_prevent_a_hang_and_must_not_be_silent_about_one(self):
        hang = {"status": "hang", "verdicts": [{"code": "LG204", "confidence": "likely"}]}
        never, always = Truth(NEVER, True, None), Truth(ALWAYS, False, END)
        for truth, played, wrong in ((never, completed(), None), (never, stuck(**hang), None), (never, stuck(status="slow"), "stuck, and called slow"), (never, stuck(), "stuck, and called nothing"),
                                     (never._replace(in_a_call=False), stuck(), None), (always, completed(**hang, longest=20), "called a hang: LG204"), (always, completed(**hang, longest=700), None)):
            self.assertEqual(oracle_card.wrong_guarded(truth, played), wrong, (truth, played))

    def test_a_program_has_the_time_that_it_takes_by_itself(self):
        self.assertEqual(oracle_card.own_time_s("warm 3\n0 launch stream=0 kernel=1 busy=1200\n1 sleep ms=50\n0 graph stream=0 kernel=2 busy=10 raise=0 to=1\n"), 1.26)

    def test_a_thread_in_a_call_is_seen(self):
        self.assertTrue(oracle_card.stands_in_a_call("stuck 5\nthread 0 10 call 7 -1\nend\n"))
        self.assertFalse(oracle_card.stands_in_a_call("stuck 5\nthread 0 10 lock 7 1\nthread 1 11 ended 8 -1\nend\n"))

    def test_a_program_that_fails_has_a_row_of_its_own(self):
        run = {"completes": True}
        good = {"number": 1, "kind": ALWAYS, "bare": run, "guarded": run, "bare_wrong": None, "guarded_wrong": None, "status": None, "codes": ""}
        rows = oracle_card.rows_of([good, {**good, "number": 2, "guarded_wrong": "called a hang: LG204"}, {"number": 3, "kind": None}])
        self.assertEqual([row.verdict for row in rows], ["FAIL", "PASS", "PASS", "FAIL", "FAIL"])
        self.assertEqual((rows[0].bare, rows[3].what), ("2 of 2 completed", "program 2 of seed 1"))


if __name__ == "__main__":
    unittest.main()
