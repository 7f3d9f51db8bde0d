"""What every program here begins with: one rank of two, each on a GPU of its own, and a process group of NCCL."""
import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
store = dist.distributed_c10d._get_default_store()


def values():
    return torch.ones(1 << 20, device="cuda")


def small_network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
