"""Whether the pages of the documentation fit the tree: links, the promises' tests and benchmarks, and the results."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import doc_commands  # noqa: E402

FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text):
    """The anchors that the headings of a page have."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        broken = []
        for page in doc_commands.pages():
            text = page.read_text()
            for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page.parent / path if path else page
                if not file.exists() or anchor and anchor not in anchors(file.read_text()):
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
        self.assertEqual(broken, [])

    def test_anchors_are_those_of_the_viewer(self):
        self.assertEqual(anchors("# `lazyguard run --json`\n## Hang: a [page](x.md)\n"), {"lazyguard-run---json", "hang-a-page"})


class Map(unittest.TestCase):
    FOLDERS = ("core", "shim", "cli", "docs", "testapps", "kernels")

    def test_every_file_that_a_page_names_exists(self):
        """`core/src/settings.rs`; scripts are looked up by doc_commands."""
        lacking = []
        for page in doc_commands.pages():
            for name in re.findall(r"`([\w-]+/[\w./-]+)`", page.read_text()):
                if name.split("/")[0] in self.FOLDERS and not (ROOT / name).exists():
                    lacking.append(f"{page.relative_to(ROOT)}: {name}")
        self.assertEqual(lacking, [])

    def test_each_folder_of_the_crates_is_on_the_map(self):
        page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
        folders = [path.name for crate in ("core", "shim", "cli") for path in (ROOT / crate / "src").iterdir() if path.is_dir()]
        self.assertEqual([name for name in folders if f"`{name}`" not in page], [])


class Promises(unittest.TestCase):
    PAGE = ROOT / "docs" / "SPECIFICATION.md"

    def test_what_enforces_each_promise_exists(self):
        lacking = []
        for promise in self.promises():
            names = re.findall(r"`([\w./-]+)::(\w+)`", promise)
            if not names:
                lacking.append(f"nothing enforces: {promise}")
            for path, name in names:
                file = next((ROOT / "testapps/e2e/tests").rglob(path[4:]), ROOT / path) if path.startswith("e2e/") else ROOT / path
                if not file.is_file() or not re.search(self.definition(file, name), file.read_text(), re.M):
                    lacking.append(f"{path}::{name}")
        self.assertEqual(lacking, [])
        self.assertGreater(len(self.promises()), 30)

    def promises(self):
        """The lines of the lists, and the rows of the table without its head."""
        return [line for line in self.PAGE.read_text().splitlines() if line.startswith(("* ", "| ")) and not line.startswith("| program |")]

    @staticmethod
    def definition(file, name):
        """A function, a constant or a key: a mention is none."""
        return {".rs": rf"\bfn {name}\(|\bconst {name}:", ".json": rf'^\s*"{name}": '}.get(file.suffix, rf"^\s*def {name}\(|^{name}\s*=")


class Results(unittest.TestCase):
    def test_the_page_is_what_the_kept_runs_make(self):
        checked = subprocess.run([sys.executable, str(SCRIPTS / "results"), "--check"], capture_output=True, text=True)
        self.assertEqual(checked.stderr, "")

    def test_each_run_says_where_when_and_how_it_was_made(self):
        for path in (ROOT / "docs" / "results").glob("*.json"):
            report = json.loads(path.read_text())
            machine = ("processor", "commit") if path.name == "clean-clone.json" else ("card",) if report["simulated"] else ("card", "driver")
            for key in ("date", "command", *machine):
                self.assertTrue(report[key], f"{path}: {key}")


if __name__ == "__main__":
    unittest.main()
