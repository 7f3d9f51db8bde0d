#!/usr/bin/env python3
"""Makes the folder of a job of many ranks from that of a job of a few, to measure the commands that read.

copy_ranks.py RUN COUNT OUT: copies the folders rankR-PID in RUN to OUT until there are COUNT of them. The last rank's copy is the last one;
the others are copied in turn. Each copy has a rank and a process of its own in the recording's header and in the JSON files.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

PROCESS, RANK = 3 * 8, 88 * 8
RANK_BYTES = 32


def set_in_json(path, rank, process):
    if path.is_file():
        content = json.loads(path.read_text())
        content.update({key: value for key, value in (("rank", str(rank)), ("process", process)) if key in content})
        path.write_text(json.dumps(content))


def copy(source, target, rank, process):
    shutil.copytree(source, target)
    recording = target / "trace.lgt"
    recording.chmod(0o600)
    with recording.open("r+b") as file:
        file.seek(PROCESS)
        file.write(struct.pack("<I", process))
        file.seek(RANK)
        file.write(str(rank).encode().ljust(RANK_BYTES, b"\0"))
    for name in ("hang.json", "run.json", "hazards.json"):
        set_in_json(target / name, rank, process)


def main(run, count, out):
    sources = sorted((folder for folder in Path(run).iterdir() if folder.is_dir()), key=lambda folder: folder.name)
    *most, last = sources
    for rank in range(count):
        source = last if rank == count - 1 else most[rank % len(most)]
        # Beyond the numbers that processes have here.
        process = 5_000_000 + rank
        copy(source, Path(out) / f"rank{rank}-{process}", rank, process)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
