# Two ranks train. In one step rank 0 compiles an operation behind the gradient's all-reduce, and rank 1 waits for rank 0 before its own.
# Under `--on-hang revoke` both give the group up, make a new one, load the state of the last good step, and go on.
# code: LG202
# blame: rank 0 has called collective 14 of communicator 0 \(AllReduce of 1,048,576 float32, sum\) and is blocked behind it, LG202: cuModuleLoadData .*; rank 1 has not called it, and its main thread waits for the store of the job
# heals: rank \d: loss 0\.0333 after 20 steps, in group 1
import os

import torch
import torch.distributed as dist

STEPS, COLD_STEP, RATE = 20, 12, 0.1
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
# Outlives the groups.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, is_master=rank == 0)


def make_group(number):
    """The store keeps the keys of the groups before, so each group has a part of its own."""
    dist.init_process_group("nccl", store=dist.PrefixStore(f"group {number}", store), rank=rank, world_size=size, device_id=device)
    dist.all_reduce(torch.ones(1, device=device))


def train(step, group, weights):
    """One step of gradient descent. The optimum is the mean of the ranks' numbers from 1."""
    gradient = weights - (rank + 1)
    if step == COLD_STEP and group == 0 and rank == 0:
        work = dist.all_reduce(gradient, async_op=True)
        try:
            torch.erfinv(weights)
        finally:
            store.set("go", "1")
        work.wait()
    else:
        if step == COLD_STEP and group == 0:
            store.wait(["go"])
        dist.all_reduce(gradient)
    weights -= RATE / size * gradient


def first_step_to_repeat(step, group):
    """A rank may be one step ahead of another one."""
    store.set(f"step of {rank} in group {group}", str(step))
    return min(int(store.get(f"step of {one} in group {group}")) for one in range(size))


group, step = 0, 0
make_group(group)
weights = torch.zeros(1 << 20, device=device)
states = {0: weights.cpu()}
while step < STEPS:
    try:
        train(step, group, weights)
        # On the host once the step has ended: a revoked step raises an error here at the latest.
        states[step + 1] = weights.cpu()
        step += 1
        states.pop(step - 3, None)
    except RuntimeError as error:
        print(f"rank {rank}: step {step}: {str(error).splitlines()[0]}\n", end="", flush=True)
        dist.distributed_c10d._abort_process_group()
        step = first_step_to_repeat(step, group)
        # A load that hung is made again while no collective is in flight.
        torch.erfinv(torch.zeros(1 << 20, device=device)).cpu()
        group += 1
        make_group(group)
        weights.copy_(states[step])
loss = (weights - (size + 1) / 2).square().mean().item()
print(f"rank {rank}: loss {loss:.4f} after {step} steps, in group {group}\n", end="", flush=True)
dist.destroy_process_group()
