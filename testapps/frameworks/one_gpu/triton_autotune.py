# Triton: a kernel in four configurations, which are compiled and timed before the first use.
# code: none
# needs: torch triton
import torch
import triton
import triton.language as tl

CONFIGURATIONS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024) for warps in (2, 4)]


@triton.autotune(configs=CONFIGURATIONS, key=["n"])
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)


n = 1 << 20
x, y = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
for _ in range(5):
    scale[lambda chosen: (triton.cdiv(n, chosen["BLOCK"]),)](x, y, n)
print(f"sum {y.sum().item():.0f}")
