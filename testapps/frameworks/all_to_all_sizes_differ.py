# Rank 0 has a part for rank 1, as an expert's tokens, and rank 1 expects none from it.
# code: LG208
# blame: in their 2nd exchange on communicator 0, rank 0 sends [\d,]+ float32, and rank 1 receives 0 float32\.$
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
