# Two ranks train, and rank 0 writes each step's state. In one step it compiles an operation behind the gradient's all-reduce.
# Under `--on-hang revoke` it fails there, torchrun starts both again, and they go on from the state. The profile of the first attempt has the operation ahead.
# code: LG202
# torchrun: --max-restarts 2
# blame: rank 0 has called collective 14 of communicator 0 \(AllReduce of 1,048,576 float32, sum\) and is blocked behind it, LG202: cuModuleLoadData
# heals: rank \d: loss 0\.0333 after 20 steps, from step 12 in attempt 1
import os

import torch
from job import dist, rank, store

STEPS, COLD_STEP, RATE, STATE = 20, 12, 0.1, "state.pt"
size, attempt = dist.get_world_size(), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
dist.all_reduce(torch.ones(1, device="cuda"))
first, weights = torch.load(STATE) if os.path.exists(STATE) else (0, torch.zeros(1 << 20))
weights = weights.cuda()
for step in range(first, STEPS):
    # The optimum is the mean of the ranks' numbers from 1.
    gradient = weights - (rank + 1)
    if step == COLD_STEP and rank == 1:
        store.wait(["go"])
    work = dist.all_reduce(gradient, async_op=True)
    if step == COLD_STEP and rank == 0:
        torch.erfinv(weights)
        store.set("go", "1")
    work.wait()
    weights -= RATE / size * gradient
    if rank == 0:
        # Another name until it is whole: the process may end in the middle.
        torch.save((step + 1, weights.cpu()), STATE + ".new")
        os.replace(STATE + ".new", STATE)
loss = (weights - (size + 1) / 2).square().mean().item()
print(f"rank {rank}: loss {loss:.4f} after {STEPS} steps, from step {first} in attempt {attempt}\n", end="", flush=True)
dist.destroy_process_group()
