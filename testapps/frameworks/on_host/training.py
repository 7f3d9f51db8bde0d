"""A plain data-parallel training with a data loader, each rank on a GPU of its own. A program gives what rank 1 does in the seventh step.

Read by the programs of this folder alone. Its shape is that of many trainings: the batch is copied on the default stream, the gradients are
reduced on a stream of NCCL's, and every second loss is read.
"""
import os
import tempfile
import time

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LATE_RANK, LATE_STEP, BATCH = 1, 6, 4
LATE_ITEM = LATE_STEP * BATCH + 16


def is_late():
    return rank == LATE_RANK


def fault():
    """Here a job begins to hang."""
    print("fault", flush=True)


def shard():
    """A FIFO that no process writes to: a file of a storage that does not answer."""
    path = os.path.join(tempfile.mkdtemp(), "shard-17.tar")
    os.mkfifo(path)
    return path


class Items(torch.utils.data.Dataset):
    def __init__(self, item=None, count=64):
        self.item, self.count = item, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.item is not None and rank == LATE_RANK and index == LATE_ITEM:
            self.item()
        return torch.full((256,), float(index))


def begin():
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl")


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()


def distributed(network):
    return torch.nn.parallel.DistributedDataParallel(network)


def train(step=None, item=None, late_rank=LATE_RANK, wrap=distributed, loader_start=None, items=None):
    """`item` is called in a worker of the loader, `step` before the seventh step of the late rank; it may end the loop by returning True."""
    model = wrap(network())
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(items or Items(item), batch_size=BATCH, num_workers=2, multiprocessing_context=loader_start)
    for number, batch in enumerate(loader):
        if step is not None and rank == late_rank and number == LATE_STEP and step(model):
            break
        loss = model(batch.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 2 == 0:
            loss.item()


def end():
    torch.cuda.synchronize()
    print(f"rank {rank}: done\n", end="", flush=True)
    dist.destroy_process_group()


def work(seconds):
    """Computes on the host."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10000))
