# Rank 1 is stopped, as by a debugger or a scheduler.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*stopped
import os
import signal

from training import begin, fault, train


def stop(_):
    fault()
    os.kill(os.getpid(), signal.SIGSTOP)


begin()
train(step=stop)
