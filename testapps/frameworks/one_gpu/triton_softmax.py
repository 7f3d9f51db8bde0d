# Triton: a softmax of its own beside PyTorch's, on two streams.
# code: none
# needs: torch triton
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(row - tl.max(row))
    tl.store(y + tl.program_id(0) * columns + at, powers / tl.sum(powers), mask=at < columns)


torch.manual_seed(0)
x = torch.randn(512, 300, device="cuda")
own, side = torch.empty_like(x), torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    softmax[(512,)](x, own, 300, BLOCK=512)
given = torch.softmax(x, dim=1)
torch.cuda.current_stream().wait_stream(side)
print(f"same: {torch.allclose(own, given, atol=1e-6)}")
