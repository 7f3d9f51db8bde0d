# A thread uses an operation of PyTorch for the first time, and then writes the word that the main thread's stream waits for. If the stream
# waits by then, the load waits for it. With `safe`, the thread writes the word first.
# shape: torch_uses_operation LG201 LG202
import race
import torch

import persistent

words, x = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.zeros(4, device="cuda")
words.fill_(1)
words.zero_()
waiting, working = torch.cuda.Stream(), torch.cuda.Stream()
torch.cuda.synchronize()


def use():
    with torch.cuda.stream(working):
        if race.safe:
            words.fill_(1)
        torch.linspace(0, 1, 4, out=x)
        words.fill_(1)


def wait():
    persistent.wait_for_value(waiting.cuda_stream, words.data_ptr(), 1)
    waiting.synchronize()


race.run(use, wait)
