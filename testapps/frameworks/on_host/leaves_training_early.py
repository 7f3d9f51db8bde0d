# Rank 1 leaves its loop a step early and ends; the launcher's other rank goes on.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*(destroy_process_group|has ended|exit status|ended)
import torch.distributed as dist
from training import begin, end, fault, is_late, train


def leave(_):
    fault()
    return True


begin()
train(step=leave)
if is_late():
    dist.destroy_process_group()
else:
    end()
