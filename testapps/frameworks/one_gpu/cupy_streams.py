# CuPy: expressions, a reduction and a host function on three streams that are tied by events.
# code: none
# needs: cupy
import cupy

streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
x = cupy.arange(1 << 20, dtype=cupy.float64)
cupy.cuda.Device().synchronize()
told = []
for step in range(10):
    for before, stream in zip(streams[-1:] + streams, streams):
        stream.wait_event(before.record())
        with stream:
            x = x * 0.5 + step
streams[-1].launch_host_func(told.append, "done")
for stream in streams:
    stream.synchronize()
print(f"{float(x.sum()):.3f} {told}")
