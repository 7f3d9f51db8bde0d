# Rank 1 alone compiles a function for the first time, while rank 0 waits for it in an all-reduce.
# code: none
# hang-after: 30s
import torch
from job import dist, rank, values


@torch.compile
def activation(x):
    return torch.nn.functional.relu(x * 2 + 1)


x = values()
dist.all_reduce(x)
torch.cuda.synchronize()
x = activation(x) if rank == 1 else torch.nn.functional.relu(x * 2 + 1)
dist.all_reduce(x)
print(f"rank {rank}: {x.mean().item()}\n", end="", flush=True)
dist.destroy_process_group()
