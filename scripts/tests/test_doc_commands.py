"""Tests of how the documentation's commands are found, run and compared. They run no program of the project."""

import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import doc_blocks  # noqa: E402
import doc_commands  # noqa: E402
import doc_compare  # noqa: E402
import doc_launchers  # noqa: E402

PAGE = """# A page

Some words with `lazyguard run -- ./app`, and a span that
goes on: `lazyguard report
FOLDER`.

    $ first --option \\
        more
    printed
    $ second

    printed later

<!-- exits: 117 -->
```text
$ third
```

<!-- not run: needs a card -->

    $ fourth

    not a command
"""


def commands_of(text):
    return [command for block in doc_blocks.blocks(text) for command in doc_blocks.commands(block)]


class ReadingAPage(unittest.TestCase):
    def refused(self, text):
        with self.assertRaises(doc_blocks.Unreadable) as refused:
            commands_of(text)
        return str(refused.exception)

    def test_each_command_has_its_continuation_its_output_and_its_status(self):
        found = [(command.line, command.text, command.output, command.exits) for command in commands_of(PAGE)]
        self.assertEqual(found, [
            (7, "first --option \\\n    more", ["printed"], 0),
            (10, "second", ["", "printed later"], 0),
            (16, "third", [], 117),
            (21, "fourth", ["", "not a command"], 0),
        ])

    def test_marks_belong_to_the_block_right_below_them(self):
        self.assertEqual([block.marks for block in doc_blocks.blocks(PAGE)], [{}, {"exits": "117"}, {"not run": "needs a card"}])
        self.assertIn("3: a mark without a block", self.refused("\n\n<!-- exits: 1 -->\n\nwords\n\n    $ a\n"))
        self.assertIn("a mark without a block", self.refused("<!-- exits: 1 -->\n"))

    def test_comments_that_are_no_marks_are_left_alone(self):
        self.assertEqual(commands_of("<!-- gpu-check: begin, by somebody -->\n\n<!-- exits of a kind -->\n"), [])

    def test_a_status_is_needed_for_every_command(self):
        self.assertEqual([command.exits for command in commands_of("<!-- exits: 0, 3 -->\n\n    $ a\n    $ b\n")], [0, 3])
        self.assertIn("1 exit statuses for 2 commands", self.refused("<!-- exits: 3 -->\n\n    $ a\n    $ b\n"))
        self.assertIn("not numbers", self.refused("<!-- exits: three -->\n\n    $ a\n"))

    def test_of_an_example_only_the_first_lines_are_compared(self):
        text = "<!-- compare: 1 -->\n\n    $ a\n    one\n    two\n    $ b\n    three\n"
        self.assertEqual([command.output for command in commands_of(text)], [["one", "..."], ["three"]])
        self.assertIn("not a number", self.refused("<!-- compare: all -->\n\n    $ a\n"))

    def test_a_command_without_its_mark_is_found(self):
        for line in ("lazyguard run -- ./app", "./scripts/test", "LD_PRELOAD=$PWD/l.so ./app", "LAZYGUARD_OUT=x target/apps/a", "docker run x"):
            self.assertIn("a command without `$ `", self.refused(f"words\n\n    {line}\n"), line)
        self.assertEqual(commands_of("words\n\n    k1<<<1, 1, 0, s1>>>();\n    // env: LAZYGUARD_PRELOAD=off\n"), [])

    def test_a_paragraph_that_goes_on_indented_is_no_block(self):
        self.assertEqual(commands_of("* words\n    $ and more words\n"), [])

    def test_the_steps_of_a_ci_system_are_commands(self):
        text = "```yaml\nsteps:\n  - run: make\n  - run: lazyguard run -- ./a\n  - run: |\n      lazyguard run \\\n        -- ./b\nscript:\n  - lazyguard doctor\n```\n"
        self.assertEqual([command.text for command in commands_of(text)],
                         ["lazyguard run -- ./a", "lazyguard run \\\n        -- ./b", "lazyguard doctor"])

    def test_a_block_that_is_a_file_is_not_run_by_itself(self):
        text = "<!-- file: job.sh -->\n```bash\nsrun lazyguard run -- ./app\n```\n"
        self.assertEqual(commands_of(text), [])
        self.assertEqual(doc_blocks.blocks(text)[0].marks, {"file": "job.sh"})

    def test_a_fence_has_to_end(self):
        self.assertIn("1: a fence that does not end", self.refused("```\n$ a\n"))

    def test_spans_are_found_in_the_words_alone(self):
        self.assertEqual(doc_blocks.spans(PAGE), [(3, "lazyguard run -- ./app"), (4, "lazyguard report FOLDER")])


