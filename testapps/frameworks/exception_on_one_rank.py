# Rank 1 fails before its fifth all-reduce and ends at once; its launcher does not end the other rank.
# code: LG208
# blame: rank 1 has not called collective 5 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and was killed or ended without an exit; rank 0 waits in it\.$
import os
import sys

import torch
from job import dist, rank, values

x = values()
for step in range(8):
    if rank == 1 and step == 4:
        torch.cuda.synchronize()
        print("no such file", file=sys.stderr, flush=True)
        os._exit(1)
    dist.all_reduce(x)
torch.cuda.synchronize()
