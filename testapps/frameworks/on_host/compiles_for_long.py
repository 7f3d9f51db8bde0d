# Rank 1 waits for its compiler for several thresholds and goes on.
# code: none
import os
import subprocess
import sys
import tempfile

from training import begin, end, train


def compile(_):
    compiler = os.path.join(tempfile.mkdtemp(), "ptxas")
    os.symlink(os.path.realpath(sys.executable), compiler)
    subprocess.run([compiler, "-c", "import time\nend = time.monotonic() + 12\nwhile time.monotonic() < end: sum(range(10000))"], check=True)


begin()
train(step=compile)
end()
