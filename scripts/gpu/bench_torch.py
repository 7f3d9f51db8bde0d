"""Loops of PyTorch that are asked for one batch at a time (testapps/bench/worker.hpp says how), each under its name.

operations: a launch is one operation here: eight small ones over and over, each far shorter on the card than
its submission, so that the loop is bound by the host. tokens: a launch is one token that a small transformer decodes
eagerly, with a cache of keys and values. replays: a launch is one replay of a CUDA graph of the eight operations.
Every so many of them the card is waited for, outside of the time that counts.

Must not know of the guard: it is an unmodified program.
"""

import argparse
import gc
import os
import sys
import time

import torch

SIZE = 64
LAYERS, WIDTH, HEADS, VOCABULARY = 4, 256, 4, 1000
functional = torch.nn.functional


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", type=int)
    return parser.parse_args()


class Eight:
    """Eight small operations."""

    def __init__(self):
        self.first = torch.randn(SIZE, SIZE, device="cuda")
        self.weights = torch.randn(SIZE, SIZE, device="cuda") / SIZE ** 0.5
        self.bias = torch.randn(SIZE, device="cuda")

    def run(self, x):
        x = x @ self.weights
        x = x + self.bias
        x = torch.relu(x)
        x = x * 0.5
        x = functional.layer_norm(x, (SIZE,))
        x = torch.softmax(x, -1)
        x = x - 0.1
        return torch.tanh(x)


class Operations:
    """Launches that are operations."""

    chunk = 400

    def __init__(self):
        self.eight = Eight()

    def launch(self, operations):
        x = self.eight.first
        for _ in range(operations // 8):
            x = self.eight.run(x)


class Replays:
    """Launches that are replays of a graph; so few in turn that the card's queue never fills."""

    chunk = 50

    def __init__(self):
        eight = Eight()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            eight.run(eight.first)
        side.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = eight.run(eight.first)

    def launch(self, replays):
        for _ in range(replays):
            self.graph.replay()


class Tokens:
    """Launches that are tokens of one sequence after another."""

    chunk = 16

    def __init__(self):
        def weights(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.float16) / shape[-1] ** 0.5

        self.embedding, self.head = weights(VOCABULARY, WIDTH), weights(VOCABULARY, WIDTH)
        self.layers = [(weights(3 * WIDTH, WIDTH), weights(WIDTH, WIDTH), weights(4 * WIDTH, WIDTH), weights(WIDTH, 4 * WIDTH)) for _ in range(LAYERS)]
        self.cache = torch.zeros(LAYERS, 2, 1, HEADS, self.chunk, WIDTH // HEADS, device="cuda", dtype=torch.float16)

    def decode(self, token, at):
        x = functional.embedding(token, self.embedding)
        for (into, out, wide, narrow), (keys, values) in zip(self.layers, self.cache):
            query, key, value = functional.linear(functional.layer_norm(x, (WIDTH,)), into).view(1, 1, 3, HEADS, -1).unbind(2)
            keys[:, :, at], values[:, :, at] = key[:, 0], value[:, 0]
            seen = functional.scaled_dot_product_attention(query.transpose(1, 2), keys[:, :, :at + 1], values[:, :, :at + 1])
            x = x + functional.linear(seen.transpose(1, 2).reshape(1, 1, WIDTH), out)
            x = x + functional.linear(functional.gelu(functional.linear(functional.layer_norm(x, (WIDTH,)), wide)), narrow)
        return functional.linear(functional.layer_norm(x, (WIDTH,)), self.head).argmax(-1)

    def launch(self, tokens):
        token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        for at in range(tokens):
            token = self.decode(token, at % self.chunk)


LOOPS = {"operations": Operations, "tokens": Tokens, "replays": Replays}


@torch.no_grad()
def main():
    chosen = options()
    torch.manual_seed(20)
    loops = {name: loop() for name, loop in LOOPS.items()}

    def batch(loop, launches):
        chunk = loop.chunk
        wall = cpu = closing = 0
        loop.launch(chunk)
        torch.cuda.synchronize()
        for _ in range(launches // chunk):
            cpu_begin = time.thread_time_ns()
            begin = time.perf_counter_ns()
            loop.launch(chunk)
            end = time.perf_counter_ns()
            cpu += time.thread_time_ns() - cpu_begin
            closing_begin = time.perf_counter_ns()
            torch.cuda.synchronize()
            closing += time.perf_counter_ns() - closing_begin
            wall += end - begin
        done = launches // chunk * chunk
        return wall / done, cpu / done, closing / done

    for loop in loops.values():
        batch(loop, loop.chunk * 4)
    # Everything is there that is started by itself: only this thread is pinned.
    if chosen.core is not None:
        os.sched_setaffinity(0, {chosen.core})
    gc.collect()
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        what, number, name = line.split()
        loop = loops[name]
        if what == "settle":
            for _ in range(int(number) // loop.chunk):
                loop.launch(loop.chunk)
                torch.cuda.synchronize()
            print(f"launches={number}", flush=True)
            continue
        if what != "batch":
            break
        wall, cpu, closing = batch(loop, int(number))
        print(f"wall_ns={wall:.3f} cpu_ns={cpu:.3f} closing_ns={closing:.3f} instructions=-1 cache_misses=-1", flush=True)


main()
