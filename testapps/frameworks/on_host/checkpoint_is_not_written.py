# Rank 1 writes a checkpoint to a storage that does not answer.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*(writes|opens) \S*shard-17\.tar.*checkpoint_is_not_written\.py:\d+
import torch
from training import begin, fault, shard, train

path = shard()


def save(model):
    fault()
    torch.save(model.module.state_dict(), path)


begin()
train(step=save)
