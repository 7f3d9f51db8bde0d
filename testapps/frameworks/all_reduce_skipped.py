# Twenty times an all-reduce and a kernel. Rank 1 sleeps before its fourteenth, as one that waits for a file or a server.
# code: LG208
# blame: rank 1 has not called collective 14 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and its main thread .*all_reduce_skipped\.py:12
import time

import torch
from job import dist, rank, values

x = values()
for step in range(20):
    if rank == 1 and step == 13:
        time.sleep(600)
    dist.all_reduce(x)
    x /= 2
torch.cuda.synchronize()
