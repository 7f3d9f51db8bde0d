"""Asks whether this machine has a GPU that works: the driver library loads, starts and finds a card.

A process of its own asks, with a time limit, because a broken driver can hang or crash the process
that asks. Must not keep a context on the card.
"""

import json
import subprocess
import sys

LIMIT_S = 30
QUESTION = """
import ctypes, json
driver = ctypes.CDLL("libcuda.so.1")
count, version, device, major, minor = (ctypes.c_int() for _ in range(5))
name = ctypes.create_string_buffer(256)
ok = (driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
      and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
      and driver.cuDeviceGetName(name, 256, device) == 0 and driver.cuDriverGetVersion(ctypes.byref(version)) == 0
      and driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device) == 0
      and driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device) == 0)
print(json.dumps({"name": name.value.decode(), "cuda": version.value, "count": count.value,
                  "architecture": f"{major.value}{minor.value}"} if ok else None))
"""


def card(environment):
    """{"name", "cuda", "count", "architecture"} of the first card, or None when there is none that works."""
    try:
        result = subprocess.run([sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True,
                                timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    if result.returncode != 0:
        return None
    try:
        return json.loads(result.stdout)
    except ValueError:
        return None


def driver_release():
    """The driver's own number (580.159.04), which does not follow from the CUDA version."""
    try:
        result = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = result.stdout.split()
    return lines[0] if result.returncode == 0 and lines else "unknown"


if __name__ == "__main__":
    # For shell scripts: prints the card's architecture and name, exit code 1 when there is none.
    import os
    found = card(dict(os.environ))
    if not found:
        sys.exit(1)
    print(found["architecture"], found["name"])
