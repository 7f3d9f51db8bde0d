"""Builds what scripts/demo shows and nothing else, and prints its progress.

Usage: demo_build.py [ARCHITECTURE]   the architecture of the card it runs on (90); without one, what the simulated driver needs
"""

import sys

import build
import native_build

SIMULATED = ("simdriver/libcuda.so.1", "kernels/lazy_pair.host.so", "apps/lazy_pair")
ON_A_CARD = ("runtime/lazy_pair",)


def simulated(say):
    build.fetch_cuda(say, "--headers")
    build.under_way("compiling the simulated driver and lazy_pair with g++")
    native_build.build(say, SIMULATED, native_build.as_it_is(native_build.OF_THE_TESTS))


def on_a_card(architecture):
    def side(say):
        build.fetch_cuda(say)
        build.under_way(f"compiling lazy_pair for sm_{architecture} with nvcc")
        native_build.build(say, ON_A_CARD, [architecture])
    return side


def rust(say):
    build.under_way("compiling the library and the command with cargo")
    build.everyday(say)


build.run([rust, on_a_card(sys.argv[1]) if len(sys.argv) > 1 else simulated])
