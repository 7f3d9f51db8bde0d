# Rank 0 has a part for rank 1, as an expert's tokens, and rank 1 expects none from it.
# code: LG208
# blame: rank 1 has not called the 2nd ncclRecv from rank 0 on communicator 0, and its main thread was at all_to_all_sizes_differ\.py:25 .*; rank 0 waits in its ncclSend\.$
import time

import torch
from job import dist, rank

# More than NCCL's buffers take.
part = 1 << 26
x, y = torch.ones(2 * part, device="cuda"), torch.empty(2 * part, device="cuda")


def exchange(received, sent):
    dist.all_to_all_single(y[: sum(received)], x[: sum(sent)], received, sent)


exchange([part, part], [part, part])
torch.cuda.synchronize()
if rank == 0:
    exchange([part, 0], [part, part])
else:
    exchange([0, part], [0, part])
torch.cuda.synchronize()
time.sleep(600)
