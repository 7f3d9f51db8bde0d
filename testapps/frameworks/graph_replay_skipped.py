# An all-reduce in a CUDA graph: rank 1 replays it once less than rank 0. What graphs hold is not compared.
# code: LG208
# blame: every rank that could be compared has made the same calls of NCCL, and rank 0 waits in a collective
import time

import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(x)
    x /= 2
for step in range(10 - rank):
    graph.replay()
torch.cuda.synchronize()
time.sleep(600)
