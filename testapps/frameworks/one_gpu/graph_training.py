# PyTorch: a step of training is captured in a CUDA graph and replayed fifty times.
# code: none
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(network.parameters(), 0.01)
x = torch.randn(64, 256, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = network(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(50):
    graph.replay()
print(f"loss {loss.item():.4f}")
