"""Tests of the scripts' own logic. They build nothing of the project and touch nothing outside a temporary folder."""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))

import checks  # noqa: E402
import corpus  # noqa: E402
import glibc_floor  # noqa: E402
import guard  # noqa: E402
import hazards  # noqa: E402
import native_build  # noqa: E402
import processes  # noqa: E402
from elf import Elf, version_key  # noqa: E402
from tools import Failure, c_compiler  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class TheNativeBuild(Folder):
    def cmake(self, script):
        """What a script prints that uses the functions of testapps/sources.cmake, in a folder of its own."""
        cmake = native_build.TOOLS / "cmake"
        if not cmake.is_file():
            self.skipTest("no cmake: scripts/fetch-cmake")
        path = self.write("script.cmake", f'include("{native_build.ROOT}/testapps/sources.cmake")\n{script}\n')
        result = subprocess.run([cmake, "-P", path], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr.strip()

    def flags(self, text, name="a.cpp"):
        source = self.write(name, text)
        return self.cmake(f'marked_flags(flags "{source}")\nmessage("${{flags}}")')

    def test_flags_come_from_the_build_comment_of_either_language(self):
        self.assertEqual(self.flags("// A test.\n// build: -DX -rdynamic -ldl\nint main() {}\n"), "-DX;-rdynamic;-ldl")
        self.assertEqual(self.flags("/* build: -DNAME='a b' -Wl,-rpath,$ORIGIN */\n", "b.c"), "-DNAME=a b;-Wl,-rpath,$ORIGIN")
        self.assertEqual(self.flags("// builds nothing\nint x;\n"), "")

    def test_what_has_no_source_is_taken_away_and_folders_stay(self):
        kept, gone, beneath = self.write("out/kept", ""), self.write("out/gone", ""), self.write("out/folder/file", "")
        self.cmake(f'keep_only("{self.folder}/out" * "{kept}" "{self.folder}/out/not_yet_built")')
        self.assertEqual((kept.exists(), gone.exists(), beneath.exists()), (True, False, True))

    def test_another_compiler_builds_everything_anew_and_the_same_one_nothing(self):
        state = self.folder / "native"
        commands = []

        def run(command):
            commands.append(command)
            state.mkdir(exist_ok=True)

        with mock.patch.object(native_build, "STATE", state), mock.patch.object(native_build, "run", run), \
                mock.patch.object(native_build.subprocess, "run", return_value=mock.Mock(returncode=0)), \
                mock.patch.object(native_build, "compilers") as compilers:
            for identity, times, kept in (("gcc 1", 1, False), ("gcc 1", 1, True), ("gcc 2", 2, False)):
                compilers.return_value = identity
                native_build.configure()
                self.assertEqual((len(commands), (state / "object").exists()), (times, kept))
                self.write("native/object", "")

    def test_the_tests_build_for_one_architecture_and_leave_what_is_there(self):
        state = self.folder / "native"
        with mock.patch.object(native_build, "STATE", state), mock.patch.object(native_build, "run", lambda _: state.mkdir(exist_ok=True)), \
                mock.patch.object(native_build.subprocess, "run", return_value=mock.Mock(returncode=0)), \
                mock.patch.object(native_build, "compilers", return_value="gcc 1"):
            self.assertEqual((native_build.as_it_is(("90",)), native_build.as_it_is()), (("90",), ()))
            for architectures in (("90",), ("80", "100"), ()):
                native_build.configure(architectures)
                self.assertEqual(native_build.as_it_is(("120",)), architectures)

    def test_a_failure_is_said_from_the_first_failed_step_on_and_without_the_others(self):
        output = "[0/1] Re-checking globbed directories...\n[1/3] Building a\nwarning of a\nFAILED: b.o\ng++ b\nb.cpp:1: error: no\n[2/3] Building c\nninja: build stopped\n"
        self.assertEqual(native_build.reason(output), "FAILED: b.o\ng++ b\nb.cpp:1: error: no\nninja: build stopped")
        self.assertEqual(native_build.reason("-- Detecting\nCMake Error at x:1: two\n"), "CMake Error at x:1: two")
        self.assertEqual(native_build.reason("no word of it\n"), "no word of it")
        self.assertEqual((native_build.steps(output), native_build.steps("ninja: no work to do.\n")), (2, 0))


class TheCorpusAsOneProgram(Folder):
    def test_a_name_of_it_is_made_at_first_use_and_another_program_is_left_alone(self):
        everything, alone = self.write("corpus/corpus", "all"), self.write("corpus/alone", "alone")
        with mock.patch.object(corpus, "ALL", everything):
            for _ in range(2):
                self.assertTrue(corpus.path_of(named("free")).samefile(everything))
            self.assertEqual(corpus.path_of(named("alone")).read_text(), "alone")
            with mock.patch.object(corpus, "programs", return_value={name: named(name) for name in ("free", "alone")}):
                self.assertEqual(corpus.files(), [everything, alone])
            everything.unlink()
            self.assertFalse(corpus.path_of(named("not_built")).exists())


def named(name):
    return corpus.Program(name, "", None, None, None, None, {}, "yes", None)


class TheElfReader(unittest.TestCase):
    def test_it_reads_what_a_program_needs_and_which_versions(self):
        program = Elf(sys.executable if Path(sys.executable).is_file() else "/bin/sh")
        self.assertTrue(any(name.startswith("libc.so") for name in program.needed), program.needed)
        self.assertTrue(any(version.startswith("GLIBC_") for _, version in program.needed_versions))

    def test_it_agrees_with_the_linker_on_symbols_and_versions(self):
        libc = Elf(glibc_floor.system_library("libc.so.6"))
        memcpy = {symbol.version: symbol.default for symbol in libc.symbols() if symbol.name == "memcpy"}
        self.assertEqual(sum(memcpy.values()), 1, memcpy)
        self.assertIn("libc.so.6", libc.soname)

    def test_versions_are_compared_as_numbers(self):
        self.assertLess(version_key("GLIBC_2.3.4"), version_key("GLIBC_2.17"))
        self.assertIsNone(version_key("GLIBC_PRIVATE"))


class TheGlibcFloor(Folder):
    def test_what_is_linked_against_it_needs_nothing_above_it_and_runs(self):
        floor = self.folder / "floor"
        arguments = glibc_floor.ensure(floor)
        self.assertIn(f"native={floor.resolve()}", arguments)
        source = self.write("a.c", """
            #define _GNU_SOURCE 1
            #include <dlfcn.h>
            #include <errno.h>
            #include <pthread.h>
            #include <sched.h>
            #include <signal.h>
            #include <string.h>
            #include <sys/stat.h>
            #include <unistd.h>
            extern pid_t gettid(void) __attribute__((weak));
            static void *body(void *x) { __atomic_store_n((int *)x, 1, __ATOMIC_RELEASE); return x; }
            static void nothing(void) {}
            int answer(void) {
              pthread_t thread; pthread_attr_t how; pthread_key_t key; sigset_t none; struct stat state; char copy[4];
              static int has_run;
              if (pthread_attr_init(&how) || pthread_attr_setstacksize(&how, 1 << 20)) return 6;
              if (pthread_create(&thread, &how, body, &has_run) || pthread_detach(thread)) return 1;
              while (!__atomic_load_n(&has_run, __ATOMIC_ACQUIRE)) sched_yield();
              if (pthread_setname_np(pthread_self(), "a")) return 9;
              if (pthread_key_create(&key, 0) || pthread_setspecific(key, copy) || pthread_key_delete(key)) return 7;
              if (sigemptyset(&none) || pthread_sigmask(SIG_BLOCK, &none, &none) || pthread_sigmask(-1, &none, 0) != EINVAL) return 8;
              if (pthread_atfork(nothing, nothing, nothing)) return 2;
              if (stat("/", &state) || !S_ISDIR(state.st_mode)) return 3;
              void *self = dlopen(0, RTLD_LAZY);
              if (!self || dlclose(self)) return 4;
              memcpy(copy, &state, sizeof copy);
              return gettid && gettid() <= 0 ? 5 : 42;
            }
        """)
        library = self.folder / "a.so"
        wrapped = [f"-Wl,--wrap={name}" for name in glibc_floor.WRAPPED]
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-nodefaultlibs", "-nostartfiles", "-o", str(library), str(source), f"-L{floor}", *wrapped,
                        # Before libgcc, which has a __wrap_pthread_create for split stacks.
                        "-Wl,--as-needed", "-lc", "-lgcc_s", "-lpthread", "-ldl", "-lc", "-Wl,-z,defs"], check=True)
        built = Elf(library)
        self.assertEqual(built.needed, ["libc.so.6"])
        above = [version for _, version in built.needed_versions if version_key(version) > glibc_floor.FLOOR]
        self.assertEqual(above, [])
        question = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
        self.assertEqual(subprocess.run([sys.executable, "-c", question], capture_output=True, text=True).stdout, "42\n")

    def test_a_function_newer_than_the_floor_fails_the_link(self):
        floor = self.folder / "floor"
        glibc_floor.ensure(floor)
        source = self.write("a.c", "extern int statx(void); int answer(void) { return statx(); }\n")
        result = subprocess.run([c_compiler(), "-shared", "-fPIC", "-nodefaultlibs", "-o", str(self.folder / "a.so"), str(source),
                                 f"-L{floor}", "-lc", "-Wl,-z,defs"], capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("statx", result.stderr)

    def test_it_is_made_once(self):
        floor = self.folder / "floor"
        glibc_floor.ensure(floor)
        made = (floor / "libc.so.6").stat().st_mtime_ns
        glibc_floor.ensure(floor)
        self.assertEqual((floor / "libc.so.6").stat().st_mtime_ns, made)


class CheckingTheLibrary(Folder):
    def check(self, *link_arguments):
        source = self.write("a.c", "int cuInit(unsigned flags) { return (int)flags; }\n")
        library = self.folder / "a.so"
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-o", str(library), str(source), *link_arguments], check=True)
        result = subprocess.run([sys.executable, str(SCRIPTS / "check-library"), str(library)], capture_output=True, text=True)
        return result, {line.split()[1].rstrip(":") for line in result.stdout.splitlines() if line.startswith("FAIL ")}

    def test_each_fault_is_named_and_counted(self):
        stand_in = self.folder / "libcudart.so.13"
        subprocess.run([c_compiler(), "-shared", "-nostdlib", "-Wl,-soname,libcudart.so.13", "-x", "c", "/dev/null", "-o", str(stand_in)],
                       check=True)
        result, faults = self.check("-Wl,--no-as-needed", str(stand_in), "-Wl,-rpath,/nowhere", "-Wl,-z,max-page-size=2048")
        wanted = {"no_cuda_library_is_needed", "only_allowed_libraries_are_needed", "stays_loaded_after_dlclose",
                  "has_no_search_path_of_its_own", "nothing_of_the_driver_s_names_is_exported", "can_be_mapped_on_every_page_size"}
        self.assertLessEqual(wanted, faults)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, rf"(?m)^\d+ passed, {len(faults)} failed\n\Z")

    def test_a_library_that_stays_loaded_and_needs_little_lacks_only_the_hooks(self):
        _, faults = self.check("-Wl,-z,nodelete")
        self.assertEqual(faults, {
            "nothing_of_the_driver_s_names_is_exported", "each_function_of_the_table_has_a_hook", "exports_know_their_caller_by_a_frame_of_their_own",
            "threads_of_the_program_enter_by_the_door", "no_frame_around_the_program_s_calls_has_a_landing_pad",
            "what_only_the_command_reads_is_left_out"})


