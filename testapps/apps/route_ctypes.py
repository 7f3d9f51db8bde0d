#!/usr/bin/env python3
"""Route: Python's ctypes, which is dlopen and dlsym on that handle.

bare:    completes, prints "route ok 3"
guarded: completes, same output, and both launches are recorded
off:     completes, no verdict

usage: route_ctypes.py [FOLDER OF KERNELS]
"""

import ctypes
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def kernels_folder():
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    beside, built = HERE.parent / "kernels", HERE.parent.parent / "target" / "kernels"
    return beside if beside.is_dir() else built


def main():
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(driver, name)(*arguments)
        if result != 0:
            print(f"{name}: CUDA error ({result})", file=sys.stderr)
            sys.exit(3)

    device, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    library, add, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    name = ctypes.create_string_buffer(256)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", name, 256, device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 0)
    suffix = ".host.so" if name.value.startswith(b"Simulated") else ".fatbin"
    code = (kernels_folder() / f"job{suffix}").read_bytes()
    call("cuLibraryLoadData", ctypes.byref(library), code, None, None, 0, None, None, 0)
    call("cuLibraryGetKernel", ctypes.byref(add), library, b"add")
    call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4))
    call("cuMemsetD32_v2", out, 0, ctypes.c_size_t(1))
    for number in (1, 2):
        value = ctypes.c_int(number)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(value))
        call("cuLaunchKernel", add, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)
    call("cuStreamSynchronize", stream)
    total = ctypes.c_int()
    call("cuMemcpyDtoH_v2", ctypes.byref(total), out, ctypes.c_size_t(4))
    call("cuMemFree_v2", out)
    call("cuStreamDestroy_v2", stream)
    call("cuLibraryUnload", library)
    print(f"route ok {total.value}")
    sys.exit(0 if total.value == 3 else 4)


main()
