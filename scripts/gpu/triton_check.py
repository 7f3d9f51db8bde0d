"""A Triton program: two kernels, compiled when first called, on two streams of PyTorch's.

Prints one JSON line. Must not know of the guard.
"""

import json

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * width + at, mask=at < width, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * width + at, powers / tl.sum(powers, axis=0), mask=at < width)


n = 1 << 20
x, y = torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
total, rows = torch.empty_like(x), torch.empty(1024, 1024, device="cuda")
other = torch.cuda.Stream()
other.wait_stream(torch.cuda.current_stream())
add[(triton.cdiv(n, 1024),)](x, y, total, n, BLOCK=1024)
with torch.cuda.stream(other):
    softmax[(1024,)](x.view(1024, 1024), rows, 1024, BLOCK=1024)
torch.cuda.synchronize()
print(json.dumps({"total": float(total.sum()), "rows": round(float(rows.sum()))}))
