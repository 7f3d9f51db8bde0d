# A thread gives PyTorch's cached memory back, and then ends a persistent kernel that the main thread waits for. If the kernel runs by then,
# the release waits for it. With `safe`, the thread ends the kernel first.
# shape: torch_empties_cache LG204
import race
import torch

import persistent

cached = torch.zeros(1 << 26, device="cuda")
kernel_stream = torch.cuda.ExternalStream(persistent.stream.value)
torch.cuda.synchronize()
del cached


def give_back():
    if race.safe:
        persistent.end()
    torch.cuda.empty_cache()
    persistent.end()


def wait():
    persistent.start()
    kernel_stream.synchronize()


race.run(give_back, wait)
