"""Comments of the crates name their subject: no sentence of one opens with Of, What or Where."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("core", "shim", "cli")


class Comments(unittest.TestCase):
    OPENS = re.compile(r"//[/!]? (?:.*[.?!] )?(?:Of|What|Where) ")

    def test_what_opens_a_sentence_is_told_from_the_rest(self):
        for comment in ("/// Of the thread.", "    // Where it lies.", "f(); // Done. What follows is new.", "//! What it does:"):
            self.assertRegex(comment, self.OPENS)
        for line in ("/// Whether it lies where the other does.", "let what = What::Of;", "/// Offers what it has."):
            self.assertNotRegex(line, self.OPENS)

    def test_no_sentence_of_a_comment_opens_with_of_what_or_where(self):
        found = []
        for crate in CRATES:
            for path in sorted((ROOT / crate / "src").rglob("*.rs")):
                lines = enumerate(path.read_text().splitlines(), 1)
                found += [f"{path.relative_to(ROOT)}:{at}: {line.strip()}" for at, line in lines if self.OPENS.search(line)]
        self.assertEqual(found, [], "give the sentence a named subject")


if __name__ == "__main__":
    unittest.main()
