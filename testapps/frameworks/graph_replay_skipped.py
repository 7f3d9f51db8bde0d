# An all-reduce in a CUDA graph: rank 1 replays it once less than rank 0.
# code: LG208
# blame: rank 1 has not launched collective 11 \(a graph with ncclDevKernel_AllReduce_Sum_f32_\w+\), and its main thread .*graph_replay_skipped\.py:19.*; rank 0 waits in it\.$
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
