"""The crates stay small: a budget of production lines a crate, which a commit raises only with its reason.

Production is what ships: the sources of a crate without the files and modules that only tests compile.
"""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = {"core": 24_200, "shim": 16_884, "cli": 24_070}
OF_TESTS = re.compile(r"(_tests|/tests|/test_[a-z_]+)\.rs$|/tests/|/suite/|/fuzz/")


def production(text):
    """The lines before a file's module of tests."""
    lines = text.splitlines()
    for at, line in enumerate(lines[:-1]):
        if line.strip() == "#[cfg(test)]" and re.match(r"\s*(pub(\(.*\))? )?mod \w+ \{", lines[at + 1]):
            return lines[:at]
    return lines


def counted(crate):
    command = ["git", "-C", ROOT, "ls-files", f"{crate}/src/*.rs"]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sum(len(production((ROOT / name).read_text())) for name in files if not OF_TESTS.search(name))


class Lines(unittest.TestCase):
    def test_what_only_tests_compile_does_not_count(self):
        self.assertEqual(production("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n"), ["fn a() {}", ""])
        self.assertEqual(len(production("#[cfg(test)]\nmod a_tests;\nfn b() {}\n")), 3)
        self.assertTrue(OF_TESTS.search("core/src/diagnose/test_trace.rs") and not OF_TESTS.search("core/src/diagnose/paths.rs"))

    def test_each_crate_keeps_to_its_budget(self):
        for crate, budget in BUDGETS.items():
            lines = counted(crate)
            self.assertGreater(lines, budget // 2, f"{crate}: the count finds too little")
            self.assertLessEqual(lines, budget, f"{crate}: raise the budget with a reason, or take something away")


class Comments(unittest.TestCase):
    OPENS = re.compile(r"//[/!]? (?:.*[.?!] )?(?:Of|What|Where) ")

    def test_what_opens_a_sentence_is_told_from_the_rest(self):
        for comment in ("/// Of the thread.", "    // Where it lies.", "f(); // Done. What follows is new.", "//! What it does:"):
            self.assertRegex(comment, self.OPENS)
        for line in ("/// Whether it lies where the other does.", "let what = What::Of;", "/// Offers what it has."):
            self.assertNotRegex(line, self.OPENS)

    def test_no_sentence_of_a_comment_opens_with_of_what_or_where(self):
        found = []
        for crate in BUDGETS:
            for path in sorted((ROOT / crate / "src").rglob("*.rs")):
                lines = enumerate(path.read_text().splitlines(), 1)
                found += [f"{path.relative_to(ROOT)}:{at}: {line.strip()}" for at, line in lines if self.OPENS.search(line)]
        self.assertEqual(found, [], "give the sentence a named subject")


if __name__ == "__main__":
    unittest.main()
