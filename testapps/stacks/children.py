#!/usr/bin/env python3
"""A Python program that hangs in a driver call while another thread of it is busy, and watches for children and for their signals.

The watching thread waits for any child, again and again, until the file that it is told exists; then it makes a child of its own, waits
for that, prints what it has seen, and ends the process.

prints: "children before: 0, signals before: 0, own child: 7, signals: 1"

usage: children.py FILE
"""

import ctypes
import os
import signal
import sys
import threading
import time


def busy(depth):
    return depth and busy(depth - 1) + 1


def busy_for_ever():
    while True:
        busy(30)


def signals(pipe):
    """How many signals have been met so far; the handler of the interpreter notes each as it comes."""
    try:
        return os.read(pipe, 4096).count(bytes([signal.SIGCHLD]))
    except BlockingIOError:
        return 0


def watch(path, pipe):
    children = 0
    while not os.path.exists(path):
        try:
            os.waitpid(-1, os.WNOHANG)
            children += 1
        except ChildProcessError:
            pass
        time.sleep(0.0005)
    time.sleep(0.2)
    before = signals(pipe)
    child = os.fork()
    if child == 0:
        os._exit(7)
    found, status = os.waitpid(-1, 0)
    assert found == child
    time.sleep(0.1)
    os.write(1, f"children before: {children}, signals before: {before}, own child: {os.waitstatus_to_exitcode(status)}, "
                f"signals: {signals(pipe)}\n".encode())
    os._exit(0)


def wait_for(driver, stream):
    driver.cuStreamSynchronize(stream)


def main():
    driver = ctypes.CDLL("libcuda.so.1")
    context, stream, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    for result in (
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        driver.cuCtxSetCurrent(context),
        driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)),
        driver.cuMemsetD32_v2(word, 0, ctypes.c_size_t(1)),
        driver.cuStreamCreate(ctypes.byref(stream), 1),
        driver.cuStreamWaitValue32_v2(stream, word, 7, 1),
    ):
        assert result == 0, result
    told, tell = os.pipe()
    os.set_blocking(told, False)
    os.set_blocking(tell, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell)
    threading.Thread(target=busy_for_ever, daemon=True).start()
    threading.Thread(target=watch, args=(sys.argv[1], told), daemon=True).start()
    wait_for(driver, stream)


main()