class RunningAProgram(Folder):
    def test_a_program_that_hangs_is_ended_with_its_children(self):
        started = time.monotonic()
        outcome = processes.run(["bash", "-c", "echo begun; sleep 60 & echo $! > child; sleep 60"], dict(os.environ), 3, self.folder)
        self.assertIsNone(outcome.code)
        self.assertEqual(outcome.stdout, "begun\n")
        self.assertLess(time.monotonic() - started, 30)
        child = Path(f"/proc/{(self.folder / 'child').read_text().strip()}/stat")
        deadline = time.monotonic() + 5
        while child.exists() and child.read_text().split()[2] != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(not child.exists() or child.read_text().split()[2] == "Z")

    def test_an_exit_code_and_a_signal_are_told_apart_from_the_limit(self):
        self.assertEqual(processes.run(["bash", "-c", "exit 7"], dict(os.environ), 10, self.folder).code, 7)
        self.assertEqual(processes.run(["bash", "-c", "kill -9 $$"], dict(os.environ), 10, self.folder).code, -9)

    def test_it_stops_early_when_enough_was_seen(self):
        outcome = processes.run(["sleep", "60"], dict(os.environ), 30, self.folder, stop=lambda: True)
        self.assertIsNone(outcome.code)
        self.assertLess(outcome.seconds, 10)

    def test_a_machine_that_stands_still_takes_nothing_from_the_limit(self):
        class Program:
            """The machine stands still in the first wait; the program ends in the third."""
            waits = 0

            def wait(self, timeout):
                self.waits += 1
                if self.waits == 3:
                    return 0
                time.sleep(processes.STANDSTILL_S + 0.3 if self.waits == 1 else timeout)
                raise subprocess.TimeoutExpired("program", timeout)

        self.assertTrue(processes.wait(Program(), time.monotonic() + 0.5, None))
        self.assertFalse(processes.wait(Program(), time.monotonic() - 10.0, None))


