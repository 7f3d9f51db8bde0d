# Rank 1 waits for a key of the job's store that no rank sets.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*store of the job
import datetime

import torch.distributed as dist
from training import begin, fault, train


def wait_for_key(_):
    fault()
    dist.distributed_c10d._get_default_store().wait(["epoch-7"], datetime.timedelta(hours=1))


begin()
train(step=wait_for_key)
