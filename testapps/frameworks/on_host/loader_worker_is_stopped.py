# A data-loader worker of rank 1 is stopped.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*data-loader worker \(process \d+\), which is stopped
import os
import signal

from training import begin, fault, train


def stop():
    fault()
    os.kill(os.getpid(), signal.SIGSTOP)


begin()
train(item=stop)
