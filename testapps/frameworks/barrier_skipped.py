# A barrier stands in a branch that only rank 0 takes; rank 1 reads its next file.
# code: LG208
# blame: rank 1 has not called collective 2 of communicator 0 \(AllReduce of 1 \w+, sum\), and its main thread .*barrier_skipped\.py:15.*; rank 0 waits in it\.$
import time

import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 0:
    dist.barrier()
else:
    time.sleep(600)
