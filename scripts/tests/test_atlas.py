"""Tests of the atlas: that every function has a row, that tables are whole, and what is made of processes that end early."""

import os
import re
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import atlas  # noqa: E402
import guard  # noqa: E402

REFUSED = "returns+ends:STREAM_CAPTURE_UNSUPPORTED"
CAPTURE_CHECKS = atlas.ROOT / "testapps" / "simdriver" / "capture-checks.inc"
SYMBOLS = atlas.ROOT / "testapps" / "simdriver" / "symbols.inc"


def row(idle_us=1.0, loads="-", **cells):
    """A row whose cells are "returns" where they are not named."""
    parts = {situation: atlas.Cell(*cells.get(situation, "returns").partition(":")[::2]) for situation in atlas.SITUATIONS}
    return atlas.Row(idle_us, parts, loads)


def tables():
    return [path for path in atlas.TABLES.glob("atlas-*.tsv") if path != atlas.DEVIATIONS]


@unittest.skipUnless(atlas.PROGRAM.is_file(), "target/atlas is not built")
class Coverage(unittest.TestCase):
    def setUp(self):
        self.calls, self.left_out = atlas.listed(guard.bare(None, simulated=True))

    def test_each_function_of_the_header_is_called_or_left_out_for_a_reason(self):
        declared = set(re.findall(r"^SYMBOL\((cu\w+),", SYMBOLS.read_text(), re.M))
        called = {entry.call.function for entry in self.calls}
        left_out = {entry.function for entry in self.left_out}
        self.assertEqual(called | left_out, declared)
        self.assertEqual(called & left_out, set())
        self.assertTrue(all(re.fullmatch(r"not called: \w.+", entry.reason) for entry in self.left_out))
        self.assertEqual(len(self.calls), len({entry.call for entry in self.calls}), "each call has one row")

    def test_each_table_has_a_row_for_each_call(self):
        for path in tables():
            self.assertEqual(set(atlas.read(path)), {entry.call for entry in self.calls}, path.name)


class Tables(unittest.TestCase):
    def test_each_deviation_is_of_a_cell_and_has_a_reason(self):
        rows = [line.split("\t") for line in atlas.DEVIATIONS.read_text().splitlines() if line and not line.startswith("#")]
        for cells in rows:
            self.assertEqual(len(cells), 5, cells)
            function, variant, situation, instead, reason = cells
            self.assertIn(situation, atlas.SITUATIONS)
            self.assertGreater(len(reason.split()), 2, cells)
            for path in tables():
                self.assertNotEqual(atlas.read(path)[atlas.Call(function, variant)][situation], instead, f"no deviation: {cells}")

    def test_the_simulated_driver_checks_for_captures_where_a_card_does(self):
        # These are forbidden by a capture in the context that they name, in every mode, and by no other.
        by_context = {"cuCtxRecordEvent", "cuCtxWaitEvent"}
        listed = re.findall(r"^CHECKS_CAPTURE\((cu\w+)\)$", CAPTURE_CHECKS.read_text(), re.M)
        for path in tables():
            free = {call.function for call, row in atlas.read(path).items()
                    if {row[situation] for situation in atlas.SITUATIONS if situation.startswith("capture_")} != {REFUSED}}
            called = {call.function for call in atlas.read(path)}
            self.assertEqual(listed, sorted(called - free - by_context - atlas.not_played()), path.name)

    def test_notes_say_what_a_row_means(self):
        for expect, cells in (
            ("returns", {}),
            ("blocks", {"spin": "blocks", "load": "blocks", "wait_blocking": "blocks"}),
            ("blocks", {"wait": "hangs"}),
            ("blocks_on_default_stream", {"wait_blocking": "blocks", "load": "blocks"}),
            ("context_lock,ends_capture", {"load": "blocks", "capture_global": "returns+ends:STREAM_CAPTURE_UNSUPPORTED"}),
            ("refused", {"capture_blocking": "returns:STREAM_CAPTURE_IMPLICIT"}),
            ("context_lock,stalls,loads", {"spin": "stalls", "load": "blocks", "loads": "loads"}),
            ("unprepared", {situation: "unprepared:NOT_SUPPORTED" for situation in atlas.SITUATIONS}),
        ):
            loads = cells.pop("loads", "-")
            self.assertEqual(atlas.notes(row(loads=loads, **cells)), expect, cells)

    def test_a_table_is_read_as_it_was_written(self):
        rows = {atlas.Call("cuB", "-"): row(spin="blocks"), atlas.Call("cuA", "busy"): row(idle="returns:NOT_READY")}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "atlas-1.tsv"
            path.write_text(atlas.table("Card: none.", rows, [atlas.LeftOut("cuC", "not called: needs a graphics library")]))
            read = atlas.read(path)
        self.assertEqual([call.function for call in read], ["cuA", "cuB"])
        self.assertEqual((read[atlas.Call("cuB", "-")]["spin"], read[atlas.Call("cuB", "-")]["notes"]), ("blocks", "blocks"))
        self.assertEqual(read[atlas.Call("cuA", "busy")]["idle"], "returns:NOT_READY")


class Processes(unittest.TestCase):
    def ask(self, script, once=False):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "atlas"
            program.write_text("#!/bin/bash\nshift 3\n" + script)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            with mock.patch.object(atlas, "PROGRAM", program):
                return atlas.ask_one(atlas.Listed(atlas.Call("cuA", "-"), once), dict(os.environ, FOLDER=folder, ATLAS_PATIENCE_MS="700"))

    def test_what_a_process_leaves_is_asked_in_the_next(self):
        one = 'echo "at $1"; echo "$1 returns CUDA_SUCCESS 5.0 -"'
        self.assertEqual(atlas.notes(self.ask(one)), "returns")
        every = 'for s in "$@"; do echo "at $s"; echo "$s returns CUDA_SUCCESS 5.0 -"; [ "$s" != spin ] || exit 0; done'
        self.assertEqual(atlas.notes(self.ask(every)), "returns")

    def test_a_process_that_ends_within_a_situation_has_crashed_there(self):
        found = self.ask('for s in "$@"; do echo "at $s"; [ "$s" != spin ] || kill -SEGV $$; echo "$s returns CUDA_SUCCESS 5.0 -"; done')
        self.assertEqual(found.cells["spin"], atlas.Cell("crashes", "-11"))
        self.assertEqual(found.cells["wait"], atlas.Cell("returns", ""))
        found = self.ask("exit 3")
        self.assertEqual({cell.word for cell in found.cells.values()}, {"crashes"})

    def test_what_cannot_be_made_is_asked_once(self):
        found = self.ask('echo x >> "$FOLDER/asked"; [ $(wc -l < "$FOLDER/asked") = 1 ] || exit 1\n'
                         'echo "at $1"; echo "$1 unprepared CUDA_ERROR_NOT_SUPPORTED 0.0 -"')
        self.assertEqual(set(found.cells.values()), {atlas.NOT_PREPARED})

    def test_a_call_that_changes_its_process_has_one_for_each_situation_and_is_patient(self):
        found = self.ask('[ $# = 1 ] || exit 9; [ $1 = idle ] || [ $ATLAS_PATIENCE_MS = 4700 ] || exit 8\n'
                         'echo "at $1"; echo "$1 returns CUDA_SUCCESS 1000000.0 -"', once=True)
        self.assertEqual({cell.word for cell in found.cells.values()}, {"returns"})


if __name__ == "__main__":
    unittest.main()
