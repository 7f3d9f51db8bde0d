"""The environments that a program is run in: bare, guarded, guarded with some settings.

The shell's own settings of the guard and of CUDA's loading are removed first, so that a run
means the same everywhere.
"""

import json
import os
import re
import subprocess

from tools import ROOT, TARGET

# debug: as scripts/build leaves them. tested: as scripts/test tests them. release: as they ship, for what measures or tries a card.
BUILD = os.environ.get("GUARD_BUILD", "debug")
LIBRARY = TARGET / BUILD / "liblazyguard.so"
COMMAND = TARGET / BUILD / "lazyguard"
SIMULATED_DRIVER = TARGET / "simdriver"
PROGRAMS = ROOT / "testapps" / "programs.json"
FOLDERS = {"app": "apps", "runtime": "runtime", "runtime-shared": "runtime-shared"}


def clean_environment(simulated=False):
    dropped = ("LAZYGUARD", "LGSIM_", "CUDA_MODULE_", "LD_PRELOAD", "XDG_CACHE_HOME")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    if simulated:
        environment["LD_LIBRARY_PATH"] = str(SIMULATED_DRIVER)
    return environment


def bare(loading=None, simulated=False):
    environment = clean_environment(simulated)
    if loading:
        environment["CUDA_MODULE_LOADING"] = loading
    return environment


def guarded(simulated=False, **settings):
    """settings: PRELOAD="off" stands for LAZYGUARD_PRELOAD=off."""
    environment = clean_environment(simulated)
    environment["LD_PRELOAD"] = str(LIBRARY)
    environment.update({f"LAZYGUARD_{name}": value for name, value in settings.items()})
    return environment


def programs():
    """What testapps/programs.json says of each program, by name.

    kinds: how it is built (app: driver API,
    runtime: static runtime, runtime-shared); hangs_bare: whether it hangs under lazy loading;
    hangs_guarded: whether it does under the guard too, where absent no; expected_code: the verdict
    when it hangs; expected_output: what it prints when it completes, null where it never does;
    unordered: its threads print their lines in any order; program and args: what is run, where that
    is not the entry's own name.
    """
    return json.loads(PROGRAMS.read_text())


def program_path(name, kind, entry):
    return TARGET / FOLDERS[kind] / entry.get("program", name)


def program_command(name, kind, entry):
    return [program_path(name, kind, entry), *entry.get("args", [])]


def version():
    """What the command says of itself and of its library, without the path of that."""
    result = subprocess.run([str(COMMAND), "--version"], capture_output=True, text=True)
    return re.sub(r": /.*", "", result.stdout.strip()) if result.returncode == 0 else "unknown"
