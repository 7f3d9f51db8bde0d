# PyTorch: four streams beside each other, each with another library of the toolkit: transforms, a sort, a solver, a recurrent network.
# code: none
import torch

torch.manual_seed(0)
x = torch.randn(256, 256, device="cuda")
recurrent = torch.nn.LSTM(256, 64, batch_first=True).cuda()
streams = [torch.cuda.Stream() for _ in range(4)]
done = []
for stream, work in zip(
    streams,
    (
        lambda: torch.fft.ifft(torch.fft.fft(x)).real.sum(),
        lambda: x.sort(dim=1).values[:, 0].mean(),
        lambda: torch.linalg.solve(x @ x.T + 256 * torch.eye(256, device="cuda"), x).norm(),
        lambda: recurrent(x.unsqueeze(0))[0].square().mean(),
    ),
):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        done.append(work())
for stream in streams:
    torch.cuda.current_stream().wait_stream(stream)
print(" ".join(f"{one.item():.1f}" for one in done))
