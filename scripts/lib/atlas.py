"""The atlas of the driver's functions: asks testapps/atlas, and reads, writes and compares tables.

Must not take a call that did not come back for one that returned: a process that ends within a situation has that in its cell.
"""

import re
import subprocess
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor

from tools import ROOT, TARGET, Failure

PROGRAM = TARGET / "atlas" / "atlas"
TABLES = ROOT / "testapps" / "simdriver" / "ground-truth"
DEVIATIONS = TABLES / "atlas-deviations.tsv"
SITUATIONS = ("idle", "spin", "wait", "wait_blocking", "load", "capture_thread_local", "capture_global", "capture_blocking",
              "capture_elsewhere")
PATIENCE_MS = 700
PATIENCE_SIMULATED_MS = 120
# For a situation that differs, asked again: a call that was slow because the machine is busy returns within this.
PATIENCE_AGAIN_MS = 3000
# Processes at a time. Those of the simulated driver mostly sleep, and take no room on a card.
JOBS, JOBS_SIMULATED = 8, 32
LIMIT_S = 90
COLUMNS = ("function", "variant", "notes", "idle_us", *SITUATIONS)
EXPLANATION = """\
# What does each function of the driver do while something else is in flight in its context?
# {heading}
# Situations, each a column: idle: nothing is in flight. spin: a kernel spins on a non-blocking stream. wait: a cuStreamWaitValue32 is not
# satisfied on a non-blocking stream; wait_blocking: on a stream created with CU_STREAM_DEFAULT. load: a kernel spins, and another thread
# is blocked in the first launch of a library's kernel behind it. capture_*: this thread captures on a stream: capture_thread_local and
# capture_global by mode, capture_blocking on a CU_STREAM_DEFAULT stream; capture_elsewhere: another thread does, in global mode.
# Cells: returns; stalls: returns, and a kernel launched afterwards on another stream does not start until what is in flight has ended;
# blocks: returns when that has ended; hangs: not even then; crashes: the process ended there; unprepared: what the call needs could not be
# made; +ends: the capture is invalid afterwards. Behind a colon: the error. The variant says how the call is made; - is the usual way.
# Notes: blocks: beside the kernel or the wait. blocks_on_default_stream: beside the wait on a blocking stream alone. context_lock: beside the
# load alone. stalls. loads: a function is loaded by it. ends_capture. refused: by an error, in a capture, which goes on. returns: none of these.
"""

Call = namedtuple("Call", "function variant")
# once: each situation in a process of its own.
Listed = namedtuple("Listed", "call once")
LeftOut = namedtuple("LeftOut", "function reason")
# word: as in the table, with "+ends"; error: "" or a name without CUDA_ERROR_.
Cell = namedtuple("Cell", "word error")
Row = namedtuple("Row", "idle_us cells loads")
NOT_PREPARED = Cell("unprepared", "NOT_SUPPORTED")


