"""The kernels of testapps/inside: their statements are those that the cores of a card have shown."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import gpu_inside  # noqa: E402


class Inside(unittest.TestCase):
    def test_each_statement_is_the_sentence_of_its_core(self):
        programs = gpu_inside.programs()
        said = (ROOT / "core" / "src" / "gpu_core" / "inside_tests.rs").read_text()
        for name, program in programs.items():
            self.assertTrue((ROOT / "core" / "tests" / "gpu_cores" / "inside" / f"{name}.core").is_file(), name)
            self.assertEqual(program.inside is not None, f'"{program.culprit}: {program.inside}' in said.replace("\\\n", ""), name)
            self.assertIn(program.missing or "", said, name)
        self.assertEqual((sum(program.code is not None for program in programs.values()), len(programs)), (10, 15))

    def test_a_source_without_a_result_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for text in ("// nothing\n", "// expect: LG210 culprit=k\n", "// expect: slow\n// inside: x\n", "// expect: slow\n// expect: slow\n"):
                path = Path(folder) / "k.cu"
                path.write_text(text)
                with self.assertRaises(ValueError, msg=text):
                    gpu_inside.stated(path)


if __name__ == "__main__":
    unittest.main()
