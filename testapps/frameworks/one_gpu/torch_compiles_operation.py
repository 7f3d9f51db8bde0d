# PyTorch compiles an operation when it is first used (bessel_j0 has no machine code in it), while a persistent kernel runs.
# code: LG202
# culprit: spin_until
# with-profile: completes
import persistent
import torch

x = torch.linspace(0, 1, 4, device="cuda")
torch.cuda.synchronize()
persistent.start()
x = torch.special.bessel_j0(x)
persistent.end()
torch.cuda.synchronize()
print(x.tolist())