class Corpus(unittest.TestCase):
    """What the corpus states, and how it is compared."""

    HANGS = ("// Waits\n// for ever.\n// expect: LG204 culprit=spin innocent=busy\n// env: A=b C=d\n// default: completes\n"
             "// card: yes, alone\n#include <x>\n// card: later lines say nothing\n")

    def test_the_first_lines_are_read(self):
        program = corpus.parsed("any", self.HANGS)
        self.assertEqual(program, corpus.Program("any", "Waits for ever.", "LG204", "spin", "busy", None, {"A": "b", "C": "d"}, "yes, alone", None))
        slow = corpus.parsed("any", "// Is slow.\n// expect: slow or none\n// card: yes\n")
        self.assertEqual((slow.code, slow.slow_said, slow.env), (None, (True, False), {}))

    def test_code_and_culprit_have_to_be_right(self):
        program = corpus.parsed("any", self.HANGS)

        def good(code, *culprits, key="function"):
            verdict = {"code": code, "culprits": [{"operation": {"call": "cuLaunchKernel", key: name}} for name in culprits]}
            return corpus.judged(program, [verdict])[0]
        self.assertTrue(good("LG204", "spin"))
        self.assertTrue(good("LG204", "spin", "other"))
        self.assertFalse(good("LG299", "spin"))
        self.assertFalse(good("LG204", "other", "spin"))
        self.assertFalse(good("LG204", "spin", "busy"))
        self.assertTrue(good("LG204", "spin", key="call"))
        self.assertFalse(good("LG204"))
        self.assertFalse(corpus.judged(program, [])[0])

    def test_the_whole_corpus_can_be_read(self):
        programs = corpus.programs().values()
        self.assertGreaterEqual(sum(program.code is not None for program in programs), 26)
        self.assertGreaterEqual(sum(program.code is None for program in programs), 14)
        self.assertEqual({key[:5] for program in programs for key in program.hazards or ()}, {f"LG{code}" for code in range(101, 111)})

    HAZARDS = ("// Completes.\n// hazard: LG101 call=cuLaunchKernel kernel=step stream=non-blocking\n"
               "// prevented: LG102 call=cuLaunchKernel kernel=other stream=legacy\n// env: A=b\n// card: yes\n")

    def test_hazards_are_read_and_compared_by_their_keys(self):
        program = corpus.parsed("any", self.HAZARDS)
        self.assertEqual((program.what, program.code, program.env), ("Completes.", None, {"A": "b"}))
        self.assertEqual(program.hazards, {"LG101|step|cuLaunchKernel|non-blocking", "LG102|other|cuLaunchKernel|legacy|prevented"})
        self.assertEqual(corpus.parsed("any", "// Completes.\n// hazard: none\n// card: yes\n").hazards, frozenset())
        step = {"code": "LG101", "kernel": "step", "call": "cuLaunchKernel", "stream_class": "non-blocking", "prevented": False}
        other = {**step, "code": "LG102", "kernel": "other", "stream_class": "legacy", "prevented": True}
        self.assertEqual(hazards.difference(program.hazards, [step, other]), "")
        self.assertIn("no LG102|other", hazards.difference(program.hazards, [step]))
        self.assertIn("also LG103|-|", hazards.difference(program.hazards, [step, other, {**step, "code": "LG103", "kernel": None}]))
        self.assertNotEqual(hazards.difference(frozenset(), None), "")


