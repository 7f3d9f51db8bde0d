"""Notices when the machine stands still: when a program that only sleeps, and writes a byte now and then, does not get on.

The processors of a virtual machine are taken away now and then, for tenths of a second and for up to a minute, and so is its disk.
Nothing that a test says of time holds then: a program is late, or its limit is over before it could do anything. A test that failed
while this watch lost time has shown nothing, and is made again.

One process for each processor, because one of them may stand still alone. They have the priority of the tests. A machine that is
merely busy, as with the suite's own steps, gives such a process its turn within some 20 ms.

Must not: take processor time worth mentioning, or outlive the suite.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple

SLEEP_S = 0.02
# What a busy machine does not reach.
SHORTEST_S = 0.1

# On the clock of the calendar, as the times of tests are.
Standstill = namedtuple("Standstill", "processor begin end")


class Watch:
    """Runs from `with` to its end."""

    def __init__(self, folder):
        self.folder, self.found, self.processes, self.readers, self.lock = folder, [], [], [], threading.Lock()

    def __enter__(self):
        for processor in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, __file__, str(processor), str(self.folder)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.processes.append(process)
            self.readers.append(threading.Thread(target=self.read, args=(processor, process.stdout), daemon=True))
            self.readers[-1].start()
        return self

    def __exit__(self, *_):
        for process, reader in zip(self.processes, self.readers):
            process.kill()
            process.wait()
            reader.join()
            process.stdin.close()
            process.stdout.close()

    def read(self, processor, lines):
        for line in lines:
            times = line.split()
            # The reader is killed in the middle of a line.
            if len(times) != 2:
                continue
            begin, end = map(float, times)
            with self.lock:
                self.found.append(Standstill(processor, begin, end))

    def lost(self, begin, end):
        """The seconds between two moments in which a processor stood still: of the one that lost most."""
        return lost(self.all(), begin, end)

    def all(self):
        with self.lock:
            return list(self.found)

    def summary(self):
        found = self.all()
        if not found:
            return ""
        longest = max(one.end - one.begin for one in found)
        return f"the machine stood still {len(found)} times, for {longest:.1f} s at most"


def lost(found, begin, end):
    seconds = {}
    for one in found:
        within = min(one.end, end) - max(one.begin, begin)
        if within > 0:
            seconds[one.processor] = seconds.get(one.processor, 0.0) + within
    return max(seconds.values(), default=0.0)


def watch(processor, folder):
    """Prints a line for each standstill, until its reader is gone."""
    os.sched_setaffinity(0, {processor})
    threading.Thread(target=ends_with_its_reader, daemon=True).start()
    with tempfile.TemporaryFile(dir=folder) as file:
        before = time.time()
        while True:
            time.sleep(SLEEP_S)
            os.pwrite(file.fileno(), b".", 0)
            now = time.time()
            if now - before > SHORTEST_S:
                print(before, now, flush=True)
            before = now


def ends_with_its_reader():
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
