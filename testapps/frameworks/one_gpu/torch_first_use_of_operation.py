# PyTorch uses an operation for the first time while a persistent kernel runs, which is ended only after that.
# code: LG202
# culprit: spin_until
# with-profile: completes
import persistent
import torch

x = torch.zeros(4, device="cuda")
torch.cuda.synchronize()
persistent.start()
x = torch.linspace(0, 1, 4, device="cuda")
persistent.end()
torch.cuda.synchronize()
print(x.tolist())
