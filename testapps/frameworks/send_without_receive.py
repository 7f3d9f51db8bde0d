# Rank 0 sends twice, and rank 1 receives once. The first connects the two, for which NCCL waits on the host.
# code: LG208
# blame: rank 1 has not launched collective 3 (ncclDevKernel_SendRecv
import time

import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
# More than NCCL's buffers take.
x = torch.ones(1 << 26, device="cuda")
if rank == 0:
    dist.send(x, 1)
    dist.send(x, 1)
else:
    dist.recv(x, 0)
    time.sleep(600)
torch.cuda.synchronize()
