"""The host's time of one collective of NCCL, of one rank, in place: NCCL has nothing to do, so that this is the cost of the call.

Prints `collective_ns median=N`, or `no libnccl.so.2`.

Must not know of the guard: it is an unmodified program.
"""

import ctypes
import gc
import importlib.util
import statistics
import sys
import time
from pathlib import Path

CALLS, BATCHES, WARM_UP = 2000, 60, 10
FLOAT32, SUM, COUNT = 7, 0, 1024


def library():
    try:
        return ctypes.CDLL("libnccl.so.2")
    except OSError:
        package = importlib.util.find_spec("nvidia.nccl")
        found = [path for folder in (package.submodule_search_locations if package else []) for path in Path(folder).glob("lib/libnccl.so.2")]
        return ctypes.CDLL(str(found[0])) if found else None


def checked(what, result):
    if result != 0:
        sys.exit(f"{what}: error {result}")


def main():
    nccl = library()
    if nccl is None:
        print("no libnccl.so.2")
        return
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, stream, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    checked("cuInit", driver.cuInit(0))
    checked("cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), 0))
    checked("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    checked("cuCtxSetCurrent", driver.cuCtxSetCurrent(context))
    checked("cuMemAlloc", driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * COUNT)))
    checked("cuStreamCreate", driver.cuStreamCreate(ctypes.byref(stream), 1))
    communicator = ctypes.c_void_p()
    checked("ncclCommInitAll", nccl.ncclCommInitAll(ctypes.byref(communicator), 1, (ctypes.c_int * 1)(0)))
    arguments = (ctypes.c_void_p(memory.value), ctypes.c_void_p(memory.value), ctypes.c_size_t(COUNT), FLOAT32, SUM, communicator, stream)
    call = nccl.ncclAllReduce
    checked("ncclAllReduce", call(*arguments))
    gc.disable()
    batches = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call(*arguments)
        batches.append((time.perf_counter_ns() - begin) / CALLS)
    checked("cuCtxSynchronize", driver.cuCtxSynchronize())
    print(f"collective_ns median={statistics.median(batches[WARM_UP:]):.1f}")


main()
