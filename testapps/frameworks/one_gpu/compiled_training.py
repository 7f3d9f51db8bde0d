# PyTorch: a compiled network is trained for twenty steps.
# code: none
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 1)).cuda()
compiled = torch.compile(network)
optimizer = torch.optim.SGD(network.parameters(), 0.01)
x = torch.randn(64, 256, device="cuda")
for step in range(20):
    optimizer.zero_grad()
    loss = compiled(x).square().mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
