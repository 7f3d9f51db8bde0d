# Fully sharded: rank 1 has a batch less than rank 0, and leaves the loop.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator \d+ \(AllGather of [\d,]+ float32\), and its main thread .*fsdp_leaves_loop_early\.py:21.*; rank 0 waits in it\.$
import time

import torch
from job import rank, small_network
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
model = small_network()
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(6 - rank):
    optimizer.zero_grad()
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
torch.cuda.synchronize()
# Rank 1 writes a checkpoint.
if rank == 1:
    time.sleep(600)
