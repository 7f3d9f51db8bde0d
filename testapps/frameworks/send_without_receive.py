# Rank 0 sends twice, and rank 1 receives once. The first connects the two, for which NCCL waits on the host.
# code: LG208
# blame: rank 1 has not called the 2nd ncclRecv from rank 0 on communicator 0, and its main thread .*send_without_receive\.py:19.*; rank 0 waits in its ncclSend\.$
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
