"""What packages are made with: archives, the note of the build, expressions of licences."""

import io
import sys
import tarfile
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import build_note  # noqa: E402
import dist_archive  # noqa: E402
from tools import Failure  # noqa: E402


def script(name):
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


class Archives(unittest.TestCase):
    ENTRIES = [dist_archive.text("b/two", "2", 0o755), dist_archive.text("a/one", "1")]

    def test_the_order_of_the_entries_does_not_matter(self):
        one = dist_archive.compressed(dist_archive.tar(self.ENTRIES, 1000), 9)
        self.assertEqual(one, dist_archive.compressed(dist_archive.tar(self.ENTRIES[::-1], 1000), 9))
        self.assertNotEqual(one, dist_archive.compressed(dist_archive.tar(self.ENTRIES, 2000), 9))

    def test_a_tar_has_folders_modes_and_one_time(self):
        with tarfile.open(fileobj=io.BytesIO(dist_archive.tar(self.ENTRIES, 1000))) as archive:
            found = [(member.name, member.isdir(), member.mode, member.mtime, member.uname) for member in archive]
        self.assertEqual(found, [("a", True, 0o755, 1000, "root"), ("b", True, 0o755, 1000, "root"),
                                 ("a/one", False, 0o644, 1000, "root"), ("b/two", False, 0o755, 1000, "root")])

    def test_the_members_of_an_ar_archive_begin_at_even_bytes(self):
        self.assertEqual(dist_archive.ar([("one", b"1"), ("two", b"22")], 7), b"!<arch>\n" + b"".join(
            name.ljust(16) + b"7".ljust(12) + b"0".ljust(6) * 2 + b"100644".ljust(8) + str(len(data)).encode().ljust(10) + b"`\n" + data + fill
            for name, data, fill in ((b"one", b"1", b"\n"), (b"two", b"22", b""))))


class Notes(unittest.TestCase):
    TEXT = b"0.1.0\n1\n13.0\n".ljust(build_note.ROOM, b"\0")

    def test_a_commit_is_written_and_replaced_and_nothing_else_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "library"
            path.write_bytes(b"before" + build_note.HEAD + self.TEXT + b"after")
            path.chmod(0o755)
            for commit in ("0123456789ab+", "ba9876543210", ""):
                build_note.stamp(path, commit)
                self.assertEqual(build_note.read(path), ("0.1.0", "1", "13.0", commit))
                self.assertTrue(path.read_bytes().startswith(b"before") and path.read_bytes().endswith(b"after"))
            self.assertEqual(path.read_bytes(), b"before" + build_note.HEAD + self.TEXT + b"after")
            self.assertEqual([entry.name for entry in Path(folder).iterdir()], ["library"])

    def test_a_file_without_the_note_or_with_two_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "library"
            for content in (b"", (build_note.HEAD + self.TEXT) * 2):
                path.write_bytes(content)
                with self.assertRaises(Failure):
                    build_note.stamp(path, "0123456789ab")
                self.assertEqual(path.read_bytes(), content)


class Licences(unittest.TestCase):
    def test_an_expression_is_met_by_one_of_its_ways(self):
        allowed = script("check-dependencies").allowed
        known = {"MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"}
        for expression in ("MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception OR GPL-2.0", "(GPL-3.0 OR MIT) AND Zlib",
                           "MIT AND Zlib OR GPL-3.0", "GPL-3.0 OR MIT AND Zlib"):
            self.assertTrue(allowed(expression, known), expression)
        for expression in ("GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR GPL-3.0) AND ISC", "MIT AND (ISC OR GPL-3.0)"):
            self.assertFalse(allowed(expression, known), expression)
        for expression in ("", "MIT OR", "(MIT", "MIT Zlib"):
            with self.assertRaises(ValueError, msg=expression):
                allowed(expression, known)


if __name__ == "__main__":
    unittest.main()
