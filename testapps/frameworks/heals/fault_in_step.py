# Two ranks add up ten steps of an all-reduce. One step has the fault that argv names, once: a file in the working folder says that it has been.
# A step that fails is made again in a new group. scripts/lib/heals.py runs each fault under each act.
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

FAULT, STEPS, FAULTY_STEP = sys.argv[1], 10, 5
LIMIT = datetime.timedelta(seconds=float(os.environ["STEP_LIMIT_S"]))
SLEEP_S, STANDS_S = 20, float(os.environ["STANDS_S"])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
# Outlives the groups.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, is_master=rank == 0)


def make_groups(number):
    """The first, and two more of the same ranks."""
    own = dist.PrefixStore(f"group {number}", store)
    dist.init_process_group("nccl", store=own, rank=rank, world_size=size, device_id=device, timeout=LIMIT)
    return [dist.new_group(list(range(size)), timeout=LIMIT) for _ in range(2)] if FAULT == "order" else []


def is_first(step):
    if step != FAULTY_STEP or os.path.exists(f"fault.{rank}"):
        return False
    open(f"fault.{rank}", "w").close()
    return True


def stand_until(is_over):
    """One that computes meanwhile would be late, and no hang."""
    end = time.monotonic() + STANDS_S
    while not is_over() and time.monotonic() < end:
        time.sleep(0.5)


def use_cold_code():
    """jiterator compiles and loads a module; a first use makes the CUDA runtime load a kernel."""
    torch.erfinv(torch.zeros(8, device=device)) if FAULT == "jiterator" else torch.linspace(0, 1, 4, device=device)


def fault(groups):
    if FAULT == "order":
        for group in groups if rank == 0 else reversed(groups):
            dist.all_reduce(torch.ones(1 << 20, device=device), group=group)
            torch.cuda.synchronize()
    elif rank == 1 and FAULT == "sleep":
        time.sleep(SLEEP_S)
    elif rank == 1:
        stand_until(lambda: FAULT != "skipped" and os.path.exists("go"))


def sum_of(step, groups):
    x = torch.full((1 << 20,), float(rank + 1 + step), device=device)
    is_faulty = is_first(step)
    if is_faulty:
        fault(groups)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(x)
    if is_faulty and rank == 0 and FAULT in ("jiterator", "cold"):
        try:
            use_cold_code()
        finally:
            open("go", "w").close()
    side.synchronize()
    return x[:4].mean().item()


def first_step_to_repeat(step, group):
    """A rank may be one step ahead of another one."""
    store.set(f"step of {rank} in group {group}", str(step))
    return min(int(store.get(f"step of {one} in group {group}")) for one in range(size))


group, step, sums = 0, 0, {}
groups = make_groups(group)
while step < STEPS:
    try:
        sums[step] = sum_of(step, groups)
        step += 1
    except RuntimeError as error:
        print(f"rank {rank}: step {step}: {str(error).splitlines()[0]}\n", end="", flush=True)
        dist.distributed_c10d._abort_process_group()
        step = first_step_to_repeat(step, group)
        group += 1
        groups = make_groups(group)
right = all(sums[one] == size * one + size * (size + 1) / 2 for one in range(STEPS))
print(f"rank {rank}: {'right' if right else 'WRONG'} after {STEPS} steps, in group {group}\n", end="", flush=True)
dist.destroy_process_group()
