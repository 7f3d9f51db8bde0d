"""Builds for aarch64 with a cross compiler, and tests that under qemu-user: what scripts/aarch64 does.

The end-to-end harness and the command run on this machine; the library and the programs that it guards are emulated. So that a program
starts by its name, as the harness starts it, the tests run in a user namespace with a binfmt_misc of its own: nothing of the machine
changes. Not emulated, because they start this machine's programs with the library of the other: the end-to-end tests of the command.

What is missing is said in a line that begins with `skipped: `; then no test has run, and none has failed.

Must not: change the machine's own binfmt_misc, or count a test that did not run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cross_tools
import fetching
import nextest
import rust_build
from elf import PAGES, Elf
from tools import ROOT, Failure

FOLDER = ROOT / "target" / "aarch64"
GROUND_TRUTH = ROOT / "testapps" / "simdriver" / "ground-truth"
TESTED = FOLDER / rust_build.TESTED
# As ELF files name it.
AARCH64 = 183
MUSL = "aarch64-unknown-linux-musl"
# An emulated library that is not optimised takes a second to read a recording. The tests here read no line of the library's own code, so it has
# no debug information. In one piece, since what optimises every piece alone takes half as long again.
OPTIMISED = [word for setting in ("package.lazyguard-core.opt-level=1", "package.object.opt-level=1", "package.gimli.opt-level=1", "debug=false",
                                  "package.lazyguard-core.codegen-units=1", "incremental=false")
             for word in ("--config", f"profile.dev.{setting}")]
# Of the harness: so many times slower than this machine's is an emulated program taken to be.
SLOWER = "3"

FEW_FILES = ("simdriver/libcuda.so.1", "kernels", *(f"apps/{name}" for name in ("lazy_pair", "plain_spin", "module_pair")))
FEW_TESTS = "test(/^(apps|killed)::(lazy_pair|plain_spin|module_pair)::/)"

# What an emulator cannot show: why, and the tests. Every other one of the programs' is run.
NOT_EMULATED = (
    ("The kernel says of the emulator what other threads do, so a wait that another thread may yet end is called a hang.",
     ("corpus::armed_server_idles", "corpus::callback_computes", "corpus::event_chain_satisfied_late", "corpus::graph_host_node_sleeps",
      "corpus::host_function_sleeps", "corpus::wait_filled_by_2d_memset", "corpus::wait_for_the_other_half", "corpus::wait_stored_by_another_process",
      "corpus::wait_stored_by_the_host", "corpus::wait_written_late", "corpus::writer_waits_for_a_host_function")),
    ("Spans of time that an emulator does not keep.",
     ("corpus::module_load_waits_for_a_pause", "corpus::module_unload")),
    ("Programs of this machine that are started with the library of the other.",
     ("hostile::out_full_disk", "hostile::route_ctypes", "hostile::trap11_exec", "hostile::trap11_fork_child_silent")),
    ("The emulator has threads, memory and stacks of its own.",
     ("hostile::memory_exhausted", "hostile::threads_by_the_thousand", "hostile::trap08_no_cuda", "hostile::trap15_small_stacks")),
)
# The same of the unit tests: the emulator refuses to make the child process that has its parent's memory.
UNITS_NOT_EMULATED = ("watch::command::tests::the_end_of_a_command_is_seen_and_a_wait_for_children_finds_none",
                      "watch::python::tests::a_child_says_it_and_whatever_happens_there_stays_there")

# Registers the emulator ($1) for files that begin like a program or a library for aarch64. F: the kernel opens the emulator now.
CANNOT_REGISTER = 96
REGISTER = rf"""
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || exit {CANNOT_REGISTER}
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":aarch64:M::$magic:$mask:$1:F" > /proc/sys/fs/binfmt_misc/register || exit {CANNOT_REGISTER}
shift
exec "$@"
"""


class Skipped(Exception):
    """Why nothing can be tested on this machine."""


def say(text):
    print(f"aarch64: {text} ...", flush=True)


def of_the_machine(tools):
    """The environment in which the scripts build for aarch64."""
    return dict(os.environ, LAZYGUARD_MACHINE="aarch64", LAZYGUARD_RUNNER=tools.emulator, CC=tools.c_compiler, CXX=tools.cxx, OBJCOPY=tools.objcopy)


def script(tools, *command):
    if subprocess.run([sys.executable, *command], env=of_the_machine(tools)).returncode != 0:
        raise Failure(f"{command[0].name} failed")


def build_native(tools, *files):
    script(tools, ROOT / "scripts" / "fetch-cuda", "--headers")
    script(tools, ROOT / "scripts" / "lib" / "native_build.py", *files)


def cargo(tools, *arguments):
    under = cross_tools.TRIPLE.replace("-", "_")
    compiler = {f"CARGO_TARGET_{under.upper()}_LINKER": tools.c_compiler, f"CC_{under}": tools.c_compiler}
    rust_build.cargo(*arguments, "-j", rust_build.JOBS, "--target", cross_tools.TRIPLE, under_way=say, **compiler)


def build_library(tools):
    cargo(tools, "build", "-p", "lazyguard-shim", *OPTIMISED)
    TESTED.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / "target" / cross_tools.TRIPLE / rust_build.EVERYDAY / "liblazyguard.so", TESTED)
    command = ROOT / "target" / os.environ.get("GUARD_BUILD", rust_build.EVERYDAY) / "lazyguard"
    if not command.is_file():
        raise Failure(f"{command.relative_to(ROOT)} is not there: scripts/build")
    # It reads the recordings of either machine.
    shutil.copy2(command, TESTED)


def emulated(tools, command, limit_s, **environment):
    """What the command prints, with every program for aarch64 that it starts emulated."""
    environment = {**os.environ, "QEMU_LD_PREFIX": tools.libraries, "LAZYGUARD_PROFILE": "off", **environment}
    wrapped = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", REGISTER, "sh", tools.emulator, *map(str, command)]
    try:
        result = subprocess.run(wrapped, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", timeout=limit_s)
    except FileNotFoundError:
        raise Skipped("unshare is not there")
    except subprocess.TimeoutExpired as expired:
        return f"{expired.stdout or ''}\nstopped after {limit_s} s"
    if result.returncode == CANNOT_REGISTER:
        raise Skipped(f"this machine gives a user namespace no emulator of its own: {result.stdout.strip()}")
    return result.stdout


def conformance(tools):
    simulated = FOLDER / "simdriver"
    return emulated(tools, [simulated / "conformance", "--beside", GROUND_TRUTH], 240, LD_LIBRARY_PATH=str(simulated))


def programs(tools, which):
    expression = f"binary_id(lazyguard-e2e::programs) & ({which})"
    command = nextest.command("aarch64", ["--workspace"], expression, 4)
    return emulated(tools, command, 2400, E2E_TARGET=str(FOLDER), GUARD_BUILD=rust_build.TESTED, E2E_SLOWER=SLOWER)


def unit_tests(tools):
    """The crates' own tests, whose processes the emulator runs."""
    packages = ["-p", "lazyguard-core", "-p", "lazyguard-shim", "--lib"]
    cargo(tools, "test", "--no-run", *packages)
    under = cross_tools.TRIPLE.replace("-", "_").upper()
    left_out = " | ".join(f"test(={test})" for test in UNITS_NOT_EMULATED)
    command = nextest.command("aarch64", [*packages, "--target", cross_tools.TRIPLE], f"not ({left_out})", 2)
    # Built without lints, above.
    return emulated(tools, command, 1200, **{f"CARGO_TARGET_{under}_LINKER": tools.c_compiler}, RUSTC_WORKSPACE_WRAPPER="")


