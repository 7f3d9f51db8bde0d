# A training that ends: data parallel, fully sharded, or a pipeline that sends to the next rank. The seconds to the first step, of an early one and of a late one go to standard output.
# code: none
# arguments: data sharded pipeline
import sys
import time
from statistics import median

began = time.monotonic()
import torch  # noqa: E402
from job import dist, rank, size, small_network  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

kind, STEPS = sys.argv[1], 2000
torch.manual_seed(0)
model = small_network()
if kind == "data":
    model = torch.nn.parallel.DistributedDataParallel(model)
elif kind == "sharded":
    fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
torch.manual_seed(rank)
times = []
for step in range(STEPS):
    batch = torch.randn(64, 256, device="cuda")
    if kind == "pipeline":
        received = torch.empty_like(batch)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, batch, (rank + 1) % size), dist.P2POp(dist.irecv, received, (rank - 1) % size)]):
            work.wait()
        batch = received
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    loss = loss.item()
    times.append(time.monotonic())
steps = [after - before for before, after in zip(times, times[1:])]
print(f"rank {rank}: loss {loss:.4f}\nseconds {times[0] - began:.3f} {median(steps[50:300]):.6f} {median(steps[1000:]):.6f}\n", end="", flush=True)
dist.destroy_process_group()
