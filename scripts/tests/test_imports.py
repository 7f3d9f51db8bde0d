"""scripts/check-imports finds the circles of a crate and the arrows that run up, and the crates of this repository have none."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CHECK = ROOT / "scripts" / "check-imports"
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import imports  # noqa: E402


def check(*crates):
    return subprocess.run([sys.executable, CHECK, *crates], capture_output=True, text=True, timeout=120)


class Crates(unittest.TestCase):
    def crate(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = Path(folder.name) / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder.name


class Circles(Crates):
    def found(self, files):
        done = check(self.crate(files))
        self.assertEqual(done.returncode, 1 if "a circle of" in done.stdout else 0, done.stderr)
        return [line.split("a circle of ")[1] for line in done.stdout.splitlines() if "a circle of" in line]

    def test_two_files_that_use_each_other_are_a_circle_however_they_say_it(self):
        for use in ("use crate::b::B;", "use super::b::B;", "use {crate::b::{self, B}, std::io};", "fn f() { crate::b::g() }"):
            files = {"lib.rs": "mod a; mod b;", "a.rs": use, "b.rs": "pub struct B;\nuse crate::a;"}
            self.assertEqual(self.found(files), ["a, b"], use)

    def test_one_direction_is_none(self):
        files = {"lib.rs": "mod a; mod b;\nuse std::io;\nmod c;", "a.rs": "use crate::b::B;", "b.rs": "use std::fmt;", "c.rs": "use crate::{a, b};"}
        self.assertEqual(self.found(files), [])

    def test_folders_are_nodes_beside_files(self):
        files = {"lib.rs": "mod a; mod b;", "a/mod.rs": "mod deep;", "a/deep.rs": "use crate::b::B;", "b.rs": "use crate::a::x;"}
        self.assertEqual(self.found(files), ["a, b"])

    def test_a_folder_that_hands_out_what_its_files_hold_does_not_depend_on_them(self):
        files = {"lib.rs": "mod a;", "a/mod.rs": "mod one;\nmod two;\npub use one::One;\npub use two::Two;",
                 "a/one.rs": "pub struct One;", "a/two.rs": "use super::One;"}
        self.assertEqual(self.found(files), [])
        files["a/one.rs"] += "use super::Two;"
        self.assertEqual(self.found(files), ["one, two"])

    def test_what_a_folders_own_file_defines_and_uses_makes_it_a_node(self):
        files = {"lib.rs": "mod a;", "a/mod.rs": "mod one;\npub const N: u8 = 1;\npub fn f() { one::g() }", "a/one.rs": "use super::N;"}
        self.assertEqual(self.found(files), ["mod.rs, one"])

    def test_comments_strings_and_tests_are_left_out(self):
        text = '// use crate::a;\nconst S: &str = "crate::a::x";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n'
        self.assertEqual(self.found({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": text}), [])
        self.assertEqual(self.found({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": text + "use crate::a::A;"}), ["a, b"])

    def test_files_of_tests_are_left_out(self):
        files = {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;\n#[cfg(test)]\nmod samples;\n#[cfg(test)]\n#[path = \"a_t.rs\"]\nmod t;",
                 "a_t.rs": "use crate::b;", "a/samples.rs": "use crate::b;", "b.rs": "pub struct B;"}
        self.assertEqual(self.found(files), [])
        files["a_t.rs"] = files["a/samples.rs"] = "use crate::a;"
        self.assertEqual(self.found(files), [])

    def test_the_crates_of_this_repository_have_none(self):
        done = check(ROOT / "core", ROOT / "cli", ROOT / "shim")
        self.assertEqual(done.returncode, 0, done.stdout)


class Floors(Crates):
    FILES = {"main.rs": "mod high; mod low;\nuse high::x;\nuse low::y;", "high/mod.rs": "mod deep;", "high/deep.rs": "use crate::low::y;",
             "low/mod.rs": "mod deep;", "low/deep.rs": ""}

    def climbs(self, files, floors=("high", "low")):
        return [line.split("/src: ")[1] for line in imports.climbs(Path(self.crate(files)), floors)]

    def test_an_arrow_down_is_none(self):
        self.assertEqual(self.climbs(self.FILES), [])

    def test_an_arrow_up_is_found_however_deep_it_begins(self):
        files = dict(self.FILES, **{"low/deep.rs": "fn f() { crate::high::deep::g() }"})
        self.assertEqual(self.climbs(files), ["low -> high runs up: low::deep uses crate::high::deep::g"])

    def test_what_main_defines_is_above_every_folder(self):
        files = dict(self.FILES, **{"main.rs": "mod high; mod low;\npub struct Own;", "low/deep.rs": "use crate::Own;"})
        self.assertEqual(self.climbs(files), ["low -> mod.rs runs up: low::deep uses crate::Own"])

    def test_a_folder_without_a_floor_is_found(self):
        self.assertEqual(self.climbs(self.FILES, ("low",))[0], "high has no floor")

    def test_the_floors_are_the_folders_of_the_crate(self):
        for crate, floors in imports.FLOORS.items():
            folders = [path.name for path in (ROOT / crate / "src").iterdir() if path.is_dir()]
            self.assertEqual(sorted(folders), sorted(floors))


if __name__ == "__main__":
    unittest.main()
