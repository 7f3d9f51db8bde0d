# One of many ranks sleeps before its fourteenth all-reduce.
# code: LG208
# blame: rank 2 has not called collective 14 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and its main thread .*collective_skipped\.py:\d+
import time

import torch
from job import dist, fault, rank, values

x = values()
for step in range(20):
    if rank == 2 and step == 13:
        fault()
        time.sleep(600)
    dist.all_reduce(x)
torch.cuda.synchronize()
