# PyTorch submits more behind a persistent kernel than its stream takes, and would end the kernel afterwards.
# code: LG205
# culprit: spin_until
import persistent
import torch

with torch.cuda.stream(torch.cuda.ExternalStream(persistent.stream.value)):
    x = torch.zeros(4, device="cuda")
    x += 1
    torch.cuda.synchronize()
    persistent.start()
    for step in range(5000):
        x += 1
persistent.end()
torch.cuda.synchronize()
