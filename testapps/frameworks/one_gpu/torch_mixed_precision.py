# PyTorch: a convolutional network is trained in mixed precision, with a scaler of gradients.
# code: none
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(256, 10)
).to("cuda", memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cuda")
for step in range(12):
    images = torch.randn(32, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(10, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(network(images), labels)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.1f}")