def counted(title, output, count):
    """Prints what failed; the numbers."""
    passed, failed = count(output) or (0, 1)
    if failed:
        print(output)
    print(f"aarch64: {title}: {passed} passed, {failed} failed", flush=True)
    return passed, failed


def large_pages(tools):
    """On pages of 64 KiB the library is mapped and guards a program, and this machine's command reads the recording."""
    library, program = TESTED / "liblazyguard.so", FOLDER / "apps" / "lazy_pair"
    said = [f"{library}: a segment is aligned to {Elf(library).largest_pages} bytes" if Elf(library).largest_pages < PAGES[AARCH64] else ""]
    with tempfile.TemporaryDirectory(prefix="lazyguard-pages-") as folder:
        out = f"{folder}/out"
        guarded = ["env", f"LD_PRELOAD={library}", "LAZYGUARD_SUMMARY=on"]
        hangs = [*guarded, f"LAZYGUARD_OUT={out}", "LAZYGUARD_PRELOAD=off", "LAZYGUARD_HANG_AFTER=1s", "LAZYGUARD_ON_HANG=exit:117"]
        tries = (([*guarded, program], r"0 hangs reported[\s\S]*prevented LG101"), ([*hangs, program], r"LG201 [\s\S]*LAZYGUARD_ON_HANG=exit:117"),
                 ([TESTED / "lazyguard", "report", out], r"LG201 [\s\S]*ended by LAZYGUARD_ON_HANG=exit:117"))
        for command, expected in tries:
            output = emulated(tools, command, 60, LD_LIBRARY_PATH=str(FOLDER / "simdriver"), QEMU_PAGESIZE=str(PAGES[AARCH64]))
            said.append("" if re.search(expected, output) else f"{' '.join(map(str, command))}: {output}")
    passed = said.count("")
    return "\n".join([*said, f"{passed} passed, {len(said) - passed} failed"])


