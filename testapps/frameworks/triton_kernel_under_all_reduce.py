# Rank 0 submits an all-reduce, launches a Triton kernel for the first time, and only then lets rank 1 go on to its own all-reduce.
# code: LG202
# blame: rank 0 has called collective 2 of communicator 0 \(AllReduce of 1,048,576 float32, sum\) and is blocked behind it, LG202: .*; rank 1 has not called it, and its main thread .*triton_kernel_under_all_reduce\.py:22
# needs: torch triton
# with-profile: completes
import torch
import triton
import triton.language as tl
from job import dist, rank, store, values


@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


x, y = values(), values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 1:
    store.wait(["go"])
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    dist.all_reduce(x)
add_one[(1024,)](y, 1 << 20, BLOCK=1024)
store.set("go", "1")
torch.cuda.synchronize()
