# CuPy: parts of an array in pinned memory go to the device, through a kernel and back, on two streams in turn, with allocations in the streams' order.
# code: none
# needs: cupy numpy
import cupy
import numpy

cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
PARTS, SIZE = 8, 1 << 16


def pinned(values):
    memory = cupy.cuda.alloc_pinned_memory(values.nbytes)
    array = numpy.frombuffer(memory, values.dtype, values.size)
    array[...] = values
    return array


source = [pinned(numpy.full(SIZE, part, numpy.float32)) for part in range(PARTS)]
target = [pinned(numpy.zeros(SIZE, numpy.float32)) for _ in range(PARTS)]
streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
for part in range(PARTS):
    with streams[part % 2] as stream:
        here = cupy.empty(SIZE, cupy.float32)
        here.set(source[part], stream=stream)
        (cupy.sqrt(here) + 1).get(stream=stream, out=target[part], blocking=False)
for stream in streams:
    stream.synchronize()
print(f"{sum(float(part.mean()) for part in target):.3f}")
