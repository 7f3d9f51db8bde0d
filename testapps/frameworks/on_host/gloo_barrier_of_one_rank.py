# Rank 1 calls a barrier of gloo that rank 0 does not call.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*gloo
import torch.distributed as dist
from training import begin, fault, train

begin()
group = dist.new_group(backend="gloo")


def barrier(_):
    fault()
    dist.barrier(group=group)


train(step=barrier)
