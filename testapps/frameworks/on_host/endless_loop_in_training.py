# Rank 1 computes for ever.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*comput\w+.*(endless_loop_in_training|training)\.py:\d+
from training import begin, fault, train, work


def evaluate(_):
    fault()
    work(3600)


begin()
train(step=evaluate)
