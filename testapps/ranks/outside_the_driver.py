"""One rank of a job of two in which no thread is ever blocked in the driver, and nothing in the environment says the rank.

As in JAX, a thread of its own calls NCCL and returns, and the main thread waits for a condition of the process. In its fourth step the last rank
sleeps (`stalls`), or only comes late (`late`): outside_the_driver.py NCCL FOLDER RANK stalls|late|none.
"""

import ctypes
import os
import sys
import threading
import time

NCCL, FOLDER, RANK, FAULT = ctypes.CDLL(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
DRIVER = ctypes.CDLL("libcuda.so.1")
RANKS, COUNT, FLOAT, SUM, FAULTY_STEP, STEPS = 2, 1024, 7, 0, 4, 5


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def done(result):
    assert result == 0, result


def id_of_all():
    path, own = os.path.join(FOLDER, "id"), Id()
    if RANK == 0:
        done(NCCL.ncclGetUniqueId(ctypes.byref(own)))
        with open(path + ".new", "wb") as file:
            file.write(bytes(own))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return Id.from_buffer_copy(file.read())


def stalls():
    time.sleep(600)


class Executor(threading.Thread):
    """Calls NCCL and the driver for the main thread, and asks for the end of each step without waiting in a call."""

    def __init__(self):
        super().__init__(daemon=True)
        self.wanted, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self.start()

    def run(self):
        context, memory, stream, communicator = (ctypes.c_void_p() for _ in range(4))
        done(DRIVER.cuInit(0))
        done(DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        done(DRIVER.cuCtxSetCurrent(context))
        done(DRIVER.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * COUNT)))
        done(DRIVER.cuStreamCreate(ctypes.byref(stream), 1))
        done(NCCL.ncclCommInitRank(ctypes.byref(communicator), RANKS, id_of_all(), RANK))
        called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: self.ended.release())
        while True:
            self.wanted.acquire()
            done(NCCL.ncclAllReduce(memory, memory, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, stream))
            done(DRIVER.cuLaunchHostFunc(stream, called, None))


def say(what):
    # One write: the ranks share their standard output.
    os.write(1, f"rank {RANK}: {what}\n".encode())


def main():
    executor = Executor()
    for step in range(1, STEPS + 1):
        if step == FAULTY_STEP and RANK == RANKS - 1 and FAULT != "none":
            say(FAULT)
            stalls() if FAULT == "stalls" else time.sleep(1)
        executor.wanted.release()
        executor.ended.acquire()
    say(f"{STEPS} steps")
    os._exit(0)


main()
