# An extension synchronizes a stream without releasing Python's interpreter lock, and a host function on that stream is written in Python.
# code: LG207
# culprit: cuLaunchHostFunc.*
# needs: cupy
import ctypes

import cupy

busy = cupy.RawKernel(
    'extern "C" __global__ void busy() { for (long long until = clock64() + 1000000000LL; clock64() < until;) {} }', "busy"
)
holds_the_lock = ctypes.PyDLL("libcuda.so.1")
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    busy((1,), (1,), ())
stream.launch_host_func(print, "copied")
holds_the_lock.cuStreamSynchronize(ctypes.c_void_p(stream.ptr))
