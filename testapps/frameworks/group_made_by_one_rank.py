# Rank 0 makes a second process group, which all ranks have to take part in; rank 1 goes on with its all-reduce.
# code: LG208
# blame: ranks wait for each other: (rank 0 waits in ncclCommSplit of communicator 0 for rank 1|rank 1 waits in collective 2 of communicator 0 for rank 0|; ){3}\.
import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 0:
    dist.new_group([0, 1])
dist.all_reduce(x)
torch.cuda.synchronize()
