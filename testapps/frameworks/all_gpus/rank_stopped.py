# One of many ranks is stopped before its fifth all-reduce.
# code: LG208
# blame: rank 2 has not called collective 5 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and was stopped, by a signal or a debugger
import os
import signal

import torch
from job import dist, fault, rank, values

x = values()
for step in range(8):
    if rank == 2 and step == 4:
        torch.cuda.synchronize()
        fault()
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(x)
torch.cuda.synchronize()