def listed(environment):
    """The calls of the program, and the functions that it leaves out."""
    result = subprocess.run([str(PROGRAM), "LIST"], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    if result.returncode != 0:
        raise Failure(f"{PROGRAM.name} LIST: {result.stderr.strip()}")
    calls, left_out = [], []
    for line in result.stdout.splitlines():
        function, variant, what = line.split("\t")
        if what.startswith("called"):
            calls.append(Listed(Call(function, variant), what == "called once"))
        else:
            left_out.append(LeftOut(function, what))
    return calls, left_out


def run(call, situations, environment):
    """What the program printed in one process, and how it ended: {situation: (Cell, us, loads)}, the situation it was in, the status."""
    command = [str(PROGRAM), "RUN", call.function, call.variant, *situations]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    seen, inside = {}, None
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "at":
            inside = words[1]
        elif len(words) == 5 and words[0] == inside:
            error = "" if words[2] == "CUDA_SUCCESS" else words[2].removeprefix("CUDA_ERROR_")
            seen[inside], inside = (Cell(words[1], error), float(words[3]), words[4]), None
    return seen, inside, process.returncode


def ask_one(listed_call, environment, situations=SITUATIONS):
    """One call in every situation, of which idle is the first: in one process as far as it comes, the rest in further ones."""
    call, once = listed_call
    left, seen = list(situations), {}
    while left:
        more, inside, status = run(call, left[:1] if once else left, environment)
        if not more and inside is None:
            # It came to no situation: no context, or no room on the card.
            inside, status = left[0], f"{status} before"
        seen.update(more)
        if once and "idle" in more:
            # What takes long by itself is given longer, as the program does within one process.
            patience_ms = int(environment["ATLAS_PATIENCE_MS"]) + int(4 * more["idle"][1] / 1000)
            environment = dict(environment, ATLAS_PATIENCE_MS=str(patience_ms))
        if inside is not None:
            seen[inside] = (Cell("crashes", str(status)), 0.0, "-")
        if seen.get("idle", (Cell("", ""),))[0].word in ("unprepared", "crashes"):
            # What cannot be made while nothing is in flight cannot be made at all.
            seen.update({situation: seen["idle"] for situation in left if situation not in seen})
        left = [situation for situation in left if situation not in seen]
    return Row(seen["idle"][1], {situation: seen[situation][0] for situation in situations}, seen["idle"][2])


def ask(calls, environment, jobs, patience_ms, progress=lambda text: None):
    environment = dict(environment, ATLAS_PATIENCE_MS=str(patience_ms))
    rows = {}
    with ThreadPoolExecutor(jobs) as pool:
        for entry, row in zip(calls, pool.map(lambda entry: ask_one(entry, environment), calls)):
            rows[entry.call] = row
            if len(rows) % 50 == 0:
                progress(f"{len(rows)} calls")
    return rows


def notes(row):
    word = {situation: cell.word for situation, cell in row.cells.items()}
    blocked = ("blocks", "hangs")
    found = []
    if word["idle"] in ("unprepared", "crashes"):
        return word["idle"]
    if word["spin"] in blocked or word["wait"] in blocked:
        found.append("blocks")
    elif word["wait_blocking"] in blocked:
        found.append("blocks_on_default_stream")
    elif word["load"] in blocked:
        found.append("context_lock")
    if "stalls" in (word["spin"], word["wait"]):
        found.append("stalls")
    if row.loads == "loads":
        found.append("loads")
    captures = [cell for situation, cell in row.cells.items() if situation.startswith("capture_")]
    if any(cell.word.endswith("+ends") for cell in captures):
        found.append("ends_capture")
    elif any(cell.error.startswith("STREAM_CAPTURE") for cell in captures):
        found.append("refused")
    return ",".join(found) or "returns"


def written(cell):
    return f"{cell.word}:{cell.error}" if cell.error else cell.word


def table(heading, rows, left_out):
    lines = [EXPLANATION.format(heading=heading).rstrip(), "\t".join(COLUMNS)]
    for call, row in sorted(rows.items()):
        cells = [written(row.cells[situation]) for situation in SITUATIONS]
        lines.append("\t".join([call.function, call.variant, notes(row), f"{row.idle_us:.1f}", *cells]))
    lines += [f"{entry.function}\t-\t{entry.reason}" for entry in sorted(left_out)]
    return "\n".join(lines) + "\n"


def read(path):
    """{Call: {column: text}} of the calls in a table."""
    lines = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    if not lines or tuple(lines[0]) != COLUMNS:
        raise Failure(f"{path}: not a table of the atlas")
    return {Call(line[0], line[1]): dict(zip(COLUMNS, line)) for line in lines[1:] if len(line) == len(COLUMNS)}


def summary(rows, left_out):
    counts = Counter(note for row in rows.values() for note in notes(row).split(","))
    yield f"{len(rows)} calls, {len(left_out)} functions not called: " + ", ".join(f"{note} {count}" for note, count in sorted(counts.items()))
    for call, row in sorted(rows.items()):
        if row.cells["idle"].error:
            yield f"  {call.function} ({call.variant}), idle: {written(row.cells['idle'])}"


def deviations():
    """{(function, variant, situation): what the simulated driver does instead} of the file that says why."""
    found = {}
    for line in DEVIATIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            function, variant, situation, instead, _reason = line.split("\t")
            found[function, variant, situation] = instead
    return found


def differences(call, row, expected, known):
    """(situation, expected, seen) of each cell that is otherwise than the table, or than the known deviation."""
    for situation in SITUATIONS:
        key = (call.function, call.variant, situation)
        wanted = known.get(key, expected[call][situation])
        seen = written(row.cells[situation])
        if seen != wanted:
            yield situation, wanted, seen


def not_played():
    """The functions of which the simulated driver plays no form."""
    source = (ROOT / "testapps" / "simdriver")
    lacking = set(re.findall(r"^NOT_PLAYED\((cu\w+),", (source / "not-played.inc").read_text(), re.M))
    forms = re.findall(r"^SYMBOL\((cu\w+), .*, (cu\w+)\)$", (source / "symbols.inc").read_text(), re.M)
    return {base for base, symbol in forms if symbol in lacking} - {base for base, symbol in forms if symbol not in lacking}


def compare(calls, rows, expected, environment, jobs):
    """Prints each difference that is there again when asked once more with more patience, and the count."""
    known = deviations()
    patient = dict(environment, ATLAS_PATIENCE_MS=str(PATIENCE_AGAIN_MS))

    def found_in(entry):
        row = rows[entry.call]
        doubtful = [situation for situation, _, _ in differences(entry.call, row, expected, known) if situation != "idle"]
        if any(differences(entry.call, row, expected, known)):
            again = ask_one(entry, patient, ("idle", *doubtful))
            row = row._replace(cells={**row.cells, **again.cells})
        return list(differences(entry.call, row, expected, known))

    # Those that are not prepared need a function that is not played.
    prepared = [entry for entry in calls if rows[entry.call].cells["idle"] != NOT_PREPARED]
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for entry, found in zip(prepared, pool.map(found_in, prepared)):
            for situation, wanted, seen in found:
                print(f"{entry.call.function} ({entry.call.variant}), {situation}: expected {wanted}, seen {seen}")
            failed += len(found)
    passed = len(prepared) * len(SITUATIONS) - failed
    print(f"{len(calls) - len(prepared)} calls need a function that is not played")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
