# Distributed data parallel, thirty steps.
# code: none
import torch
from job import dist, rank, values

torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(30):
    optimizer.zero_grad()
    loss = model(torch.randn(64, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
print(f"rank {rank}: trained\n", end="", flush=True)
dist.destroy_process_group()
