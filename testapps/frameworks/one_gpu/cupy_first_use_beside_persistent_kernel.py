# CuPy compiles and loads the kernel of an expression while a persistent kernel of the program runs.
# code: LG202
# culprit: spin_until
# needs: cupy
# with-profile: completes
import cupy
import numpy

spin_until = cupy.RawKernel(
    'extern "C" __global__ void spin_until(volatile unsigned* flag) { while (*flag == 0) {} }', "spin_until"
)
memory = cupy.cuda.alloc_pinned_memory(4)
flag = numpy.frombuffer(memory, numpy.uint32, 1)
flag[0] = 0
persistent, working = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
with persistent:
    spin_until((1,), (1,), (numpy.uint64(memory.ptr),))
with working:
    x = cupy.arange(1024, dtype=cupy.float32)
    total = x.sum()
flag[0] = 1
working.synchronize()
print(float(total))
