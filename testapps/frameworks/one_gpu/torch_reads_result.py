# PyTorch reads a number back from a stream on which a kernel never ends.
# code: LG299
# culprit: spin_until
import persistent
import torch

with torch.cuda.stream(torch.cuda.ExternalStream(persistent.stream.value)):
    x = torch.zeros(4, device="cuda")
    x.sum().item()
    persistent.start()
    x.sum().item()
