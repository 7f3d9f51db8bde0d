# A pipeline: each rank sends ten micro-batches to the next one. Rank 1 leaves one out.
# code: LG208
# blame: rank 1 has not called the 10th ncclSend to rank 2 on communicator 0
import time

import torch
from job import dist, fault, rank, size, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
for number in range(10):
    if rank > 0:
        dist.recv(x, rank - 1)
    if rank == 1 and number == 4:
        fault()
    elif rank < size - 1:
        dist.send(x, rank + 1)
torch.cuda.synchronize()
if rank < 2:
    time.sleep(600)
