# Numba: kernels on two streams, with shared memory and atomic additions.
# code: none
# needs: numba numba_cuda numpy
import numpy
from numba import cuda, float32


@cuda.jit
def scale(x, by):
    at = cuda.grid(1)
    if at < x.size:
        x[at] *= by


@cuda.jit
def add_up(x, total):
    part = cuda.shared.array(128, float32)
    at, mine = cuda.grid(1), cuda.threadIdx.x
    part[mine] = x[at] if at < x.size else 0
    cuda.syncthreads()
    half = 64
    while half:
        if mine < half:
            part[mine] += part[mine + half]
        cuda.syncthreads()
        half //= 2
    if mine == 0:
        cuda.atomic.add(total, 0, part[0])


streams, totals = [cuda.stream() for _ in range(2)], []
for number, stream in enumerate(streams):
    x = cuda.to_device(numpy.ones(1 << 14, numpy.float32), stream=stream)
    total = cuda.to_device(numpy.zeros(1, numpy.float32), stream=stream)
    for _ in range(3):
        scale[128, 128, stream](x, 2.0 + number)
    add_up[128, 128, stream](x, total)
    totals.append((stream, total))
print(" ".join(f"{total.copy_to_host(stream=stream)[0]:.0f}" for stream, total in totals))