class JudgingAProgram(unittest.TestCase):
    """gpu-check's three runs of a program, played by outcomes made up here."""

    HANG = processes.Outcome(None, 4.0, "", "")
    DONE = processes.Outcome(0, 0.3, "done\n", "")
    EXPLAINED = processes.Outcome(None, 2.5, "", "lazyguard: HANG in 1 thread\n")
    HANGS = {"hangs_bare": True, "expected_code": "LG201", "expected_output": "done\n", "kinds": ["app"]}
    CONTROL = {"hangs_bare": False, "expected_code": None, "expected_output": "done\n", "kinds": ["app"]}

    def judge(self, entry, outcomes, codes=()):
        bare, kept, off = outcomes

        def played(_command, environment, _limit_s, _stop=None):
            return off if "LAZYGUARD_PRELOAD" in environment else kept if "LD_PRELOAD" in environment else bare

        with mock.patch.object(checks.Scratch, "run", side_effect=played), \
                mock.patch.object(checks, "verdict_codes", return_value=list(codes)):
            return checks.program("any", "app", entry, True)[0].verdict

    def test_hang_complete_diagnosed_passes(self):
        self.assertEqual(self.judge(self.HANGS, [self.HANG, self.DONE, self.EXPLAINED], ["LG201"]), "PASS")

    def test_each_of_the_three_can_fail_it(self):
        wrong = processes.Outcome(0, 0.3, "other\n", "")
        noisy = processes.Outcome(0, 0.3, "done\n", "lazyguard: hello\n")
        for outcomes, codes in (
            ([self.DONE, self.DONE, self.EXPLAINED], ["LG201"]),
            ([self.HANG, self.HANG, self.EXPLAINED], ["LG201"]),
            ([self.HANG, wrong, self.EXPLAINED], ["LG201"]),
            ([self.HANG, noisy, self.EXPLAINED], ["LG201"]),
            ([self.HANG, self.DONE, self.EXPLAINED], ["LG299"]),
            ([self.HANG, self.DONE, self.EXPLAINED], []),
            ([self.HANG, self.DONE, self.HANG], ["LG201"]),
            ([self.HANG, self.DONE, self.DONE], []),
        ):
            self.assertEqual(self.judge(self.HANGS, outcomes, codes), "FAIL", (outcomes, codes))

    def test_a_control_must_complete_in_all_three_without_a_verdict(self):
        self.assertEqual(self.judge(self.CONTROL, [self.DONE] * 3), "PASS")
        self.assertEqual(self.judge(self.CONTROL, [self.DONE, self.DONE, self.HANG]), "FAIL")
        self.assertEqual(self.judge(self.CONTROL, [self.DONE] * 3, ["LG299"]), "FAIL")

    def test_a_hang_that_no_preloading_prevents_hangs_under_the_guard_too(self):
        entry = dict(self.HANGS, hangs_guarded=True)
        self.assertEqual(self.judge(entry, [self.HANG, self.HANG, self.EXPLAINED], ["LG201"]), "PASS")
        self.assertEqual(self.judge(entry, [self.HANG, self.DONE, self.EXPLAINED], ["LG201"]), "FAIL")

    def test_lines_of_two_threads_may_come_in_any_order_only_where_it_is_said(self):
        self.assertTrue(checks.same_output("b\na\n", "a\nb\n", True))
        self.assertFalse(checks.same_output("b\na\n", "a\nb\n", False))
        self.assertFalse(checks.same_output("a\n", "a\nb\n", True))


