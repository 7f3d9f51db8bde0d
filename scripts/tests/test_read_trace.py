"""The second reader of recordings agrees with the first one on every golden recording."""

import json
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
READER = ROOT / "scripts" / "read_trace.py"
GOLDEN = ROOT / "core" / "tests" / "golden"


def read(path):
    return subprocess.run([sys.executable, READER, path], capture_output=True, text=True, timeout=60)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


class TheSecondReader(unittest.TestCase):
    def test_reads_what_the_first_one_reads_from_every_golden_recording(self):
        recordings = sorted(GOLDEN.glob("v*/*.lgt"))
        self.assertGreaterEqual(len(recordings), 9)
        for path in recordings:
            found = read(path)
            self.assertEqual(found.returncode, 0, f"{path.name}: {found.stderr}")
            expected = json.loads(path.with_suffix(".json").read_text())
            found = json.loads(found.stdout)
            self.assertEqual(sorted(found), sorted(expected), path.name)
            for name, value in expected.items():
                self.assertEqual(found[name], value, f"{name} of {path.name}")

    def test_no_number_in_the_header_costs_much_time_or_memory(self):
        whole = max(GOLDEN.glob("v*/*.lgt"), key=lambda path: path.parent.name).read_bytes()
        counts = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 33, 98)
        for word in counts:
            for half, value in ((0, 0x7FFFFFFF), (0, 0xFFFFFFFF), (4, 0xFFFFFFFF), (4, 0)):
                at = word * 8 + half
                damaged = whole[:at] + value.to_bytes(4, "little") + whole[at + 4 :]
                with self.subTest(word=word, half=half, value=value), tempfile.NamedTemporaryFile() as file:
                    Path(file.name).write_bytes(damaged)
                    subprocess.run([sys.executable, READER, file.name], capture_output=True, timeout=20, preexec_fn=limited)

    def test_refuses_what_is_no_recording_in_a_line(self):
        for path in (READER, ROOT / "nothing"):
            found = read(path)
            self.assertEqual((found.returncode, found.stdout, found.stderr.count("\n")), (1, "", 1), found.stderr)


if __name__ == "__main__":
    unittest.main()
