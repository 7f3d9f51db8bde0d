# Distributed data parallel, thirty steps.
# code: none
import torch
from job import dist, rank, small_network

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(small_network())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
torch.manual_seed(rank)
for step in range(30):
    optimizer.zero_grad()
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
print(f"rank {rank}: loss {loss.item():.4f}\n", end="", flush=True)
dist.destroy_process_group()
