# Triton: a product in blocks, twenty times under a graph of PyTorch.
# code: none
# needs: torch triton
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, N: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, N, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        total += tl.dot(tl.load(a + rows[:, None] * N + inner[None, :]), tl.load(b + inner[:, None] * N + columns[None, :]))
    tl.store(c + rows[:, None] * N + columns[None, :], total)


torch.manual_seed(0)
a, b, c = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(3))
c = c.float()
product[(4, 4)](a, b, c, 256, BLOCK=64)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    product[(4, 4)](a, b, c, 256, BLOCK=64)
for _ in range(20):
    graph.replay()
print(f"same: {torch.allclose(c, a.float() @ b.float(), atol=0.5)}")
