"""Starts of PyTorch in one process after the other, without an import each: for each line of standard input a forked child makes one start
(torch_start.py), and its JSON line goes to standard output. The first line says that the import is done.

The card is not used before the fork: so the driver, and what is preloaded, starts in each child as in a new process.

Must not know of the guard: it is an unmodified program.
"""

import faulthandler
import json
import os
import sys

# One thread for work on the host: the pool of a process that forks is not there in the child, which would wait for it.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import torch_start  # noqa: E402

# A start that takes so long says where it is, and ends.
MOST_S = 40


def in_child(inputs, to):
    faulthandler.dump_traceback_later(MOST_S, exit=True)
    # Before the exit: that may take long, and is no part of the start.
    line = json.dumps(torch_start.start(*inputs)) + "\n"
    os.write(to, line.encode())
    os.close(to)


def main():
    inputs = torch_start.inputs()
    print(json.dumps({"torch": torch_start.torch.__version__}), flush=True)
    for _ in iter(sys.stdin.readline, ""):
        # The child writes the whole line itself: what both have open is not buffered in either.
        child = os.fork()
        if child == 0:
            in_child(inputs, sys.stdout.fileno())
            # An orderly exit, as of a program.
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        # After the end of the child: whatever it writes then, the next one finds.
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


main()
