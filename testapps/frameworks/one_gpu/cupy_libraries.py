# CuPy: a product, transforms, a sort, a kernel of its own, and a kernel that is compiled from source.
# code: none
# needs: cupy
import cupy

x = cupy.random.RandomState(0).rand(256, 256).astype(cupy.float32)
squares = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x * x", "squares")
add = cupy.RawKernel('extern "C" __global__ void add(const float* x, float* y, int n) { int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) y[i] += x[i]; }', "add")
y = squares(x)
add((256,), (256,), (x, y, x.size))
back = cupy.fft.ifft2(cupy.fft.fft2(y)).real
ordered = cupy.sort((x @ x).ravel())
print(f"{float(cupy.abs(back - y).max()) < 1e-3} {float(ordered[0]) <= float(ordered[-1])} {float(y.sum() / x.size):.2f}")
