# Fully sharded training. One of many ranks raises in its fourth step, as for a bad batch, and ends; its launcher waits for all.
# code: LG208
# blame: rank 2 has not called collective \d+ of communicator \d+ \(.*float32.*\), and ended
import torch
from job import fault, rank, small_network
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
model = small_network()
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(6):
    optimizer.zero_grad()
    if rank == 2 and step == 3:
        fault()
        raise ValueError("bad batch")
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
torch.cuda.synchronize()
