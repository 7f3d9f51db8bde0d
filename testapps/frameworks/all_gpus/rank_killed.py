# The system kills one of many ranks before its fifth all-reduce, and the launcher does not end the others.
# code: LG208
# blame: rank 2 has not called collective 5 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and (was killed|ended)
import os
import signal

import torch
from job import dist, fault, rank, values

x = values()
for step in range(8):
    if rank == 2 and step == 4:
        torch.cuda.synchronize()
        fault()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)
torch.cuda.synchronize()
