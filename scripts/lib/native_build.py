"""Builds what is not Rust: the simulated driver, device images and the test programs.

    testapps/simdriver/build.sh                 -> target/simdriver/
    kernels/NAME.cu                             -> target/kernels/NAME.fatbin (nvcc), NAME.host.so (build-kernels.sh)
    testapps/apps/NAME.cpp                      -> target/apps/NAME
    testapps/corpus/{hang,slow,hazard}/NAME.cpp -> target/corpus/NAME
    testapps/hostile/NAME.c, NAME.cpp           -> target/hostile/NAME
    testapps/runtime/NAME.cu, NAME/*.cu         -> target/runtime/NAME (static runtime), target/runtime-shared/NAME
    testapps/bench/NAME.cpp, NAME.cu            -> target/bench/NAME (static runtime)
    testapps/stacks/NAME.c, NAME.cpp            -> target/stacks/NAME
    testapps/nvml/libNAME.c                     -> target/nvml/libNAME.so

A source lib*.c or lib*.cpp becomes a shared object of the same name, for programs that load one.
A comment `// build: FLAGS` in the first lines of a source adds compiler and linker flags. In a
runtime program `// build: --default-stream per-thread` makes a second program NAME_per_thread
with that flag and leaves NAME without it.

A step runs again only when its command, its compiler or a file it read has changed. What it read
is known from the compilers' own dependency files, kept with the command in target/native.

Must not: print anything when nothing goes wrong beyond one line a group.
"""

import hashlib
import json
import os
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import ROOT, TARGET, Failure, c_compiler, cxx

JOBS = 2
CUDA = TARGET / "cuda"
STATE = TARGET / "native"
NVCC = CUDA / "bin" / "nvcc"
SIMULATED_DRIVER = TARGET / "simdriver"
TESTAPPS = ROOT / "testapps"
# Machine code for the cards people have, and PTX so that the driver can serve any other.
ARCHITECTURES = ("75", "80", "90", "100", "120")
GENCODE = []
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
PROGRAMS = ["-O2", "-g", "-pthread", "-isystem", CUDA / "include"]
PROGRAMS_CXX = ["-std=c++17", *PROGRAMS]
CORPUS_HEADER = STATE / "corpus.hpp.gch"
PER_THREAD = ["--default-stream", "per-thread"]
MARK = "build:"
MARKED_LINES = 12


class Step:
    """One command that makes a file, and `also` others; `inputs` are what it reads beyond its dependency file."""

    def __init__(self, output, command, inputs, depfile=None, also=()):
        self.output = Path(output)
        self.outputs = [self.output, *also]
        self.command = [str(part) for part in command]
        self.inputs = [Path(path) for path in inputs]
        self.depfile = depfile
        self.record = STATE / "steps" / (str(self.output.relative_to(TARGET)).replace("/", "~") + ".json")

    def _all_there(self):
        return all(path.exists() for path in self.outputs)

    def _stale(self, identity):
        if not self._all_there() or not self.record.is_file():
            return True
        try:
            known = json.loads(self.record.read_text())
        except ValueError:
            return True
        if known["command"] != self.command or known["identity"] != identity:
            return True
        if not {str(path) for path in self.inputs} <= set(known["inputs"]):
            return True
        return any(stamp(path) != value for path, value in known["inputs"].items())

    def run(self, identity):
        """True when it ran, False when it was up to date."""
        if not self._stale(identity):
            return False
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.record.parent.mkdir(parents=True, exist_ok=True)
        self.record.unlink(missing_ok=True)
        result = subprocess.run(self.command, cwd=ROOT, capture_output=True, text=True)
        if result.returncode != 0 or not self._all_there():
            raise Failure(f"{self.output.relative_to(ROOT)} could not be built (exit {result.returncode}):\n"
                          f"{shlex.join(self.command)}\n{result.stdout}{result.stderr}")
        read = {str(path) for path in self.inputs} | set(dependencies(self.depfile))
        self.record.write_text(json.dumps({
            "command": self.command, "identity": identity,
            "inputs": {path: stamp(path) for path in sorted(read)}}, indent=1))
        return True


def stamp(path):
    """Changes whenever the file does; None for a file that is not there."""
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return f"{state.st_size} {state.st_mtime_ns}"


