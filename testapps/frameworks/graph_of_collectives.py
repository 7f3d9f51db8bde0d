# All-reduces captured in a CUDA graph, replayed ten times.
# code: none
import torch
from job import dist, rank, values

x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(x)
    x /= 2
for step in range(10):
    graph.replay()
torch.cuda.synchronize()
print(f"rank {rank}: replayed\n", end="", flush=True)
del graph
dist.destroy_process_group()