class Comparing(unittest.TestCase):
    def same(self, expected, printed):
        return doc_compare.difference(expected, printed) is None

    def test_what_differs_from_run_to_run_is_alike(self):
        for expected, printed in [
            ("process 4242 hangs for 1.3 s", "process 17 hangs for 980 ms"),
            ("stream 1 (0x1000, blocking)", "stream 1 (0x55d93232b380, blocking)"),
            ("main, /src/testapps/a.cpp:12 (a+0x124d)", "main, testapps/a.cpp:9 (a+0x9)"),
            ("seen at +4.9 s (2026-11-20 19:19:32 UTC)", "seen at +0.001 s (2031-01-02 03:04:05 UTC)"),
            ("1 - 10 ms  2  ########", "1 - 10 ms  17  ##"),
            ("ends   in blanks", "ends in blanks "),
        ]:
            self.assertTrue(self.same([expected], [printed]), expected)

    def test_what_is_said_is_not(self):
        for expected, printed in [
            ("LG201: a cold load", "LG202: a cold load"),
            ("loaded k2", "loaded k1"),
            ("cuMemFree_v2", "cuMemFree_v3"),
            ("it is (likely)", "it is (certain)"),
            ("a 1 b", "a b"),
        ]:
            self.assertFalse(self.same([expected], [printed]), expected)

    def test_dots_stand_for_any_lines_and_for_anything_in_a_line(self):
        printed = ["one", "two", "three", "two", "four"]
        self.assertTrue(self.same(["one", "...", "two", "four"], printed))
        self.assertTrue(self.same(["...", "one", "...", "four", "..."], printed))
        self.assertTrue(self.same(["o...", "...", "f...r"], printed))
        self.assertFalse(self.same(["one", "..."], ["two", "one"]))
        self.assertFalse(self.same(["one"], printed))

    def test_the_line_that_is_missing_is_named(self):
        self.assertEqual(doc_compare.difference(["a", "b", "c"], ["a", "b", "d"]), "c")
        self.assertEqual(doc_compare.difference(["a", "...", "c"], ["a", "b"]), "c")
        self.assertIn("nothing more", doc_compare.difference(["a"], ["a", "b"]))

    def test_what_the_shell_says_of_a_killed_child_is_no_output(self):
        self.assertEqual(doc_compare.lines_of("/tmp/x/1.sh: line 1:  4242 Killed                  timeout 3 app\nout\n"), ["out"])


HELP = {"": "Commands:\n  run     Runs\n  report  Reads\n\nOptions:\n  --version\n", "run": "--hang-after <VALUE>\n --junit <FILE>", "report": "--hazards\n -o, --output"}


