# A finalizer of rank 1 does not return, in a collection of garbage.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*(garbage|__del__).*\.py:\d+
import gc

from training import begin, fault, train, work


class Cache:
    def __init__(self):
        self.itself = self

    def __del__(self):
        fault()
        work(3600)


def collect(_):
    Cache()
    gc.collect()


begin()
train(step=collect)
