"""Finds CUPTI and builds testapps/bench/cupti against it, on the machine where it is measured.

Must not fail: without CUPTI, or without a compiler, its rows are missing and one line says why.
"""

import glob
import os
import subprocess
import sys
from pathlib import Path

from tools import ROOT, TARGET, cxx

SOURCE = ROOT / "testapps" / "bench" / "cupti" / "bench_cupti.cpp"
LIBRARY = TARGET / "bench-cupti" / "libbench_cupti.so"
LIMIT_S = 120


def toolkits():
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [Path(path) for path in named + ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True), "/usr"]]


def python_packages():
    """The folders of NVIDIA's packages for the interpreter that runs this, and for the python3 on PATH, which may be another."""
    question = "import nvidia; print('\\n'.join(nvidia.__path__))"
    found = []
    for interpreter in (sys.executable, "python3"):
        try:
            answer = subprocess.run([interpreter, "-c", question], capture_output=True, text=True, timeout=LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
        found += [Path(line) for line in answer.stdout.splitlines() if line]
    return list(dict.fromkeys(found))


def places(toolkits, packages):
    """(folder of headers, folder of the library) wherever both can be, the best first."""
    pairs = []
    for root in toolkits:
        pairs.append((root / "extras/CUPTI/include", root / "extras/CUPTI/lib64"))
        pairs += [(root / include, root / library) for include in ("include", "targets/x86_64-linux/include")
                  for library in ("lib64", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu")]
    for package in packages:
        pairs += [(package / name / "include", package / name / "lib") for name in ("cu13", "cu12", "cuda_cupti")]
    # Then the headers of one and the library of another.
    return list(dict.fromkeys(pairs + [(include, library) for include, _ in pairs for _, library in pairs]))


def library_in(folder):
    """The file to link: the newest libcupti, never the stub."""
    files = [path for path in folder.glob("libcupti.so*") if path.is_file()] if folder.is_dir() else []
    return max(files, key=lambda path: len(path.name), default=None)


def headers_of_cuda(toolkits, packages):
    candidates = [root / "include" for root in toolkits] + [package / name / "include" for package in packages
                                                            for name in ("cu13", "cu12", "cuda_runtime")]
    return [folder for folder in candidates if (folder / "cuda.h").is_file()]


def build():
    """(path of the injected library, note): the path is None when it could not be built, and the note says why or with what it was."""
    roots, packages = toolkits(), python_packages()
    fault = "no cupti.h with a libcupti.so beside it"
    for include, folder in places(roots, packages):
        library = library_in(folder)
        if not (include / "cupti.h").is_file() or library is None:
            continue
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        command = [cxx(), "-std=c++17", "-O2", "-shared", "-fPIC", "-isystem", include]
        for cuda in headers_of_cuda(roots, packages):
            command += ["-isystem", cuda]
        command += [SOURCE, "-o", LIBRARY, library, f"-Wl,-rpath,{library.parent}"]
        try:
            result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"CUPTI's rows are missing: the compiler does not run: {error}"
        if result.returncode == 0:
            return LIBRARY, f"CUPTI: {library.resolve()}"
        errors = [line for line in result.stderr.splitlines() if "error" in line]
        fault = f"{library}: {errors[0] if errors else result.stderr.strip()[-200:]}"
    return None, f"CUPTI's rows are missing: {fault}"
