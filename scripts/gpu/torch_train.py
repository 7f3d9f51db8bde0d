"""A PyTorch program as people write it: a small network is trained while the next batch is copied on a second stream.

Prints one JSON line with the number of steps and the time of the first and of a later step. Must not know of the guard.
"""

import json
import time

import torch

torch.manual_seed(20)
device = torch.device("cuda")
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(16 * 32 * 32, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)).to(device)
optimiser = torch.optim.AdamW(network.parameters())
copying = torch.cuda.Stream()
pinned = [torch.randn(64, 3, 32, 32).pin_memory() for _ in range(4)]
labels = torch.randint(0, 10, (64,), device=device)


def copied(step):
    with torch.cuda.stream(copying):
        return pinned[step % 4].to(device, non_blocking=True)


seconds = []
batch = copied(0)
for step in range(30):
    begin = time.monotonic()
    torch.cuda.current_stream().wait_stream(copying)
    following = copied(step + 1)
    loss = torch.nn.functional.cross_entropy(network(batch), labels)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    batch.record_stream(torch.cuda.current_stream())
    batch = following
    if step % 5 == 0:
        loss.item()
    seconds.append(time.monotonic() - begin)
# To pageable memory, behind everything: what `non_blocking` cannot do.
weights = [parameter.detach().to("cpu", non_blocking=True) for parameter in network.parameters()]
torch.cuda.synchronize()
print(json.dumps({"steps": len(seconds), "first_s": round(seconds[0], 3), "later_s": round(sorted(seconds)[len(seconds) // 2], 4),
                  "weights": len(weights)}))
