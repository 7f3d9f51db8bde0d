# PyTorch: batches in pinned memory are copied on a stream of their own while the one before is worked on.
# code: none
import torch

torch.manual_seed(0)
batches = [torch.randn(256, 256).pin_memory() for _ in range(16)]
weights = torch.randn(256, 256, device="cuda")
copies = torch.cuda.Stream()


def begin(batch):
    with torch.cuda.stream(copies):
        return batch.to("cuda", non_blocking=True)


total, following = torch.zeros((), device="cuda"), begin(batches[0])
for number in range(len(batches)):
    torch.cuda.current_stream().wait_stream(copies)
    now = following
    now.record_stream(torch.cuda.current_stream())
    if number + 1 < len(batches):
        following = begin(batches[number + 1])
    total += torch.tanh(now @ weights).sum()
print(f"total {total.item():.0f}")
