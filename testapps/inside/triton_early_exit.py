# Triton: programs add to a sum in the order of their numbers, as split-K kernels do; the first one leaves early and never passes the turn on.
#
# expect: LG299 culprit=add_in_turn
# inside: 3 of 3 blocks: warps 0 to 3 spin on memory at
# needs: torch triton
import torch
import triton
import triton.language as tl


@triton.jit
def add_in_turn(x, total, turn, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < n, other=0.0))
    if program == 0:
        return
    while tl.atomic_cas(turn, program, program) != program:
        pass
    tl.store(total, tl.load(total) + part)
    tl.debug_barrier()
    tl.atomic_xchg(turn, program + 1)


x, total = torch.ones(4096, device="cuda"), torch.zeros(1, device="cuda")
turn = torch.zeros(1, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
add_in_turn[(4,)](x, total, turn, 4096, BLOCK=1024)
print("add_in_turn: launched", flush=True)
torch.cuda.synchronize()
