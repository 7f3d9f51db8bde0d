# Rank 1 fails before its fifth all-reduce and ends at once; its launcher does not end the other rank.
# code: LG208
# blame: rank 1 has not launched collective 5 (ncclDevKernel_AllReduce_Sum_f32_
# doing: and was killed or ended without an exit
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
