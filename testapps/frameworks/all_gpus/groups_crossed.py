# Tensor and data parallelism: each rank is in a group of neighbours and in one across them. Two ranks use their groups the other way round, so that
# four ranks wait for each other in a circle.
# code: LG208
# blame: ranks wait for each other: .*rank 0 waits in
import torch
from job import dist, fault, rank, size, values

neighbours = [dist.new_group([first, first + 1]) for first in range(0, size, 2)][rank // 2]
across = [dist.new_group(list(range(first, size, 2))) for first in range(2)][rank % 2]
x = values()


def use(groups):
    for group in groups:
        dist.all_reduce(x, group=group)
        torch.cuda.synchronize()


for step in range(3):
    use([neighbours, across])
dist.barrier()
torch.cuda.synchronize()
if rank == 0:
    fault()
use([across, neighbours] if rank in (0, 3) else [neighbours, across])
