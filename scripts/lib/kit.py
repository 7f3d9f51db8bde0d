"""Lays out the kit: the repository's own tree in small, so that gpu-check, gpu-atlas and bench are the same in both.

Must not take anything along that they do not use, nor leave files of an earlier kit behind.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Only what ships is taken along.
os.environ["GUARD_BUILD"] = "release"

import corpus  # noqa: E402
import explores  # noqa: E402
import guard  # noqa: E402
import oracle_card  # noqa: E402
from tools import ROOT, TARGET, Failure  # noqa: E402

MOST_MIB = 60
SCRIPTS = ("gpu-check", "gpu-atlas", "bench", "lib/all_gpus.py", "lib/atlas.py", "lib/card_tools.py", "lib/checks.py", "lib/cold_starts.py", "lib/corpus.py", "lib/defaults.py", "lib/explores.py", "lib/frameworks.py", "lib/on_host.py",
           "lib/gpu_dumps.py", "lib/gpu_inside.py", "lib/gpu_probe.py", "lib/guard.py", "lib/hazards.py", "lib/heals.py", "lib/oracle_card.py", "lib/policies.py", "lib/processes.py", "lib/profiles.py", "lib/ranks.py", "lib/recordings.py", "lib/reproducers.py", "lib/runs.py", "lib/spare_time.py", "lib/tools.py", "lib/wheel/__init__.py")
MARK = "lazyguard-kit"
# Beside the programs of programs.json.
ALSO = ("apps/launch_bench", "races/races", "races/reported")
MEASURING = ("launch_worker", "call_worker", "runtime_worker", "start_cost", "libbench_clock.so")
# Many small programs, and ours: most of their bytes are for a debugger. Their symbols stay.
WITHOUT_DEBUG = (Path("target/corpus"), Path("target/races"), Path("target/release"), Path("target/debug"), Path("target/oracle"))
# Compiled there, against the CUPTI that is there.
SOURCES = ("testapps/bench/cupti/bench_cupti.cpp", "scripts/gpu/filled_device.cu")


def contents():
    """Every file of the kit, relative to the repository."""
    files = [Path("scripts") / name for name in SCRIPTS]
    files += sorted(path.relative_to(ROOT) for path in (ROOT / "scripts" / "lib").glob("bench_*.py"))
    files += sorted(path.relative_to(ROOT) for path in (ROOT / "scripts" / "gpu").glob("*.py"))
    files += [Path(name) for name in SOURCES]
    files += [path.relative_to(ROOT) for path in (guard.PROGRAMS, guard.LIBRARY, guard.COMMAND)]
    shared_runtime = False
    for name, entry in guard.programs().items():
        for kind in entry["kinds"]:
            files.append(guard.program_path(name, kind, entry).relative_to(ROOT))
            shared_runtime |= kind == "runtime-shared"
    files += sorted(path.relative_to(ROOT) for path in (ROOT / "testapps" / "frameworks").rglob("*.py"))
    # Compiled there.
    files += sorted(path.relative_to(ROOT) for path in (ROOT / "testapps" / "inside").iterdir())
    # The source of such a program states the expected result.
    files += [path.relative_to(ROOT) for path in [*corpus.SOURCES.glob("*/*.cpp"), *explores.RACES.glob("*.cpp")]]
    # Names of one file, which corpus.path_of makes anew there.
    files += [path.relative_to(ROOT) for path in corpus.files()]
    files += [Path("target/atlas/atlas")]
    # The truth of a random program is the simulated driver's.
    files += [path.relative_to(ROOT) for path in oracle_card.files()]
    files += [Path("target") / name for name in ALSO]
    files += [Path("target/bench") / name for name in MEASURING]
    files += sorted(path.relative_to(ROOT) for path in (TARGET / "apps").glob("lib*.so"))
    files += sorted(path.relative_to(ROOT) for path in (TARGET / "kernels").glob("*.fatbin"))
    # The lines at which they may stand.
    files += sorted(path.relative_to(ROOT) for path in (ROOT / "kernels").glob("*.cu"))
    if shared_runtime:
        # Where the programs' run path looks: $ORIGIN/../cuda/lib.
        files.append(Path("target/cuda/lib/libcudart.so.13"))
    files = sorted(set(files))
    absent = [str(path) for path in files if not (ROOT / path).is_file()]
    if absent:
        raise Failure("not there: " + ", ".join(absent))
    return files


def empty(folder):
    """Makes `folder` empty, and refuses to empty one that is not a kit."""
    if folder.exists():
        if any(folder.iterdir()) and not (folder / MARK).is_file():
            raise Failure(f"{folder} is there, is not empty and is no kit: name another folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("Made by scripts/gpu-kit. Run scripts/gpu-check, scripts/gpu-atlas or scripts/bench --card here, on a machine with a GPU.\n")


def main():
    folder = Path(sys.argv[1]).resolve()
    files = contents()
    empty(folder)
    for path in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)
    small = [str(folder / path) for path in files if any(folder in path.parents for folder in WITHOUT_DEBUG)]
    subprocess.run(["strip", "--strip-debug", *small], check=True)
    size = sum((folder / path).stat().st_size for path in files) / 2**20
    if size > MOST_MIB:
        largest = sorted(files, key=lambda path: -(folder / path).stat().st_size)[:5]
        raise Failure(f"{size:.1f} MiB is over the limit of {MOST_MIB} MiB; the largest: " + ", ".join(
            f"{path} {(folder / path).stat().st_size / 2**20:.1f}" for path in largest))
    print(f"{folder}: {len(files)} files, {size:.1f} MiB; there: scripts/gpu-check, scripts/gpu-atlas, scripts/bench --card")


try:
    main()
except Failure as failure:
    sys.exit(f"gpu-kit: {failure}")
