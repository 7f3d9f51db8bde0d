# A data-loader worker of rank 1 reads a file that does not come.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*data-loader worker \(process \d+\), which (reads|opens) \S*shard-17\.tar
from training import begin, fault, shard, train

path = shard()


def read_shard():
    fault()
    with open(path) as file:
        file.read()


begin()
train(item=read_shard)
