"""Tests of check-neighbours' own logic: what it makes of its runs, and whether the page fits its list."""

import sys
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import debian  # noqa: E402
import neighbours  # noqa: E402
from neighbours import FAILS, FIRST, LAST, UNSEEN, WORKS  # noqa: E402


class Results(unittest.TestCase):
    def test_a_fault_is_one_of_the_whole_and_a_mixture_is_neither(self):
        self.assertEqual(neighbours.verdict([WORKS, None, WORKS]), (WORKS, ""))
        self.assertEqual(neighbours.verdict([UNSEEN, None]), (UNSEEN, ""))
        self.assertEqual(neighbours.verdict([WORKS, "lazy_pair: exit 66", UNSEEN]), (FAILS, "lazy_pair: exit 66"))
        self.assertNotIn(neighbours.verdict([WORKS, UNSEEN])[0], (WORKS, UNSEEN, FAILS))
        self.assertNotIn(neighbours.verdict([None])[0], (WORKS, UNSEEN, FAILS))


class ThePage(unittest.TestCase):
    def test_the_page_names_each_neighbour_with_the_expected_results(self):
        expected = {one.name: {order: one.expected.get(order, WORKS) for order in (FIRST, LAST)} for one in neighbours.NEIGHBOURS}
        self.assertEqual(neighbours.on_the_page(neighbours.PAGE.read_text()), expected)

    def test_what_is_written_is_read_again(self):
        one = neighbours.NEIGHBOURS[0]
        row = neighbours.row(one, neighbours.Place(Path("x"), "1.0"), {FIRST: (WORKS, ""), LAST: (FAILS, "why")})
        text = f"| a | b | c | d |\n{neighbours.BEGIN}{neighbours.table([row])}{neighbours.END}| e | f | g | h |\n"
        self.assertEqual(neighbours.on_the_page(text), {one.name: {FIRST: WORKS, LAST: FAILS}})


class Packages(unittest.TestCase):
    def test_packages_and_versions_come_from_the_addresses(self):
        uris = ("'http://deb/p/libfaketime_0.9.10-2.1_amd64.deb' libfaketime_0.9.10-2.1_amd64.deb 45 SHA256:1\n"
                "'http://deb/p/gcc_4%3a12.2.0-3_amd64.deb' gcc_4%3a12.2.0-3_amd64.deb 5 SHA256:2\n")
        self.assertEqual(debian.absent(uris), ["libfaketime=0.9.10-2.1", "gcc=4:12.2.0-3"])
        self.assertEqual(debian.absent(""), [])


if __name__ == "__main__":
    unittest.main()
