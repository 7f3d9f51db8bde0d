# Two ranks exchange values, and each looks at what it receives before it sends.
# code: LG208
# blame: ranks wait for each other: (rank 0 waits in ncclRecv of communicator 0 for rank 1|rank 1 waits in ncclRecv of communicator 0 for rank 0|; ){3}\.
import torch
from job import dist, rank, values

x, other = values(), 1 - rank
# Both directions have been in use before.
for sender in (0, 1):
    dist.send(x, other) if rank == sender else dist.recv(x, other)
torch.cuda.synchronize()
dist.recv(x, other)
torch.cuda.synchronize()
dist.send(x, other)
torch.cuda.synchronize()
