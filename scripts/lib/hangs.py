#!/usr/bin/env python3
"""lazy_pair from Python: k1 spins until k2, which is launched for the first time behind it, releases it. Hangs in cuCtxSynchronize.

usage: hangs.py FOLDER_OF_KERNELS
"""

import ctypes
import sys
from pathlib import Path


def main():
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(driver, name)(*arguments)
        if result != 0:
            sys.exit(f"{name}: CUDA error ({result})")

    device, context, library = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    code = (Path(sys.argv[1]) / "lazy_pair.host.so").read_bytes()
    call("cuLibraryLoadData", ctypes.byref(library), code, None, None, 0, None, None, 0)
    for name in (b"k1", b"k2"):
        kernel, stream = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuLibraryGetKernel", ctypes.byref(kernel), library, name)
        call("cuStreamCreate", ctypes.byref(stream), 0)
        call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
    call("cuCtxSynchronize")


main()
