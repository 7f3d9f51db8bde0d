# PyTorch gives its cached memory back while a persistent kernel runs.
# code: LG204
# culprit: spin_until
import persistent
import torch

x = torch.zeros(1 << 26, device="cuda")
torch.cuda.synchronize()
del x
persistent.start()
torch.cuda.empty_cache()
persistent.end()
torch.cuda.synchronize()
