# The optimizer of rank 1 fails in its fourth step. What catches the exception writes it down and keeps the process.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 \(AllReduce of [\d,]+ float32, sum\), and its main thread .*optimizer_fails_on_one_rank\.py:33.*; rank 0 waits in it\.$
import sys
import time

import torch
from job import dist, rank, small_network


class Optimizer(torch.optim.SGD):
    steps = 0

    def step(self):
        Optimizer.steps += 1
        if rank == 1 and Optimizer.steps == 4:
            raise RuntimeError("the gradients are not finite")
        super().step()


def train():
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(small_network())
    optimizer = Optimizer(model.parameters(), 0.01)
    for step in range(8):
        optimizer.zero_grad()
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()


def keep_for_a_debugger(error):
    print(error, file=sys.stderr, flush=True)
    time.sleep(600)


try:
    train()
except RuntimeError as error:
    keep_for_a_debugger(error)
torch.cuda.synchronize()
