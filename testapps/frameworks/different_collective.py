# The third collective of rank 0 is an all-reduce, that of rank 1 an all-gather.
# code: LG208
# blame: as collective 3 of communicator 0, rank 0 called AllReduce of 1,048,576 float32, sum, and rank 1 AllGather of 1,048,576 float32\.$
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