def last_line(output):
    found = re.findall(r"^(\d+) passed, (\d+) failed", output, re.M)
    return tuple(map(int, found[-1])) if found else None


def few(tools):
    build_native(tools, *FEW_FILES)
    build_library(tools)
    yield "programs", programs(tools, FEW_TESTS), nextest.summary
    yield "pages of 64 KiB", large_pages(tools), last_line


def everything(tools):
    build_native(tools)
    build_library(tools)
    yield "the simulated driver's conformance", conformance(tools), last_line
    left_out = " | ".join(f"test(/^{program}::/)" for _, tests in NOT_EMULATED for program in tests)
    yield "programs", programs(tools, f"not ({left_out})"), nextest.summary
    yield "unit tests", unit_tests(tools), nextest.summary
    yield "pages of 64 KiB", large_pages(tools), last_line


def packages(tools):
    """Builds what ships into target/aarch64/dist, and uses each package."""
    cross_tools.rust_library(MUSL)
    script(tools, ROOT / "scripts" / "lib" / "dist.py")
    build_native(tools, *FEW_FILES)
    try:
        yield from each_package_used(tools)
    except Skipped as why:
        # They are built, as was asked for.
        print(f"skipped: the packages are not tried: {why}")


def each_package_used(tools):
    for pattern, unpack in (("*.whl", unpack_wheel), ("*-linux-aarch64.tar.gz", unpack_archive), ("*.deb", unpack_deb)):
        package = next((FOLDER / "dist").glob(pattern))
        with tempfile.TemporaryDirectory(prefix="lazyguard-aarch64-") as root:
            command = unpack(package, Path(root))
            yield package.name, used(tools, command), last_line


def unpack_wheel(package, root):
    """As an installer does it into a virtual environment."""
    shutil.unpack_archive(package, root / "lib" / "python3" / "site-packages", "zip")
    (root / "bin").mkdir()
    script_of_wheel = next((root / "lib").rglob("*.data/scripts/lazyguard"))
    return executable(shutil.move(script_of_wheel, root / "bin" / "lazyguard"))


def unpack_archive(package, root):
    shutil.unpack_archive(package, root)
    return next(root.glob("*/bin/lazyguard"))


def unpack_deb(package, root):
    """Without dpkg, which another system lacks: the last member of the archive has the files."""
    members = package.read_bytes()
    at = members.index(b"data.tar")
    header = members[at:at + 60]
    name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
    archive = root / name
    archive.write_bytes(members[at + 60:at + 60 + size])
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", root], check=True)
    return root / "usr" / "bin" / "lazyguard"


def executable(path):
    Path(path).chmod(0o755)
    return Path(path)


def used(tools, command):
    """The command of a package finds its library, prevents a hang, and ends and reports one; the last line has the numbers."""
    program, simulated = FOLDER / "apps" / "lazy_pair", str(FOLDER / "simdriver")
    hang = ["--preload", "off", "--hang-after", "1s", "--on-hang", "kill", "--kill-after", "1s"]
    tries = ((["--version"], "CUDA headers"), (["path"], str(command.parents[1])),
             (["run", "--result", "--", program], "no hang, no hazard, 1 prevented"),
             (["run", *hang, "--", program], "in cuCtxSynchronize at main lazy_pair.cpp"))
    said, passed = [], 0
    for arguments, expected in tries:
        out = emulated(tools, [command, *arguments], 60, LD_LIBRARY_PATH=simulated)
        passed += expected in out
        said.append(out if expected not in out else "")
    return "\n".join([*said, f"{passed} passed, {len(tries) - passed} failed"])


def main():
    parser = argparse.ArgumentParser(prog="scripts/aarch64", description="Build for aarch64, and test that under an emulator.")
    parser.add_argument("--all", action="store_true", help="every program, the unit tests, and the conformance of the simulated driver")
    parser.add_argument("--dist", action="store_true", help="the packages, into target/aarch64/dist, and each of them used")
    options = parser.parse_args()
    numbers = []
    try:
        tools = cross_tools.find()
        for title, output, count in (packages if options.dist else everything if options.all else few)(tools):
            numbers.append(counted(title, output, count))
    except (fetching.Failure, Skipped) as missing:
        print(f"skipped: aarch64: {missing}")
        if options.dist:
            return 1
    except Failure as failure:
        print(f"aarch64: {failure}")
        numbers.append((0, 1))
    passed, failed = (sum(number[at] for number in numbers) for at in (0, 1))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