def dependencies(depfile):
    """The files a compiler says it read, the toolchain's own left out (they are its identity)."""
    if depfile is None:
        return []
    text = Path(depfile).read_text().replace("\\\n", " ")
    names = text.split(":", 1)[1].replace("\\ ", "\0").split()
    paths = [(ROOT / name.replace("\0", " ")) for name in names]
    return [str(path) for path in paths if not str(path).startswith(("/usr/", str(CUDA)))]


def compiler_identity():
    """Changes when a compiler does, so that everything is built again."""
    digest = hashlib.sha256()
    for command in ([cxx(), "--version"], [c_compiler(), "--version"]):
        digest.update(subprocess.run(command, capture_output=True, check=True).stdout)
    for path in (NVCC, CUDA / "include" / "cuda.h"):
        digest.update(str(stamp(path)).encode())
    return digest.hexdigest()


def marked_flags(source):
    """The flags of the `// build:` comment of a source, which stands in its first lines."""
    with open(source, encoding="utf-8") as lines:
        for _, line in zip(range(MARKED_LINES), lines):
            text = line.strip().lstrip("/*").strip()
            if text.startswith(MARK):
                return shlex.split(text[len(MARK):].replace("*/", ""))
    return []


def sources(folder, *suffixes):
    return sorted(path for path in folder.glob("*") if path.suffix in suffixes) if folder.is_dir() else []


