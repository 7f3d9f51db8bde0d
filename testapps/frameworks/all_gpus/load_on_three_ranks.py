# Three ranks have PyTorch compile an operation behind an all-reduce. The last rank waits for them before its own.
# code: LG202
# blame: .*collective 2 of communicator 0 \(AllReduce of 1,048,576 float32, sum\).* blocked behind it, LG202: cuModuleLoadData
import torch
from job import dist, fault, rank, size, store, values

x, y = values(), values()
dist.all_reduce(x)
torch.cuda.synchronize()
if rank == size - 1:
    fault()
    store.wait([f"rank {one} goes on" for one in range(3)])
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    dist.all_reduce(x)
if rank < 3:
    torch.erfinv(y)
    store.set(f"rank {rank} goes on", "1")
torch.cuda.synchronize()
