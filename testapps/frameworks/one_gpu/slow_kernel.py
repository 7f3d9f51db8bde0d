# PyTorch: a kernel of about a second and a half, short of the threshold, and work on a second stream beside it.
# code: none
# hang-after: 5s
import torch

x = torch.ones(1 << 20, device="cuda")
x.sum().item()
side = torch.cuda.Stream()
torch.cuda._sleep(2_500_000_000)
with torch.cuda.stream(side):
    y = (x * 2).sum()
torch.cuda.synchronize()
print(f"sum {y.item():.0f}")
