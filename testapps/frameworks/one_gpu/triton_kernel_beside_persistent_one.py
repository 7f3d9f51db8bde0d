# A second Triton kernel is compiled and loaded while the first one waits for a flag, which is set only after that.
# code: LG202
# culprit: wait_for_flag
# needs: torch triton
# with-profile: completes
import torch
import triton
import triton.language as tl


@triton.jit
def wait_for_flag(flag):
    while tl.atomic_cas(flag, 1, 1) == 0:
        pass


@triton.jit
def add_one(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 1)


flag, x = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(128, device="cuda")
waiting, working = torch.cuda.Stream(), torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(waiting):
    wait_for_flag[(1,)](flag)
with torch.cuda.stream(working):
    add_one[(1,)](x, BLOCK=128)
    flag.fill_(1)
torch.cuda.synchronize()
