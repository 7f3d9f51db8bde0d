# Fully sharded training, twenty steps.
# code: none
import torch
from job import dist, rank, small_network
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
model = small_network()
for layer in (model[0], model[2]):
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
torch.manual_seed(rank)
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
print(f"rank {rank}: loss {loss.item():.4f}\n", end="", flush=True)
dist.destroy_process_group()
