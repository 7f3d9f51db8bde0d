# Rank 1 is a second and a half late for an all-reduce.
# code: none
import time

import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
time.sleep(1.5 * rank)
dist.all_reduce(x)
torch.cuda.synchronize()
print(f"rank {rank}: joined\n", end="", flush=True)
dist.destroy_process_group()
