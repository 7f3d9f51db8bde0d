# Rank 1 waits for a command that reads a file that does not come.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*process \d+.*shard-17\.tar
import subprocess

from training import begin, fault, shard, train

path = shard()


def unpack(_):
    fault()
    subprocess.run(["cat", path], check=True)


begin()
train(step=unpack)
