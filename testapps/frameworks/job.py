"""What every program here and in all_gpus begins with: one rank of several, each on a GPU of its own, and a process group of NCCL."""
import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
store = dist.distributed_c10d._get_default_store()


def fault():
    """Here a job of all_gpus begins to hang."""
    print("fault", flush=True)


def values():
    return torch.ones(1 << 20, device="cuda")


def small_network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