class LookingUpWhatIsMentioned(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(doc_commands, "help_of", lambda command: HELP[command])
        patch.start()
        self.addCleanup(patch.stop)

    def faults(self, text):
        outcome = doc_commands.Outcome("page.md")
        doc_commands.check_mention(outcome, 7, text)
        return outcome.faults

    def test_what_there_is_passes(self):
        for text in ("lazyguard run --hang-after 5s --junit=x -- ./app --anything", "target/release/lazyguard report 7 -o x | jq --raw .a",
                     "lazyguard", "lazyguard: HANG", "install target/release/lazyguard target/release/liblazyguard.so guard", "lazyguard --version", "srun lazyguard run -- lazyguard report --hazards", "scripts/test"):
            self.assertEqual(self.faults(text), [], text)

    def test_what_there_is_not_is_a_fault(self):
        for text, said in [
            ("lazyguard walk", "no command walk"),
            ("lazyguard run --hang 5s -- ./app", "no option --hang"),
            ("cd x; lazyguard report --junit f", "lazyguard report has no option --junit"),
            ("lazyguard run \\\n  --unheard-of -- ./app", "no option --unheard-of"),
            ("lazyguard --unheard-of", "no option --unheard-of"),
            ("scripts/not-there", "scripts/not-there is not there"),
        ]:
            faults = self.faults(text)
            self.assertTrue(len(faults) == 1 and said in faults[0] and "page.md:7" in faults[0], (text, faults))


class RunningAPage(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name).resolve()
        for name in ("target", "scripts/lib"):
            (self.root / name).mkdir(parents=True)
        patches = [mock.patch.object(doc_commands, "ROOT", self.root), mock.patch.object(doc_commands, "TARGET", self.root / "target"),
                   mock.patch.object(doc_commands, "NEXT_COMMAND_S", 0.0), mock.patch.object(doc_commands, "COMMAND_LIMIT_S", 5)]
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def outcome(self, text):
        page = self.root / "PAGE.md"
        page.write_text(text)
        outcome, sessions = doc_commands.read_page(page)
        for blocks in sessions:
            outcome.add(doc_commands.try_session(outcome.page, blocks))
        return outcome

    def test_a_page_is_one_session_and_leaves_nothing_in_the_checkout(self):
        outcome = self.outcome("    $ export SAID=hello\n    $ mkdir out; cd out; echo $SAID >file; echo $$ >&2\n    4242\n    $ cat file; pwd | sed 's,.*/,,'\n    hello\n    out\n")
        self.assertEqual((outcome.faults, outcome.ran), ([], 3))
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["PAGE.md", "scripts", "target"])

    def test_a_new_session_knows_nothing_of_the_one_before(self):
        outcome = self.outcome("    $ SAID=hello; touch here\n\n<!-- new session -->\n\n    $ echo \"$SAID\" $(ls -d here 2>&1 | head -c 3)\n    ls:\n")
        self.assertEqual((outcome.faults, outcome.ran), ([], 2))

    def test_each_way_to_fail_is_told_with_its_line(self):
        for text, said in [
            ("    $ exit_with() { return $1; }; exit_with 3\n", "PAGE.md:1: exit status 3 instead of 0"),
            ("<!-- exits: 3 -->\n\n    $ true\n", "PAGE.md:3: exit status 0 instead of 3"),
            ("    $ echo one\n    two\n", "it does not print: two"),
            ("    $ if true; then\n", "bash cannot read it"),
            ("    $ exit 0\n    $ true\n", "not over"),
            ("<!-- not run: -->\n\n    $ true\n", "without a reason"),
            ("    ./scripts/demo\n", "a command without `$ `"),
        ]:
            faults = self.outcome(text).faults
            self.assertTrue(faults and said in faults[0], (text, faults))

    def test_what_is_not_run_is_read_only(self):
        outcome = self.outcome("<!-- not run: needs somebody's program -->\n\n    $ false\n")
        self.assertEqual((outcome.faults, outcome.ran, outcome.read), ([], 0, 1))

    def test_a_command_that_hangs_is_ended_with_what_it_started(self):
        with mock.patch.object(doc_commands, "COMMAND_LIMIT_S", 0.3):
            faults = self.outcome("    $ sleep 100 & wait\n").faults
        self.assertIn("not over after 0.3 s", faults[0])

    def test_files_and_programs_are_where_the_marks_say(self):
        program = self.root / "target" / "real"
        program.write_text("#!/bin/sh\necho here\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        outcome = self.outcome("<!-- program: app = target/real -->\n\n    $ ./app\n    here\n\n<!-- file: conf/known.txt -->\n```text\nLG101:*\n```\n\n    $ cat conf/known.txt\n    LG101:*\n")
        self.assertEqual((outcome.faults, outcome.ran), ([], 2))


class StandingInForALauncher(unittest.TestCase):
    def test_each_process_is_told_its_rank(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"OUT": folder}):
            for name, arguments, variable in [("srun", ["-n", "2"], "SLURM_PROCID"), ("mpirun", ["-n", "2", "-x", "OUT"], "OMPI_COMM_WORLD_RANK"),
                                              ("torchrun", ["--nproc-per-node=2", "--no-python"], "RANK")]:
                status = doc_launchers.launch(name, [*arguments, "sh", "-c", f'touch "$OUT/{name}-${variable}"; exit ${variable}'])
                self.assertEqual(status, 1, name)
            self.assertEqual(sorted(os.listdir(folder)), ["mpirun-0", "mpirun-1", "srun-0", "srun-1", "torchrun-0", "torchrun-1"])


if __name__ == "__main__":
    unittest.main()
