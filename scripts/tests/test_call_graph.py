"""Tests of how the built library's calls are followed, on a listing as objdump and readelf print it."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import call_graph  # noqa: E402

LISTING = """
0000000000001000 <cuLaunchKernel>:
    1000:\tcall   2000 <_ZN9lazyguard7runtime4door6inside17h0123456789abcdefE>
    1005:\tcall   *-0xb0(%rbp)
    100a:\tje     1000 <cuLaunchKernel>
    100c:\tret

0000000000002000 <_ZN9lazyguard7runtime4door6inside17h0123456789abcdefE>:
    2000:\tcall   *0x20(%rip)        # 9000 <pthread_setcancelstate@GLIBC_2.2.5>
    2006:\tjmp    3000 <part>

0000000000003000 <part>:
    3000:\tcall   1100 <nanosleep@plt>
    3005:\tjne    3010 <part+0x10>
    3010:\tjmp    *%rax
""".splitlines()
RELOCATIONS = ["0000000000009000  0000000100000006 R_X86_64_GLOB_DAT      0000000000000000 pthread_setcancelstate@GLIBC_2.2.5 + 0"]
FRAMES = """
00000000 0000000000000014 00000000 CIE
  Augmentation:          "zR"

00000018 0000000000000024 0000001c FDE cie=00000000 pc=0000000000001000..000000000000100d
00000040 0000000000000014 00000000 CIE
  Augmentation:          "zPLR"

00000058 0000000000000024 0000001c FDE cie=00000040 pc=0000000000003000..0000000000003012
""".splitlines()
DOOR = "_ZN9lazyguard7runtime4door6inside17h0123456789abcdefE"


class TheCallGraph(unittest.TestCase):
    def setUp(self):
        self.graph = call_graph.build(LISTING, RELOCATIONS, FRAMES)

    def test_calls_of_the_library_and_of_others_and_through_pointers_are_told_apart(self):
        self.assertEqual(self.graph.calls, {"cuLaunchKernel": {DOOR}, DOOR: {"part"}})
        self.assertEqual(self.graph.imports, {DOOR: {"pthread_setcancelstate"}, "part": {"nanosleep"}})
        self.assertEqual(self.graph.indirect, {"cuLaunchKernel"})

    def test_a_frame_with_a_personality_has_landing_pads(self):
        self.assertEqual(self.graph.landing_pads, {"part"})

    def test_what_lies_behind_the_door_is_reached_only_from_inside(self):
        outside = call_graph.reached(self.graph, {"cuLaunchKernel"}, lambda name: name == DOOR)
        self.assertEqual(set(outside), {"cuLaunchKernel", DOOR})
        inside = call_graph.reached(self.graph, [DOOR])
        self.assertEqual(call_graph.way(inside, "part"), "lazyguard::runtime::door::inside -> part")


if __name__ == "__main__":
    unittest.main()
