# A server of PyTorch says after its warm-up that it is ready. Its first request uses an operation that the warm-up has not used.
# late: linspace
import lazyguard
import torch

x = torch.zeros(4, device="cuda")
x += 1
torch.cuda.synchronize()
lazyguard.ready()
x += 1
torch.linspace(0, 1, 4, out=x)
torch.cuda.synchronize()
print(x.tolist())
