"""A process that submits regularly, and then stops in the way that its first argument names: `testapps/e2e/tests/suite/stalls.rs` says which of them are
stalls. The second is a FIFO whose other end no process opens.
"""

import asyncio
import ctypes
import multiprocessing
import os
import queue
import select
import signal
import socket
import sys
import threading
import time

WHAT, FIFO = sys.argv[1:3]
STEPS = 300
LONG = 3600
driver = ctypes.CDLL("libcuda.so.1")
memory, stream = ctypes.c_uint64(), ctypes.c_void_p()


def session():
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0


def step():
    assert driver.cuMemsetD8Async(memory, 1, ctypes.c_size_t(4096), stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    time.sleep(0.01)


def steps(count=STEPS):
    for _ in range(count):
        step()
    print("stops", flush=True)


def batches(queue):
    """What a worker of a loader does: its read of the last shard does not return."""
    for number in range(STEPS):
        queue.put(number)
    with open(FIFO, "rb") as shard:
        queue.put(shard.read())


def load(method):
    context = multiprocessing.get_context(method)
    loaded = context.Queue(4)
    context.Process(target=batches, args=(loaded,), daemon=True).start()
    for _ in range(STEPS):
        loaded.get()
        step()
    print("stops", flush=True)
    loaded.get()


def in_thread():
    loaded = queue.Queue(4)
    threading.Thread(target=batches, args=(loaded,), daemon=True).start()
    for _ in range(STEPS):
        loaded.get()
        step()
    print("stops", flush=True)
    loaded.get()


def checkpoint():
    steps()
    with open(FIFO, "wb") as file:
        file.write(b"weights")
    steps(20)


def lock():
    held, taken = threading.Lock(), threading.Event()

    def reads():
        with held:
            taken.set()
            open(FIFO, "rb").read()

    threading.Thread(target=reads, daemon=True).start()
    taken.wait()
    steps()
    held.acquire()


def listening():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def no_answer(server, end):
    end.close()
    connection, _ = server.accept()
    time.sleep(LONG)
    connection.close()


def peer():
    server = listening()
    mine, its = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=no_answer, args=(server, mine), daemon=True).start()
    at = server.getsockname()
    server.close()
    store = socket.create_connection(at)
    steps()
    store.sendall(b"get key")
    store.recv(100)


def sleeps():
    time.sleep(LONG)


def dead_worker():
    server = listening()
    worker = multiprocessing.get_context("fork").Process(target=sleeps, daemon=True)
    worker.start()
    steps()
    os.kill(worker.pid, signal.SIGKILL)
    server.accept()


def accepts():
    server = listening()
    steps()
    server.accept()


def selects():
    server = listening()
    steps()
    select.select([server], [], [])


def epolls():
    server, epoll = listening(), select.epoll()
    epoll.register(server, select.EPOLLIN)
    steps()
    epoll.poll()


def serves():
    async def serve():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        steps()
        await server.serve_forever()

    asyncio.run(serve())


def worker_of_a_server():
    """The main thread serves; a thread does the work that it is given."""
    requests = queue.Queue()

    def works():
        assert driver.cuCtxSetCurrent(context_of_main) == 0
        while True:
            requests.get()
            step()

    context_of_main = ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context_of_main)) == 0
    threading.Thread(target=works, daemon=True).start()
    server = listening()
    for number in range(STEPS):
        requests.put(number)
        time.sleep(0.01)
    print("stops", flush=True)
    server.accept()


def prompt():
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    steps()
    sys.stdin.readline()
    os.close(writer)


def timer():
    steps()
    while True:
        time.sleep(0.5)


def pause():
    steps()
    signal.pause()


def evaluates():
    steps()
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        sum(number * number for number in range(10_000))


def notebook():
    """A kernel of a notebook: its front end is connected, and may ask at any time."""
    server = listening()
    front = socket.create_connection(server.getsockname())
    connection, _ = server.accept()
    poll = select.poll()
    for one in (server, connection):
        poll.register(one, select.POLLIN)
    steps()
    poll.poll()
    front.close()


def requests(server, at):
    server.close()
    client = socket.create_connection(at)
    time.sleep(LONG)
    client.close()


def consumer():
    """A client is connected, and sends nothing for now."""
    server = listening()
    at = server.getsockname()
    multiprocessing.get_context("fork").Process(target=requests, args=(server, at), daemon=True).start()
    connection, _ = server.accept()
    steps()
    connection.recv(100)


def only_initialises():
    print("stops", flush=True)
    threading.Event().wait()


def works():
    steps()
    while True:
        step()


def one_of_two():
    """Rank 0 stops, and rank 1 works on."""
    checkpoint() if os.environ["RANK"] == "0" else works()


def stopped_by_a_debugger():
    """The parent traces it, and its child has the session."""
    libc, traceme = ctypes.CDLL(None), 0
    child = os.fork()
    if child == 0:
        assert libc.ptrace(traceme, 0, 0, 0) == 0
        session()
        steps()
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(LONG)
    while True:
        os.waitpid(child, 0)


WAYS = {
    "fork": lambda: load("fork"),
    "spawn": lambda: load("spawn"),
    "thread": in_thread,
    "checkpoint": checkpoint,
    "lock": lock,
    "peer": peer,
    "dead-worker": dead_worker,
    "accept": accepts,
    "select": selects,
    "epoll": epolls,
    "asyncio": serves,
    "worker-of-a-server": worker_of_a_server,
    "prompt": prompt,
    "timer": timer,
    "pause": pause,
    "evaluates": evaluates,
    "notebook": notebook,
    "consumer": consumer,
    "only-initialises": only_initialises,
    "one-of-two": one_of_two,
    "debugger": stopped_by_a_debugger,
}

if __name__ == "__main__":
    if WHAT != "debugger":
        session()
    WAYS[WHAT]()
