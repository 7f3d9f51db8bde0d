"""A PyTorch loop of small operations that is asked for one batch at a time (testapps/bench/worker.hpp says how).

A launch is one operation here: eight small ones over and over, each far shorter on the card than
its submission, so that the loop is bound by the host. Every so many of them the card is waited for,
outside of the time that counts.

Must not know of the guard: it is an unmodified program.
"""

import gc
import os
import sys
import time

import torch

CHUNK = 400
SIZE = 64


def processor():
    arguments = sys.argv[1:]
    return int(arguments[arguments.index("--core") + 1]) if "--core" in arguments else None


@torch.no_grad()
def main():
    torch.manual_seed(20)
    first = torch.randn(SIZE, SIZE, device="cuda")
    weights = torch.randn(SIZE, SIZE, device="cuda") / SIZE ** 0.5
    bias = torch.randn(SIZE, device="cuda")
    shape = (SIZE,)

    def launch(operations):
        x = first
        for _ in range(operations // 8):
            x = x @ weights
            x = x + bias
            x = torch.relu(x)
            x = x * 0.5
            x = torch.nn.functional.layer_norm(x, shape)
            x = torch.softmax(x, -1)
            x = x - 0.1
            x = torch.tanh(x)

    def batch(operations):
        wall = cpu = closing = 0
        launch(CHUNK)
        torch.cuda.synchronize()
        for _ in range(operations // CHUNK):
            cpu_begin = time.thread_time_ns()
            begin = time.perf_counter_ns()
            launch(CHUNK)
            end = time.perf_counter_ns()
            cpu += time.thread_time_ns() - cpu_begin
            closing_begin = time.perf_counter_ns()
            torch.cuda.synchronize()
            closing += time.perf_counter_ns() - closing_begin
            wall += end - begin
        done = operations // CHUNK * CHUNK
        return wall / done, cpu / done, closing / done

    batch(CHUNK * 4)
    # Everything is there that is started by itself: only this thread is pinned.
    if processor() is not None:
        os.sched_setaffinity(0, {processor()})
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        what, number = line.split()
        if what == "settle":
            for _ in range(int(number) // CHUNK):
                launch(CHUNK)
                torch.cuda.synchronize()
            print(f"launches={number}", flush=True)
            continue
        if what != "batch":
            break
        wall, cpu, closing = batch(int(number))
        print(f"wall_ns={wall:.3f} cpu_ns={cpu:.3f} closing_ns={closing:.3f} instructions=-1 cache_misses=-1", flush=True)


main()
