# Two process groups in one order on both ranks, their collectives beside each other on streams of their own.
# code: none
import torch
from job import dist, rank, values

x, all_of_x = values(), torch.empty(2 << 20, device="cuda")
one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
for step in range(10):
    reduced = dist.all_reduce(x, group=one, async_op=True)
    gathered = dist.all_gather_into_tensor(all_of_x, torch.full_like(x, rank + step), group=two, async_op=True)
    reduced.wait()
    gathered.wait()
    x /= 2
print(f"rank {rank}: {x.mean().item()} {all_of_x.mean().item()}\n", end="", flush=True)
dist.destroy_process_group()
