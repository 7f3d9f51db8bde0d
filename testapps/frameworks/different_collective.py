# The third collective of rank 0 is an all-reduce, that of rank 1 an all-gather.
# code: LG208
# blame: rank 1 has launched ncclDevKernel_AllGather_
import torch
from job import dist, rank, values

x = values()
for step in range(2):
    dist.all_reduce(x)
    torch.cuda.synchronize()
if rank == 0:
    dist.all_reduce(x)
else:
    dist.all_gather_into_tensor(torch.empty(2 << 20, device="cuda"), x)
torch.cuda.synchronize()
