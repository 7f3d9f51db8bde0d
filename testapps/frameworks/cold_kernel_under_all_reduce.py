# Rank 0 submits an all-reduce, uses an operation for the first time, and only then lets rank 1 go on to its own all-reduce.
# code: LG202
# blame: rank 0 has called collective 2 of communicator 0 \(AllReduce of 1,048,576 float32, sum\) and is blocked behind it, LG202: .*; rank 1 has not called it, and its main thread .*cold_kernel_under_all_reduce\.py:12
# with-profile: completes
import torch
from job import dist, rank, store, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 1:
    store.wait(["go"])
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    dist.all_reduce(x)
torch.special.bessel_j0(torch.linspace(0, 1, 4, device="cuda"))
store.set("go", "1")
torch.cuda.synchronize()
