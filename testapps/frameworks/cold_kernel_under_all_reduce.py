# Rank 0 submits an all-reduce, uses an operation for the first time, and only then lets rank 1 go on to its own all-reduce.
# code: LG202
# blame: rank 1 has not launched collective 2 (ncclDevKernel_AllReduce_Sum_f32_
# blocked: LG202: 
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
