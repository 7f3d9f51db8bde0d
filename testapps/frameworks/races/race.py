"""The two threads of each race here: by their ordinary timing the worker's part is over when the main thread begins its own.

The worker's first call has to release the interpreter's lock: it may be held there, and the main thread goes on meanwhile.
"""
import ctypes
import sys
import threading
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "one_gpu"))
safe = sys.argv[1:] == ["safe"]
HEAD_START_S = 1.5
PR_SET_NAME = 15


def run(worker, main):
    idle = torch.cuda.Stream()
    torch.cuda.synchronize()

    def begin():
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"worker", 0, 0, 0)
        idle.synchronize()
        worker()

    thread = threading.Thread(target=begin)
    thread.start()
    time.sleep(HEAD_START_S)
    main()
    thread.join()
    torch.cuda.synchronize()
    print("passed")
