# Each rank broadcasts its own values: both send, and none receives.
# code: LG208
# blame: as collective 2 of communicator 0, rank 0 called Broadcast of 67,108,864 float32, root 0, and rank 1 Broadcast of 67,108,864 float32, root 1\.$
import torch
from job import dist, rank

# More than NCCL's buffers take.
x = torch.ones(1 << 26, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
dist.broadcast(x, src=rank)
torch.cuda.synchronize()
