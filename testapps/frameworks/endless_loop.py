# Rank 1 computes on the host without end before its third all-reduce.
# code: LG208
# blame: rank 1 has not called collective 3 of communicator 0 \(AllReduce of 1,048,576 float32, sum\), and its main thread computes in .*\(endless_loop\.py:\d+\)
import torch
from job import dist, rank, values

x = values()
turns = 0
for step in range(5):
    while rank == 1 and step == 2:
        turns += 1
    dist.all_reduce(x)
torch.cuda.synchronize()
