# Rank 0 submits an all-reduce, calls a function of torch.compile for the first time, and only then lets rank 1 go on to its own all-reduce.
# code: LG202
# blame: rank 0 has called collective 2 of communicator 0 \(AllReduce of 1,048,576 float32, sum\) and is blocked behind it, LG202: .*; rank 1 has not called it, and its main thread .*compiled_function_under_all_reduce\.py:17
import torch
from job import dist, rank, store, values


@torch.compile
def activation(x):
    return torch.nn.functional.gelu(x * 2 + 1)


x, y = values(), values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == 1:
    store.wait(["go"])
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    dist.all_reduce(x)
activation(y)
store.set("go", "1")
torch.cuda.synchronize()