def tree(*folders):
    """Every file under the folders: the inputs of a step that is a script."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def depfile_for(output):
    path = STATE / "deps" / (str(output.relative_to(TARGET)).replace("/", "~") + ".d")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


# Each function below lists the steps of one group.

def simulated_driver():
    script = TESTAPPS / "simdriver" / "build.sh"
    if not script.is_file():
        raise Failure("testapps/simdriver/build.sh is missing: there is no simulated driver to build")
    return [Step(SIMULATED_DRIVER / "libcuda.so.1", ["bash", script, SIMULATED_DRIVER, CUDA],
                 tree(script.parent, ROOT / "kernels"))]


def host_images():
    script = TESTAPPS / "simdriver" / "build-kernels.sh"
    kernels = sources(ROOT / "kernels", ".cu")
    if not kernels:
        raise Failure("kernels/ holds no .cu file")
    if not script.is_file():
        raise Failure("testapps/simdriver/build-kernels.sh is missing: no images for the simulated driver")
    # One run makes all images, so all of them are one step.
    images = [TARGET / "kernels" / f"{kernel.stem}.host.so" for kernel in kernels]
    return [Step(images[0], ["bash", script, TARGET / "kernels"], tree(ROOT / "kernels") + [script], also=images[1:])]


def device_images():
    steps = []
    for source in sources(ROOT / "kernels", ".cu"):
        output = TARGET / "kernels" / f"{source.stem}.fatbin"
        depfile = depfile_for(output)
        steps.append(Step(output, nvcc("-fatbin", "-MMD", "-MF", depfile, source, "-o", output), [source], depfile))
    return steps


def programs(folder, target, header=None):
    """Single-source C and C++ programs, linked to the simulated driver's libcuda.so when they use it.

    `header`: a precompiled header that they begin with.
    """
    common = TESTAPPS / "common"
    shared_sources = sources(common, ".cpp")
    steps = []
    for source in sources(folder, ".c", ".cpp"):
        library = source.stem.startswith("lib")
        output = target / (source.stem + (".so" if library else ""))
        depfile = depfile_for(output)
        if source.suffix == ".cpp":
            command = [cxx(), *PROGRAMS_CXX, *WARNINGS, "-I", common]
        else:
            command = [c_compiler(), "-std=c17", "-D_GNU_SOURCE", *PROGRAMS, *WARNINGS, "-I", common]
        # Flags of its own would be others than those that the header was compiled with.
        begins_with = [header] if header and not marked_flags(source) else []
        command += [part for path in begins_with for part in ("-include", path.with_suffix(""))]
        command += ["-shared", "-fPIC"] if library else []
        command += ["-MMD", "-MF", depfile, source]
        inputs = [source, *begins_with]
        if source.suffix == ".cpp" and shared_sources and not library:
            archive = TARGET / "native" / "common.a"
            command.append(archive)
            inputs.append(archive)
        # After the source, and only if used: a program that looks the driver up itself must not need it.
        command += ["-Wl,--as-needed", "-L", SIMULATED_DRIVER, "-lcuda", "-ldl", "-lrt"]
        command += marked_flags(source) + ["-o", output]
        steps.append(Step(output, command, inputs, depfile))
    return steps


def corpus():
    """All parts of the corpus in one folder: a name says one program."""
    folders = [TESTAPPS / "corpus" / part for part in ("hang", "slow", "hazard")]
    names = [source.stem for folder in folders for source in sources(folder, ".cpp")]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Failure(f"testapps/corpus: in more than one folder: {', '.join(twice)}")
    return [step for folder in folders for step in programs(folder, TARGET / "corpus", CORPUS_HEADER)]


def corpus_header():
    """What nearly all of the time goes into, once for all programs of the corpus."""
    # Around it, so that its guard is not that of the file that is compiled. It also serves where a compiler will not have the other.
    source = CORPUS_HEADER.with_suffix("")
    text = f'#include "{TESTAPPS / "corpus" / "corpus.hpp"}"\n'
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.is_file() or source.read_text() != text:
        source.write_text(text)
    depfile = depfile_for(CORPUS_HEADER)
    command = [cxx(), *PROGRAMS_CXX, *WARNINGS, "-I", TESTAPPS / "common", "-x", "c++-header", "-MMD", "-MF", depfile, source, "-o", CORPUS_HEADER]
    return [Step(CORPUS_HEADER, command, [source], depfile)]


def common_objects():
    steps = []
    for source in sources(TESTAPPS / "common", ".cpp"):
        output = STATE / "common" / f"{source.stem}.o"
        depfile = depfile_for(output)
        steps.append(Step(output, [cxx(), "-std=c++17", "-O2", "-g", "-pthread", "-fPIC", *WARNINGS, "-isystem",
                                   CUDA / "include", "-I", source.parent, "-MMD", "-MF", depfile, "-c", source,
                                   "-o", output], [source], depfile))
    return steps


def common_archive():
    objects = [step.output for step in common_objects()]
    archive = STATE / "common.a"
    # Made anew each time, so that an object whose source is gone does not stay inside.
    script = 'rm -f "$1" && ar rcs "$@"'
    return [Step(archive, ["bash", "-c", script, "ar", archive, *objects], objects)] if objects else []


def gencode(architectures):
    """The options of nvcc for these architectures, and for any later one by PTX of the first."""
    first = architectures[0]
    return [*(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in architectures), f"-gencode=arch=compute_{first},code=compute_{first}"]


def nvcc(*arguments):
    return [NVCC, "-ccbin", cxx(), "-std=c++17", "-O2", *GENCODE, "-Werror", "all-warnings",
            "-Xcompiler", "-Wall,-Wextra,-Werror,-pthread", *arguments]


def runtime_programs():
    """(name, sources, flags) of every program built on the runtime."""
    folder = TESTAPPS / "runtime"
    found = [(source.stem, [source]) for source in sources(folder, ".cu")]
    if folder.is_dir():
        found += [(path.name, sources(path, ".cu", ".cpp")) for path in sorted(folder.iterdir()) if path.is_dir()]
    variants = []
    for name, files in found:
        if not files:
            continue
        flags = [flag for source in files for flag in marked_flags(source)]
        plain = without(flags, PER_THREAD)
        variants.append((name, files, plain))
        if plain != flags:
            variants.append((name + "_per_thread", files, plain + PER_THREAD))
    return variants


def without(flags, pair):
    """`flags` less every occurrence of the two-word option `pair`."""
    kept, at = [], 0
    while at < len(flags):
        if flags[at:at + 2] == pair:
            at += 2
        else:
            kept.append(flags[at])
            at += 1
    return kept


def runtime_object(name, source):
    return STATE / "runtime" / f"{name}~{source.stem}.o"


def runtime_objects():
    steps = []
    for name, files, flags in runtime_programs():
        for source in files:
            output = runtime_object(name, source)
            depfile = depfile_for(output)
            command = nvcc("-I", TESTAPPS / "common", *flags, "-MMD", "-MF", depfile, "-c", source, "-o", output)
            steps.append(Step(output, command, [source], depfile))
    return steps


def runtime_links():
    """One set of objects gives both programs: only the runtime they are linked to differs."""
    steps = []
    for name, files, flags in runtime_programs():
        objects = [runtime_object(name, source) for source in files]
        for kind, folder in (("static", TARGET / "runtime"), ("shared", TARGET / "runtime-shared")):
            output = folder / name
            command = [NVCC, "-ccbin", cxx(), *flags, "-cudart", kind, "-L", CUDA / "lib64", "-L", SIMULATED_DRIVER,
                       *objects, "-Xlinker", "--as-needed", "-lcuda"]
            if kind == "shared":
                # Found beside the programs, here as in the kit for a machine without a toolkit.
                command += ["-Xlinker", "-rpath", "-Xlinker", "$ORIGIN/../cuda/lib"]
            command += ["-o", output]
            steps.append(Step(output, command, objects))
    return steps


def bench_runtime_objects():
    folder = TESTAPPS / "bench"
    steps = []
    for source in sources(folder, ".cu"):
        output = STATE / "bench" / f"{source.stem}.o"
        depfile = depfile_for(output)
        steps.append(Step(output, nvcc("-I", TESTAPPS / "common", "-MMD", "-MF", depfile, "-c", source, "-o", output), [source], depfile))
    return steps


def bench_runtime_links():
    return [Step(TARGET / "bench" / step.output.stem,
                 [NVCC, "-ccbin", cxx(), "-cudart", "static", "-L", CUDA / "lib64", step.output, "-o", TARGET / "bench" / step.output.stem],
                 [step.output]) for step in bench_runtime_objects()]


def removed_outputs(folder, steps, pattern="*"):
    """Outputs whose source is gone would go on being tested and shipped."""
    wanted = {path for step in steps for path in step.outputs}
    for path in folder.glob(pattern) if folder.is_dir() else ():
        if path.is_file() and path not in wanted:
            path.unlink()


def group(title, steps, identity, say):
    started = time.monotonic()
    with ThreadPoolExecutor(JOBS) as pool:
        futures = [pool.submit(step.run, identity) for step in steps]
        failures = [future.exception() for future in futures if future.exception() is not None]
    if failures:
        raise failures[0]
    built = sum(future.result() for future in futures)
    say(title, f"{built} built, {len(steps) - built} up to date", time.monotonic() - started)


def needed(groups, targets):
    """Of each group the steps that these files need."""
    wanted, kept = {TARGET / target for target in targets}, []
    for title, steps in reversed(groups):
        steps = [step for step in steps if wanted & set(step.outputs)]
        wanted |= {path for step in steps for path in step.inputs}
        kept.append((title, steps))
    return [(title, steps) for title, steps in reversed(kept) if steps]


def build(say, targets=None, architectures=None):
    """Builds everything, or what some files in target/ need; `say(title, outcome, seconds)` is called once a group.

    `architectures`: those of the cards that machine code is made for, as numbers; the usual ones where none are named.
    """
    GENCODE[:] = gencode(architectures or ARCHITECTURES)
    identity = compiler_identity()
    applications = programs(TESTAPPS / "apps", TARGET / "apps")
    corpus_programs = corpus()
    hostile = programs(TESTAPPS / "hostile", TARGET / "hostile")
    stacks = programs(TESTAPPS / "stacks", TARGET / "stacks")
    management = programs(TESTAPPS / "nvml", TARGET / "nvml")
    measuring = programs(TESTAPPS / "bench", TARGET / "bench")
    images = device_images()
    links = runtime_links()
    groups = [
        ("simulated driver", simulated_driver()),
        ("kernels for the simulated driver", host_images()),
        ("kernels for cards", images),
        ("what the test programs share", common_objects()),
        ("its archive", common_archive()),
        ("driver-API programs", applications),
        ("what the corpus begins with", corpus_header()),
        ("the corpus", corpus_programs),
        ("hostile programs", hostile),
        ("programs whose stacks are read", stacks),
        ("the simulated management library", management),
        ("programs that measure", measuring),
        ("runtime-API programs, compiled", runtime_objects() + bench_runtime_objects()),
        ("runtime-API programs, linked", links + bench_runtime_links()),
    ]
    if targets is None:
        removed_outputs(TARGET / "kernels", images, "*.fatbin")
        removed_outputs(TARGET / "kernels", host_images(), "*.host.so")
        removed_outputs(TARGET / "apps", applications)
        removed_outputs(TARGET / "corpus", corpus_programs)
        removed_outputs(TARGET / "hostile", hostile)
        removed_outputs(TARGET / "stacks", stacks)
        removed_outputs(TARGET / "nvml", management)
        removed_outputs(TARGET / "bench", measuring + bench_runtime_links())
        removed_outputs(TARGET / "runtime", links)
        removed_outputs(TARGET / "runtime-shared", links)
    else:
        groups = needed(groups, targets)
    for title, steps in groups:
        group(title, steps, identity, say)
