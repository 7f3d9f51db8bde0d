# Rank 1 leaves out the backward pass of a batch whose loss is not finite. Its later gradients meet those of other batches, and the last
# all-reduce of rank 0 meets none.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 \(AllReduce of [\d,]+ float32, sum\), and its main thread .*ddp_skips_backward\.py:22.*; rank 0 waits in it\.$
import time

import torch
from job import dist, rank, small_network

torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(small_network())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(8):
    scale = float("inf") if rank == 1 and step == 4 else 1.0
    loss = model(torch.randn(64, 256, device="cuda")).square().mean() * scale
    if torch.isfinite(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
# Rank 1 evaluates the network on the host.
if rank == 1:
    time.sleep(600)
torch.cuda.synchronize()
