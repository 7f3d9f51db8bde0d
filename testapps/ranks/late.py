"""One rank of a job of two that waits in the driver for each step, and one rank of which does something else before its third: late.py NCCL FOLDER RANK KIND SECONDS.

Late, for so many seconds:
  evaluates        the last rank computes
  evaluates_first  the first one
  checkpoint       writes a file
  compiles         waits for a child named ptxas, which computes
  uneven           copies to the device, a batch after the other
  starts           computes before it initialises the driver
For good:
  fifo             reads a FIFO that has no writer
  three            the same, the last of three ranks; the second comes two seconds behind the first
  asked            the same, and calls a collective when it is asked to end
  leaves           leaves its loop, and waits at its end for a thread
  lock             takes a lock twice
  stopped          is stopped by a signal
  killed           is killed
  killed_early     is killed before it initialises the driver
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

NCCL_PATH, FOLDER, RANK, KIND, SECONDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
RANKS, COUNT, FLOAT, SUM, STEPS = 3 if KIND == "three" else 2, 1024, 7, 0, 4
IS_THE_ONE = RANK == (0 if KIND == "evaluates_first" else RANKS - 1)


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def done(result):
    assert result == 0, result


def id_of_all(nccl):
    path, own = os.path.join(FOLDER, "id"), Id()
    if RANK == 0:
        done(nccl.ncclGetUniqueId(ctypes.byref(own)))
        with open(path + ".new", "wb") as file:
            file.write(bytes(own))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return Id.from_buffer_copy(file.read())


def until():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield


def evaluates(_):
    for _ in until():
        sum(range(1000))


evaluates_first = evaluates


def checkpoint(_):
    with open(os.path.join(FOLDER, "checkpoint"), "wb") as file:
        for _ in until():
            file.seek(0)
            file.write(b"x" * (1 << 20))
            file.flush()
            os.fsync(file.fileno())


def compiles(_):
    path = os.path.join(FOLDER, "ptxas")
    with open(path, "w") as file:
        file.write(f"#!{sys.executable}\nimport time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: sum(range(1000))\n")
    os.chmod(path, 0o755)
    subprocess.run([path], check=True)


def uneven(copy):
    for _ in until():
        copy()
        time.sleep(0.02)


def starts(_):
    pass


def fifo(_):
    path = os.path.join(FOLDER, "fifo")
    os.mkfifo(path)
    open(path, "rb")


asked = three = fifo


def leaves(_):
    threading.Thread(target=threading.Event().wait).start()
    sys.exit()


def lock(_):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def stopped(_):
    os.kill(os.getpid(), signal.SIGSTOP)


def killed(_):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    if KIND == "starts" and IS_THE_ONE:
        evaluates(None)
    if KIND == "killed_early" and IS_THE_ONE:
        killed(None)
    nccl, driver = ctypes.CDLL(NCCL_PATH), ctypes.CDLL("libcuda.so.1")
    context, memory, other, stream, communicator = (ctypes.c_void_p() for _ in range(5))
    done(driver.cuInit(0))
    done(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    done(driver.cuCtxSetCurrent(context))
    done(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * COUNT)))
    done(driver.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(4 * COUNT)))
    done(driver.cuStreamCreate(ctypes.byref(stream), 1))
    done(nccl.ncclCommInitRank(ctypes.byref(communicator), RANKS, id_of_all(nccl), RANK))
    batch = ctypes.create_string_buffer(4 * COUNT)
    if KIND == "asked":
        signal.signal(signal.SIGTERM, lambda *_: done(nccl.ncclBroadcast(memory, memory, ctypes.c_size_t(COUNT), FLOAT, 0, communicator, stream)))
    for step in range(1, STEPS + 1):
        if step == 3 and IS_THE_ONE and KIND != "none":
            globals()[KIND](lambda: done(driver.cuMemcpyHtoD_v2(other, batch, ctypes.c_size_t(4 * COUNT))))
        if step == 3 and KIND == "three" and RANK == 1:
            time.sleep(2)
        done(nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, stream))
        done(driver.cuStreamSynchronize(stream))
    # One write: the ranks share their standard output.
    os.write(1, f"rank {RANK}: {STEPS} steps\n".encode())


main()
