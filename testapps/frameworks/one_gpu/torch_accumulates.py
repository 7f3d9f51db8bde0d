# PyTorch: gradients of four small batches are added up, with activations computed again, and the network is saved and loaded between.
# code: none
import io

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.SiLU()) for _ in range(4)).cuda()
optimizer = torch.optim.Adam(blocks.parameters(), 1e-3)
for step in range(6):
    for _ in range(4):
        x = torch.randn(64, 128, device="cuda")
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        x.square().mean().backward()
    torch.nn.utils.clip_grad_norm_(blocks.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step == 2:
        file = io.BytesIO()
        torch.save(blocks.state_dict(), file)
        file.seek(0)
        blocks.load_state_dict(torch.load(file, map_location="cuda"))
print(f"norm {sum(parameter.norm().item() for parameter in blocks.parameters()):.0f}")
