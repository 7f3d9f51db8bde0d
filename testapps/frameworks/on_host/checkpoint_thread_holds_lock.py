# Rank 1 waits for a lock that a thread holds, which writes a checkpoint.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*waits for (a lock|another thread); thread \d+.* (writes|opens) \S*shard-17\.tar
import threading
import time

from training import begin, fault, shard, train

path = shard()
lock = threading.Lock()


def write():
    with lock, open(path, "w") as file:
        file.write("checkpoint")


def save(_):
    threading.Thread(target=write, name="async-checkpoint", daemon=True).start()
    time.sleep(0.2)
    fault()
    with lock:
        pass


begin()
train(step=save)
