"""A CuPy program: array expressions, a kernel of its own, a sort, and two streams.

Prints one JSON line. CuPy compiles as it goes, and keeps what it compiled: with CUPY_CACHE_DIR in an empty folder each run does
so anew. Must not know of the guard.
"""

import json

import cupy

numbers = cupy.arange(1 << 20, dtype=cupy.float32)
squares = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squares")
first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
with first:
    sums = [float(squares(numbers, n).sum()) for n in range(4)]
with second:
    product = numbers.reshape(1024, 1024) @ numbers.reshape(1024, 1024).T
with first:
    sorted_numbers = cupy.sort(numbers[::-1])
    spectrum = cupy.fft.fft(numbers[:4096])
first.synchronize()
second.synchronize()
print(json.dumps({"sums": len(sums), "product": product.shape[0], "smallest": float(sorted_numbers[0]), "spectrum": int(spectrum.size)}))
