#!/usr/bin/env python3
"""Stands in for srun, sbatch, mpirun and torchrun where the documentation's commands are run: starts as many processes as
requested, with the variables that give each its rank. The name it is called by decides which launcher it is.

Must not: be taken for a test of those launchers.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# For each: its option for the number of processes, the variables it sets, and its options without a value.
LAUNCHERS = {
    "srun": (("-n", "--ntasks"), lambda rank, size: {"SLURM_PROCID": rank, "SLURM_NTASKS": size}, ()),
    "mpirun": (("-n", "-np"), lambda rank, size: {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size}, ()),
    "torchrun": (("--nproc-per-node",), lambda rank, size: {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size}, ("--no-python",)),
}


def launch(name, arguments):
    counts, variables, switches = LAUNCHERS[name]
    size, command, python = os.environ.get("SLURM_NTASKS", "1"), list(arguments), name == "torchrun"
    while command and command[0].startswith("-"):
        option, _, value = command.pop(0).partition("=")
        if option in switches:
            python = False
            continue
        value = value or command.pop(0)
        size = value if option in counts else size
    if python:
        command.insert(0, sys.executable)
    processes = [subprocess.Popen(command, env={**os.environ, **variables(str(rank), size)}) for rank in range(int(size))]
    return max(process.wait() for process in processes)


def submit(script):
    """As sbatch does, but starts at once and waits for the end."""
    text = Path(script).read_text()
    tasks = re.search(r"^#SBATCH --ntasks=(\d+)", text, re.M)
    environment = {**os.environ, "SLURM_JOB_ID": "1", "SLURM_NTASKS": tasks.group(1) if tasks else "1"}
    with open("slurm-1.out", "w") as out:
        status = subprocess.run(["bash", script], env=environment, stdout=out, stderr=out).returncode
    print("Submitted batch job 1")
    return status


def main():
    name = Path(sys.argv[0]).name
    return submit(sys.argv[1]) if name == "sbatch" else launch(name, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
