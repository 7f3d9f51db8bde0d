# Rank 1 waits for a compiler that does not end.
# code: LG208
# blame: rank 1 has not called collective \d+ of communicator 0 .*compiles.*ptxas
import os
import subprocess
import sys
import tempfile

from training import begin, fault, train


def compile(_):
    compiler = os.path.join(tempfile.mkdtemp(), "ptxas")
    os.symlink(os.path.realpath(sys.executable), compiler)
    fault()
    subprocess.run([compiler, "-c", "while True: sum(range(10000))"], check=True)


begin()
train(step=compile)
