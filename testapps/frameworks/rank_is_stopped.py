# Rank 1 is stopped, as by a debugger or a scheduler, before its fifth all-reduce.
# code: LG208
# blame: rank 1 has not called collective 5 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and was stopped, by a signal or a debugger; rank 0 waits in it\.$
import os
import signal

import torch
from job import dist, rank, values

x = values()
for step in range(8):
    if rank == 1 and step == 4:
        torch.cuda.synchronize()
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(x)
torch.cuda.synchronize()
