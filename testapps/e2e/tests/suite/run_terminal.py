"""Plays a person at a terminal: a shell with job control, keys, and what is then on the screen.

Arguments: what is played, the command in front of the program (empty for a bare one), and a folder for scripts.
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time


class Terminal:
    def __init__(self):
        self.screen, self.read_to = "", 0
        self.shell, self.screen_file = pty.fork()
        if self.shell == 0:
            # So wide that no line is broken.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 1000, 0, 0))
            os.environ.update(PS1="$ ", ENV="", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.expect(r"\$ ")

    def types(self, text):
        os.write(self.screen_file, text.encode())

    def runs(self, line):
        self.types(line + "\n")
        self.expect(re.escape(line[-12:]) + r"\r*\n")

    def expect(self, pattern, seconds=20):
        until = time.time() + seconds
        while True:
            found = re.compile(pattern).search(self.screen, self.read_to)
            if found:
                self.read_to = found.end()
                return found
            if time.time() > until:
                sys.exit(f"{pattern!r} does not come; on the screen is:\n{self.screen}")
            if select.select([self.screen_file], [], [], 0.1)[0]:
                self.screen += os.read(self.screen_file, 65536).decode(errors="replace")

    def status(self):
        self.runs("echo status=$?=")
        return self.expect(r"status=(\d+)=").group(1)


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


COUNTS = """import signal, sys, time
count = [0]
def interrupted(*_):
    count[0] += 1
    print("interrupted", count[0], flush=True)
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
until = time.time() + 20
while count[0] == 0 and time.time() < until: time.sleep(0.02)
time.sleep(0.3)
print("count", count[0], flush=True)
"""

SIZE = """import os, signal, sys, time
seen = []
signal.signal(signal.SIGWINCH, lambda *_: seen.append(os.get_terminal_size(0)))
print("ready", flush=True)
until = time.time() + 20
while not seen and time.time() < until: time.sleep(0.02)
time.sleep(0.3)
print("sizes", [tuple(size) for size in seen], flush=True)
"""


def ctrl_c_reaches_the_program_once(term, before, folder):
    term.runs(f"{before} python3 {program(folder, 'counts.py', COUNTS)}")
    term.expect("ready")
    term.types("\x03")
    term.expect(r"count (\d+)")
    assert "count 1" in term.screen, term.screen
    assert term.status() == "0"


def ctrl_c_ends_a_program_and_the_script_around_it(term, before, folder):
    term.runs(f"{before} sleep 60")
    time.sleep(0.5)
    term.types("\x03")
    term.expect(r"\$ ")
    assert term.status() == "130", term.screen
    script = program(folder, "script", f"for n in 1 2 3; do echo begin$n; {before} sleep 60; echo end$n; done\n")
    term.runs(f"bash {script}")
    term.expect("begin1")
    time.sleep(0.5)
    term.types("\x03")
    term.expect(r"\$ ")
    assert term.status() == "130" and "begin2" not in term.screen, term.screen


def slow_start(folder, seconds):
    """What makes the command wait before it starts the program: when it makes the folder of the run."""
    source = program(folder, "slow.c", """
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int mkdir(const char *path, unsigned mode) {
            static int begun;
            if (strstr(path, "lazyguard-run") && !begun++) {
                int terminal = open("/dev/tty", O_WRONLY);
                write(terminal, "begun\\n", 6);
                close(terminal);
                sleep(SECONDS);
            }
            return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
        }
        """)
    library = os.path.join(folder, "slow.so")
    subprocess.run(["cc", "-w", "-shared", "-fPIC", f"-DSECONDS={seconds}", "-o", library, source], check=True)
    return f"LD_PRELOAD={library}"


def ctrl_c_before_the_program_is_there_ends_it(term, before, folder):
    term.runs(f"({slow_start(folder, 20)} exec {before} sleep 60)")
    if before:
        term.expect("begun")
    time.sleep(0.3)
    term.types("\x03")
    term.expect(r"\$ ")
    assert term.status() == "130", term.screen


def a_stop_that_ends_before_the_program_is_there_does_not_stop_it(term, before, folder):
    term.runs(f"({slow_start(folder, 2)} exec {before} sh -c 'sleep 2; echo $((41 + 1))-ended') &")
    time.sleep(1)
    term.runs("kill -TSTP $!; sleep 0.3; kill -CONT $!")
    term.expect("42-ended")


def ctrl_z_stops_the_job_and_fg_continues_it(term, before, folder):
    text = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('got', line, end='', flush=True)\n"
    term.runs(f"{before} python3 {program(folder, 'reads.py', text)}")
    for word in ("one", "two"):
        term.expect("ready" if word == "one" else "reads.py")
        time.sleep(0.3)
        term.types("\x1a")
        term.expect(r"Stopped")
        term.runs("jobs; echo at-the-prompt")
        term.expect("Stopped.*\n(.*\n)*at-the-prompt")
        term.runs("fg")
        term.expect("reads.py")
        term.types(f"{word}\n")
        term.expect(f"got {word}")
        term.types("\x1a")
        term.expect(r"Stopped")
        term.runs("fg")
    term.expect("reads.py")
    term.types("\x04")
    term.expect(r"\$ ")
    assert term.status() == "0", term.screen


def a_program_that_stops_itself_gives_the_terminal_back(term, before, folder):
    for commands in (before, f"{before} --retry 1", f"{before} -- {before}") if before else ("",):
        for signal, status in (("STOP", 147), ("TSTP", 148)):
            term.runs(f"{commands} sh -c 'kill -{signal} $$; echo $((40 + 2))-goes-on; exit 3'")
            term.expect("Stopped")
            assert term.status() == str(status), term.screen
            term.runs("fg")
            term.expect("42-goes-on")
            assert term.status() == "3", term.screen
        term.runs(f"{commands} sleep 60")
        time.sleep(0.5)
        term.types("\x1a")
        term.expect("Stopped")
        assert term.status() == "148", term.screen
        term.runs("fg")
        term.expect("sleep 60")
        time.sleep(0.3)
        term.types("\x03")
        term.expect(r"\$ ")
        assert term.status() == "130", term.screen


def a_script_goes_on_when_its_program_is_continued_by_its_process_id(term, before, folder):
    text = f"{before} sh -c '(sleep 1; kill -CONT $$) & kill -STOP $$; exit 3'\necho $((40 + 2))-status-$?\n"
    term.runs(f"sh {program(folder, 'stopped', text)}")
    term.expect("42-status-3")


def a_pipeline_keeps_the_terminal(term, before, folder):
    # The one behind the pipe reads from the terminal, as a pager does.
    pager = "import sys\nprint('all of it:', sys.stdin.read().split(), flush=True)\n" \
            "print('key', open('/dev/tty').readline(), flush=True)\n"
    term.runs(f"{before} echo words of it | python3 {program(folder, 'pager.py', pager)}")
    term.expect("all of it: .*words")
    term.types("q\n")
    term.expect("key q")
    term.runs(f"{before} sleep 60 | cat")
    time.sleep(0.5)
    term.types("\x1a")
    term.expect("Stopped")
    term.runs("kill %1; fg")
    term.expect(r"\$ ")


def a_program_reads_the_terminal_at_once(term, before, folder):
    for n in range(10):
        term.runs(f"{before} sh -c 'read line; echo read-{n}-$line'")
        term.types("word\n")
        term.expect(f"read-{n}-word")


def a_shell_with_jobs_of_its_own_works(term, before, folder):
    term.runs(f"{before} bash --norc --noprofile -i")
    term.expect(r"\$ ")
    term.runs("sleep 50; echo $((40 + 2))")
    time.sleep(0.5)
    term.types("\x1a")
    term.expect("Stopped")
    term.runs("kill -9 %1; wait; exit 5")  # a shell that still has stopped jobs does not go the first time
    term.expect("exit")
    term.expect(r"\$ ")
    term.runs("echo still-here=$?")
    term.expect("still-here=")


def a_new_size_is_told_once(term, before, folder):
    term.runs(f"{before} python3 {program(folder, 'size.py', SIZE)}")
    term.expect("ready")
    fcntl.ioctl(term.screen_file, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
    term.expect(r"sizes \[\(97, 31\)\]")


def a_background_job_comes_to_the_front(term, before, folder):
    term.runs(f"{before} sh -c 'sleep 1; read line; echo read-$line' &")
    time.sleep(4)
    term.runs("jobs")
    term.expect("Stopped")
    term.runs("fg")
    term.types("word\n")
    term.expect("read-word")
    term.expect(r"\$ ")


def a_live_table_gives_the_terminal_back(term, before, folder):
    enters, leaves = r"\x1b\[\?1049h", r"\x1b\[\?1049l"
    is_whole = "stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo)' | tr '\\n' '+'; echo"
    term.runs(before)
    term.expect(enters)
    term.expect("lazyguard top: 1 process, 1 hang")
    term.expect("HANG LG203")
    fcntl.ioctl(term.screen_file, termios.TIOCSWINSZ, struct.pack("HHHH", 3, 10, 0, 0))
    term.expect(r"\x1b\[Hlazyguard \x1b\[K.*\n.*\n\x1b\[J\x1b\[3;1H\d+ more lines; q quits")
    fcntl.ioctl(term.screen_file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 1000, 0, 0))
    term.expect("HANG LG203")
    term.types("\x1a")
    term.expect(leaves)
    term.expect("Stopped")
    term.runs(is_whole)
    term.expect(r"icanon\+echo\+")
    term.runs("fg")
    term.expect(enters)
    term.expect("HANG LG203")
    for key in ("q", "\x03"):
        term.types(key)
        term.expect(leaves)
        term.expect(r"\$ ")
        assert term.status() == "0", term.screen
        term.runs(is_whole)
        term.expect(r"icanon\+echo\+")
        if key == "q":
            term.runs(before)
            term.expect(enters)


def main():
    what, before, folder = sys.argv[1:]
    globals()[what](Terminal(), before, folder)
    print("as expected")


main()
