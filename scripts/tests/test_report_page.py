"""The page of a report (`--html`): its policy names its style and its script, and its colours can be told apart.

`scripts/check-page` opens pages in a browser.
"""

import base64
import hashlib
import re
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "cli" / "src" / "forms" / "html"
STYLE = (FOLDER / "page.css").read_text()
# What WCAG 2.2 asks of text, and of what is no text.
TEXT, SHAPE = 4.5, 3.0
SLICES = ("load", "preload", "submission", "memory", "communication", "wait", "other", "blocked", "hazard")


def digest(name):
    return base64.b64encode(hashlib.sha256((FOLDER / name).read_bytes()).digest()).decode()


def luminance(colour):
    parts = (int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def schemes():
    """The colours of both schemes, by their names."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]


class Policy(unittest.TestCase):
    def test_it_names_style_and_script_as_they_are(self):
        policy = re.search(r'const POLICY: &str =\s*"([^"]*)"', (FOLDER / "mod.rs").read_text()).group(1)
        self.assertEqual(re.findall(r"(\w+)-src 'sha256-([^']*)'", policy), [("style", digest("page.css")), ("script", digest("page.js"))])
        self.assertNotIn("unsafe", policy)


class Colours(unittest.TestCase):
    def test_the_formula_is_that_of_wcag(self):
        self.assertAlmostEqual(contrast("#000000", "#ffffff"), 21)
        self.assertAlmostEqual(contrast("#777777", "#ffffff"), 4.48, places=2)

    def test_both_schemes_have_every_colour(self):
        light, dark = schemes()
        self.assertEqual(light.keys(), dark.keys())
        self.assertEqual(set(re.findall(r"var\(--([\w-]+)\)", STYLE)), light.keys())

    def test_text_can_be_read_and_shapes_can_be_seen(self):
        texts = [(text, on) for text in ("fg", "soft", "link") for on in ("bg", "panel", "bad-panel")]
        texts += [("bad", "bg"), ("good", "good-panel"), ("fg", "good-panel"), *(("on-slice", slice) for slice in SLICES)]
        shapes = [(slice, on) for slice in (*SLICES, "line", "culprit", "fg") for on in ("bg", "panel")]
        for colours in schemes():
            wrong = [
                f"{one} on {on}: {contrast(colours[one], colours[on]):.2f}"
                for least, pairs in ((TEXT, texts), (SHAPE, shapes)) for one, on in pairs
                if contrast(colours[one], colours[on]) < least
            ]
            self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