class TheProgramTable(unittest.TestCase):
    def test_every_entry_says_what_is_expected_of_it(self):
        for name, entry in guard.programs().items():
            with self.subTest(name):
                self.assertLessEqual(set(entry["kinds"]), set(guard.FOLDERS))
                self.assertEqual(entry["expected_code"] is not None, entry["hangs_bare"])
                self.assertEqual(entry["expected_output"] is None, entry.get("hangs_guarded", False))


class TheKit(unittest.TestCase):
    def test_has_every_module_that_its_scripts_import(self):
        scripts = Path(__file__).resolve().parents[1]
        # Importing it would lay out a kit.
        tree = ast.parse((scripts / "lib" / "kit.py").read_text())
        value = next(node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SCRIPTS")
        taken = [scripts / name for name in ast.literal_eval(value)] + sorted((scripts / "lib").glob("bench_*.py"))
        for script in taken:
            names = re.findall(r"^(?:import|from) (\w+)", script.read_text(), re.M)
            lacking = [name for name in names if (scripts / "lib" / f"{name}.py").is_file() and scripts / "lib" / f"{name}.py" not in taken]
            self.assertEqual(lacking, [], f"{script.name} imports what the kit does not have")


class TheResultsPage(Folder):
    REPORT = {
        "schema": 1, "card": "NVIDIA X1", "driver": "580.1", "cuda": 13000, "simulated": False, "date": "2026-01-02",
        "command": "scripts/gpu-check", "lazyguard": "lazyguard 0.1.0", "kernel": "6", "glibc": "glibc 2.36", "python": "3.11",
        "processors": 2, "programs": [{"name": "a", "output_checked": True}], "no_harm": {}, "seconds": 12.0,
        "counts": {"PASS": 1, "FAIL": 0, "MISS": 0, "SKIP": 0}, "table": [["a|b (app)", "hangs (4 s)", "ok", "LG201", "PASS"]],
    }

    def results(self, report, page):
        path = self.write("report.json", json.dumps(report))
        return subprocess.run([sys.executable, str(SCRIPTS / "results"), str(path), "--into", str(page)], capture_output=True, text=True)

    def test_a_newer_run_of_the_same_card_replaces_the_older_and_nothing_else(self):
        page = self.write("RESULTS.md", "# Results\n\nWords of a person.\n")
        self.assertEqual(self.results(self.REPORT, page).returncode, 0)
        self.assertEqual(self.results(dict(self.REPORT, card="NVIDIA X2"), page).returncode, 0)
        page.write_text(page.read_text() + "\nMore words.\n")
        self.assertEqual(self.results(dict(self.REPORT, date="2026-03-04"), page).returncode, 0)
        text = page.read_text()
        self.assertIn("Words of a person.", text)
        self.assertIn("More words.", text)
        self.assertEqual(text.count("## Checks: "), 1)
        self.assertEqual(text.count("## Checks: X1, driver 580.1"), 1, "the newest run; that of X2 is in the list of runs")
        self.assertEqual(text.count("gpu-check-nvidia-x2-580.1.json"), 2)
        self.assertEqual(text.count(", 2026-03-04: 1 passed"), 1)
        self.assertEqual(text.count("2026-01-02"), 1)
        self.assertIn("| a\\|b (app) | hangs (4 s) | ok | LG201 |", text)
        self.assertEqual(json.loads((page.parent / "results" / "gpu-check-nvidia-x1-580.1.json").read_text())["date"], "2026-03-04")

    def test_rows_that_passed_alike_are_one_and_every_other_has_its_own(self):
        page = self.write("RESULTS.md", "# Results\n")
        table = [["x (app)", "hangs (4 s)", "ok 0.30 s", "LG201 after 2.4 s", "PASS"], ["x (runtime)", "hangs (4 s)", "ok 0.25 s", "LG201 after 2.4 s", "PASS"],
                 ["y (app)", "hangs (4 s)", "hangs (4 s)", "LG202 after 2.4 s", "FAIL"],
                 ["corpus: w", "", "LG203 cuStreamWaitValue32_v2 after 2.6 s", "recording alone: LG203 cuStreamWaitValue32_v2", "PASS"],
                 ["corpus: v", "", "LG203 spin after 10.0 s", "recording alone: LG203 spin", "PASS"],
                 ["corpus: p", "", "ok 0.5 s, LG101 prevented", "", "PASS"], ["corpus: o", "", "ok 0.5 s, LG101", "", "PASS"],
                 ["corpus: u", "", "", "known to be told LG299", "SKIP"], ["bash", "exit 3", "exit 3", "", "PASS"]]
        self.assertEqual(self.results(dict(self.REPORT, table=table), page).returncode, 0)
        text = page.read_text()
        for row in ("| 2: x (app, runtime) | hangs (4 s) | ok 0.25 to 0.30 s | LG201 after 2.4 s |", "| y (app) | hangs (4 s) | hangs (4 s) | LG202 after 2.4 s | FAIL |",
                    "| 2: w, v | its code after 2.6 to 10.0 s | recording alone: its code |", "| 2: p, o | ok 0.5 s, the expected hazards |  |",
                    "Not tried: 1, see the file.", "| bash | exit 3 | exit 3 |  |  |"):
            self.assertIn(row + "\n", text)

    def test_a_page_that_the_kept_runs_do_not_make_is_stale(self):
        page = self.write("RESULTS.md", "# Results\n")
        self.assertEqual(self.results(self.REPORT, page).returncode, 0)
        check = [sys.executable, str(SCRIPTS / "results"), "--check", "--into", str(page)]
        self.assertEqual(subprocess.run(check, capture_output=True).returncode, 0)
        page.write_text(page.read_text().replace("LG201", "LG202"))
        self.assertEqual(subprocess.run(check, capture_output=True).returncode, 1)

    def test_the_times_of_a_clean_clone_are_a_table_of_their_own(self):
        page = self.write("RESULTS.md", "# Results\n")
        run = {"seconds": 90, "limit_s": 120, "processor_seconds": 170, "exit": 0, "steps": []}
        record = {"schema": 1, "date": "2026-01-02", "command": "scripts/time-clean-clone", "commit": "0123456789abcdef", "processors": 2, "processor": "Some",
                  "runs": {"demo": run, "test": dict(run, seconds=700, limit_s=600, passed=9, failed=0)}}
        self.assertEqual(self.results(record, page).returncode, 0)
        for row in ("| `scripts/demo` | 90 s | 120 s | 170 s |  |  |", "| `scripts/test` | 700 s | 600 s | 170 s | 9 passed, 0 failed | MISS |"):
            self.assertIn(row + "\n", page.read_text())

    def test_checks_of_frameworks_are_kept_beside_each_other_each_as_a_table(self):
        page = self.write("RESULTS.md", "# Results\n")
        for kind, title in (("frameworks", "Programs of PyTorch, CuPy, Triton and JAX"), ("ranks", "Jobs of two ranks, PyTorch and NCCL")):
            report = {**self.REPORT, "command": f"scripts/gpu-check --{kind}", kind: [], "table": [[f"{kind}: a", "", "exit 117, 9.0 s", "LG202 k", "PASS"]]}
            del report["no_harm"]
            self.assertEqual(self.results(report, page).returncode, 0)
            self.assertEqual(self.results({**report, "command": report["command"] + " --programs a", "date": "2026-03-04", "lazyguard": "another"}, page).returncode, 1)
            self.assertIn(f"## {title}: X1, driver 580.1\n", page.read_text())
            self.assertTrue((page.parent / "results" / f"gpu-check-{kind}-nvidia-x1-580.1.json").is_file())
        self.assertEqual(page.read_text().count("| a | exit 117, 9.0 s | LG202 |\n"), 2)
        self.assertNotIn("2026-03-04", page.read_text())

    def test_a_later_run_of_chosen_programs_stands_in_place_of_its_rows_where_the_library_is_the_same(self):
        page = self.write("RESULTS.md", "# Results\n")
        said = "lazyguard: again: lazyguard run -- /somebody/s/folder/target/races/races load\n"
        report = {**self.REPORT, "command": "scripts/gpu-check --explore", "explore": [{"stderr": said}], "header": ["program", "plain", "result"],
                  "table": [["race: a", "ok", "PASS"], ["race: b", "hangs", "FAIL"], ["race: c", "", "SKIP"]], "counts": {"PASS": 1, "FAIL": 1, "SKIP": 1}}
        later = {**report, "command": "scripts/gpu-check --explore --programs b,a", "table": [["race: a", "", "SKIP"], ["race: b", "ok again", "PASS"]]}
        del report["no_harm"], later["no_harm"]
        self.assertEqual(self.results(later, page).returncode, 1)
        self.assertEqual(self.results(report, page).returncode, 0)
        self.assertEqual(self.results({**later, "lazyguard": "lazyguard 0.2.0"}, page).returncode, 1)
        self.assertEqual(self.results(later, page).returncode, 0)
        text = page.read_text()
        self.assertIn(": 2 passed, 1 SKIP; in a later run: race: b\n", text)
        self.assertIn("| race: b | ok again |", text)
        self.assertIn("| race: a | ok |", text)
        kept = json.loads((page.parent / "results" / "gpu-check-explore-nvidia-x1-580.1.json").read_text())
        self.assertEqual(kept["explore"][0]["stderr"], "lazyguard: again: lazyguard run -- target/races/races load\n")
        found = "; ".join(f"LG207 in run {run}, {again} of 10 again" for run, again in ((1, 10), (3, 9)))
        self.assertEqual(self.results({**report, "table": [["race: a", found, "PASS"]]}, page).returncode, 0)
        self.assertIn("| race: a | each of 2 seeds within 3 runs, and 9 of 10 replays: LG207 |", page.read_text())
        self.assertEqual([kept["table"][1][-1], kept["again"][0]["table"][1][-1]], ["FAIL", "PASS"])

    def test_what_profiles_do_is_a_table_with_all_its_columns(self):
        page = self.write("RESULTS.md", "# Results\n")
        report = {**self.REPORT, "command": "scripts/gpu-check --profiles", "profiles": {"programs": [], "cold_start": None},
                  "header": ["check", "bare", "EAGER", "first", "later", "result"], "table": [["a", "hangs (25 s)", "ok 9.00 s", "exit 117, 9.0 s", "completes in run 2", "PASS"]]}
        del report["no_harm"]
        self.assertEqual(self.results({**report, "command": report["command"] + " --programs a"}, page).returncode, 1)
        self.assertEqual(self.results(report, page).returncode, 0)
        self.assertIn("## Programs that hang in a load, and the profile of their runs: X1, driver 580.1\n\n| check | bare | EAGER | first | later |\n", page.read_text())
        self.assertIn("| a | hangs (25 s) | ok 9.00 s | exit 117, 9.0 s | completes in run 2 |\n", page.read_text())
        self.assertTrue((page.parent / "results" / "gpu-check-profiles-nvidia-x1-580.1.json").is_file())

    def test_how_jobs_heal_is_a_table_of_faults_and_acts(self):
        page = self.write("RESULTS.md", "# Results\n")
        report = {**self.REPORT, "command": "scripts/gpu-check --heals", "heals": [], "header": ["fault", "PyTorch's limit", "`fail`", "`kill`", "`revoke`", "result"],
                  "table": [["skipped collective", "exit 1, 31.0 s", "exit 1, 2.0 s", "made again, 14.0 s", "goes on, 3.0 s", "PASS"],
                            ["rank sleeps 20 s", "exit 1, 33.0 s", "exit 1, 2.0 s", "made again, 15.0 s", "exit 1, 3.0 s", "FAIL"]]}
        del report["no_harm"]
        self.assertEqual(self.results(report, page).returncode, 0)
        self.assertIn("| rank sleeps 20 s | exit 1, 33.0 s | exit 1, 2.0 s | made again, 15.0 s | exit 1, 3.0 s | FAIL |\n", page.read_text())
        self.assertTrue((page.parent / "results" / "gpu-check-heals-nvidia-x1-580.1.json").is_file())

    def test_what_is_no_result_of_a_card_is_refused(self):
        page = self.write("RESULTS.md", "# Results\n")
        partial = {key: value for key, value in self.REPORT.items() if key != "no_harm"}
        for report in (dict(self.REPORT, simulated=True), partial, dict(self.REPORT, schema=2), {}):
            result = self.results(report, page)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(result.stderr.startswith("results: "), result.stderr)
        self.assertEqual(page.read_text(), "# Results\n")


if __name__ == "__main__":
    unittest.main()
