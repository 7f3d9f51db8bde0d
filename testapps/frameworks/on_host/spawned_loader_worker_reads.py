# A data-loader worker of rank 1, started by spawn, reads a file that does not come.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*data-loader worker \(process \d+\), which (reads|opens) \S*shard-17\.tar
from training import begin, fault, shard, train


def read_shard():
    fault()
    with open(shard()) as file:
        file.read()


if __name__ == "__main__":
    begin()
    train(item=read_shard, loader_start="spawn")
