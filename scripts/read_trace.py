#!/usr/bin/env python3
"""Prints what is in a recording as JSON. A second reader, written from docs/TRACE_FORMAT.md alone.

Its worth is that it agrees with the one of `lazyguard` on every recording in core/tests/golden.
Forms are printed by id, so that it needs no table of them. It reads the file of a dead process as a
whole; what does not make sense is passed over in silence.

Must not: share anything with the other reader but the document.

Usage: read_trace.py trace.lgt
"""

import json
import struct
import sys

KINDS = {0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 13}
STATES = {1: "guarded", 2: "ended", 3: "stepped aside"}
THREAD_STATES = {0: "free", 1: "alive", 2: "ended"}
STREAM_KINDS = ["unknown", "blocking", "non-blocking", "legacy default", "per-thread default"]


def low(word):
    return word & 0xFFFFFFFF


def high(word):
    return word >> 32


def signed(number):
    return number - (1 << 32) if number >> 31 else number


class Words:
    """A part of the file as words; 0 where there are none."""

    def __init__(self, data):
        self.data = data
        self.words = struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])

    def __getitem__(self, number):
        return self.words[number] if number < len(self.words) else 0

    def named(self, **places):
        return {name: self[place] for name, place in places.items()}

    def text(self, first, size):
        return self.data[first * 8 : first * 8 + size].split(b"\0")[0].decode("utf-8", "replace")

    def counted_text(self, first):
        return self.data[first * 8 + 8 : first * 8 + 8 + self[first]].decode("utf-8", "replace")


def entries(data, header, word):
    """The complete entries of an area, with their index."""
    offset, count, size = header[word], low(header[word + 1]), high(header[word + 1])
    for index in range(count):
        place = offset + index * size
        if size == 0 or place + size > len(data):
            return
        yield index, Words(data[place : place + size])


def record(words):
    head, entered, returned, subject, place, extent, caller, detail = words
    path = {"path": caller >> 48} if caller >> 48 else {}
    return {
        "entry_point": head & 0xFFFF, "kind": head >> 16 & 0xFF, "flags": head >> 24 & 0xBF, "result": signed(high(head)),
        "entered": entered, "returned": returned, "stream": low(subject), "function": high(subject),
        "context": place & 0xFFFF, "block": [place >> shift & 0xFFFF for shift in (16, 32, 48)],
        "extent": extent, "caller": caller & (1 << 48) - 1, "detail": detail, **path,
    }


def known(words):
    return words[0] >> 16 & 0xFF in KINDS


class Segment:
    def __init__(self, data, header, index):
        place, size = header[17] + index * high(header[18]), high(header[18])
        self.words = Words(data[place : place + size])
        self.record_words = high(header[19]) // 8
        self.length = max(self.words[1], self.before_cursor(data, header, index))
        self.holds_records = low(self.words[0]) in (1, 2, 3) and self.length > 0
        self.thread_number, self.thread = low(self.words[2]), high(self.words[2])
        self.lane, self.first, self.folded = low(self.words[3]), self.words[4], self.words[6]

    def before_cursor(self, data, header, index):
        """Complete records by the cursor of the thread that writes to the segment; 0 where none does."""
        entry = self.words[7] - 1
        if low(self.words[0]) != 2 or low(self.words[3]) != 0 or not 0 <= entry < low(header[10]):
            return 0
        place = header[9] + entry * high(header[10]) + 7 * 8
        found = written_to(header, Words(data[place : place + 8])[0])
        return found[1] if found and found[0] == index else 0

    def record(self, number):
        """The words of a record, or none where the file is truncated."""
        place = 8 + number * self.record_words
        words = self.words.words[place : place + 8]
        return words if len(words) == 8 else ()

    def records(self):
        return filter(None, map(self.record, range(self.there(self.length))))

    def there(self, count):
        """So many records, or fewer where the file has no more."""
        return min(count, len(self.words.words) // max(self.record_words, 1) + 1)


def written_to(header, cursor):
    """The index of the segment in which a cursor is, and how many records lie before it; None if it leads nowhere."""
    records, size = low(header[19]), high(header[19])
    begin = high(cursor) * 64 - records * size - 64
    index, rest = divmod(begin - header[17], high(header[18]) or 1)
    length = (low(cursor) * 64 - begin - 64) // (size or 1)
    return (index, length) if begin >= header[17] and rest == 0 and index < low(header[18]) and 0 <= length <= records else None


def segment_in_lane(header, thread, lane):
    """The index of the thread's segment in a lane, or -1."""
    if lane == 0:
        return (written_to(header, thread[7]) or (-1, 0))[0]
    return [low(thread[8]), high(thread[8])][lane - 1] - 1


def call_in_progress(data, header, thread):
    return driver_call_in_progress(data, header, thread) or outer_call(thread)


def outer_call(thread):
    """The call of NCCL that a thread is in."""
    if thread[1] != 1 or thread[13] == 0:
        return None
    return record([thread[13] & 0xFFFF | 13 << 16, thread[14], 0, 0, 0xFFFFFFFF << 32, 0, 0, thread[13] >> 32 << 32])


def communicators(header):
    for index in range(48):
        entry = Words(header.data[(96 + index * 8) * 8:][:64])
        if entry[0] > 1:
            yield {"number": index + 1, "rank": [low(entry[2]), high(entry[2])] if low(entry[2]) < high(entry[2]) <= 0xFFFF else None,
                   "handle": entry[0] if entry[0] > 2 else 0, **entry.named(id=1, born=3, ended=4, collectives=5, last=6)}


def driver_call_in_progress(data, header, thread):
    words = words_in_progress(data, header, thread)
    return record(words) if words and words[2] == 0 else None


def words_in_progress(data, header, thread):
    """Of the call that a thread is in, or of one that has a time of return and is not counted in its segment's length yet."""
    mark = thread[4]
    lane = (mark >> 16 & 0xFF) - 1
    if thread[1] != 1 or mark == 0:
        return None
    if lane == 254:
        words = thread.words[16:24]
    else:
        index = segment_in_lane(header, thread, lane)
        if index < 0:
            return None
        segment = Segment(data, header, index)
        if (low(thread[7]) if lane == 0 else low(segment.first + segment.length)) != high(mark):
            return None
        words = segment.record(segment.length)
    return words if words and words[0] & 0xFFFF == mark & 0xFFFF and known(words) else None


def unfolded(data, header):
    """Launches that the table of streams does not have yet, by stream: what each was, and when it returned."""
    found = []
    for _, thread in entries(data, header, 9):
        index = segment_in_lane(header, thread, 0)
        if thread[0] and thread[1] == 1 and 0 <= index < low(header[18]):
            segment = Segment(data, header, index)
            if low(segment.words[0]) == 2 and segment.thread_number == low(thread[0]) and segment.lane == 0:
                numbers = range(segment.folded, segment.there(min(segment.length, low(header[19]))))
                open_record = words_in_progress(data, header, thread)
                found += [*map(segment.record, numbers), *([open_record] if open_record else [])]
    launches = [(record(words), words) for words in found if words and words[0] >> 30 & 1]
    return sorted((one for one, _ in launches), key=lambda one: one["entered"])


def threads(data, header):
    for _, entry in entries(data, header, 9):
        if entry[0]:
            yield {"number": low(entry[0]), "thread": high(entry[0]), "state": THREAD_STATES.get(entry[1], entry[1]),
                   "name": entry.text(11, 16), "in_progress": call_in_progress(data, header, entry),
                   **entry.named(born=9, ended=10, calls=2, launches=3, stack=5, frame=6)}


def contexts(data, header):
    for index, entry in entries(data, header, 11):
        if any(entry.words):
            yield {"number": index + 1, "alive": low(entry[1]) != 0, "device": signed(high(entry[1])),
                   **entry.named(handle=0, born=2, idle_until=3, orphaned_until=4)}


def operation(entry, place):
    return {"at": entry[place], "entry_point": entry[place + 1] & 0xFFFF, "function": high(entry[place + 1])}


def oldest(first, recent, until):
    if first["at"] > until:
        return first
    later = [one for one in recent if one["at"] > until]
    return min(later, key=lambda one: one["at"]) if later else max(recent, key=lambda one: one["at"], default=None)


def fold(launches, entry, number, idle_until):
    """The table's words 8, 9, 11 and 12, and the newest operations, with the launches on the stream that are not in them."""
    recent = [operation(entry, 16 + n % 32 * 2) for n in range(max(0, entry[8] - 32), entry[8])]
    submitted, last, first = entry[8], entry[9], operation(entry, 11)
    for one in launches:
        what = {"at": one["entered"], "entry_point": one["entry_point"], "function": one["function"]}
        if one["stream"] != number or not entry[3] or entry[6] > what["at"] or what in recent:
            continue
        until, returned = max(entry[10], idle_until.get(one["context"], 0)), max(one["returned"], what["at"])
        if last <= until or returned > until and until < what["at"] < first["at"]:
            first = what
        submitted, last, recent = submitted + 1, max(last, returned), [*recent, what][-32:]
    return submitted, last, first, recent


def streams(data, header, idle_until):
    launches = unfolded(data, header)
    for index, entry in entries(data, header, 13):
        if any(entry.words):
            submitted, last, first, recent = fold(launches, entry, index + 1, idle_until)
            until = max(entry[10], idle_until.get(low(entry[1]), 0))
            busy = entry[3] != 0 and last > until
            yield {"number": index + 1, "context": low(entry[1]), "thread": high(entry[1]), "kind": STREAM_KINDS[entry[2]],
                   "alive": entry[3] != 0, "capturing": entry[4] != 0, "destroyed": entry[5] != 0,
                   "submitted": submitted, "last_submitted": last, **entry.named(handle=0, complete_until=10, born=6),
                   "first_since_idle": first, "recent": recent, "oldest": oldest(first, recent, until) if busy else None}


def graph_part(entry, first):
    return {"kind": entry[first] & 0xFFFF, "condition": entry[first] >> 16 & 0xFF, "wide": entry[first] >> 24 & 1 == 1,
            "count": high(entry[first]), "what": entry[first + 1], "value": entry[first + 2]}


def followed_by(known, one):
    """What is shared, after one more text about it."""
    end = {id(other): other["address"] + max(other["bytes"], 1) for other in [*known, one]}
    kept = [other for other in known if (other["bytes"] == 0) != (one["bytes"] == 0)
            or other["address"] >= end[id(one)] or one["address"] >= end[id(other)]]
    return [*kept, one] if one["identity"] else kept


def texts(data, header):
    names, found = {}, {"functions": [], "stream_texts": [], "graphs": [], "files": [], "settings": [], "notes": [],
                        "communicator_names": []}
    used = Words(data[header[15] : header[15] + min(header[16], header[21])])
    place = 0
    while place < len(used.words):
        size = high(used[place])
        entry = Words(used.data[place * 8 : place * 8 + size])
        if size < 16 or len(entry.data) < size:
            break
        kind, at = entry[0] & 0xFFFF, entry[1]
        if kind == 1:
            names[entry[2]] = entry.counted_text(3)
        elif kind == 2:
            found["functions"].append({"number": low(entry[2]), "at": at, "name": high(entry[2]), "kernel": entry[5] != 0,
                                       **entry.named(handle=3, owner=4)})
        elif kind == 3:
            found["files"].append({"at": at, "path": entry.counted_text(5), **entry.named(begin=2, end=3, bias=4)})
        elif kind in (4, 5):
            found["settings" if kind == 4 else "notes"].append({"at": at, "text": entry.counted_text(2)})
        elif kind == 6:
            found["stream_texts"].append({"number": low(entry[2]), "at": at, "context": high(entry[2]), "handle": entry[3],
                                          "kind": STREAM_KINDS[entry[4]]})
        elif kind == 7:
            found["graphs"].append({"at": at, "handle": entry[2], "nodes": low(entry[3]), "unseen": high(entry[3]), "changed": entry[4] & 1 == 1,
                                    "parts": [graph_part(entry, first) for first in range(5, len(entry.words) - 2, 3)]})
        elif kind == 8:
            found["communicator_names"].append({"number": low(entry[2]), "at": at, "name": entry.counted_text(3)})
        elif kind == 9:
            found.setdefault("paths", []).append({"number": entry[2] & 0xFFFF, "frames": [entry[word] for word in range(3, len(entry.words))]})
        elif kind == 10:
            found["shared"] = followed_by(found.get("shared", []), entry.named(address=2, bytes=3, identity=4, offset=5))
        place += size // 8
    for function in found["functions"]:
        function["name"] = names.get(function["name"])
    found["graphs"].sort(key=lambda one: (one["handle"], one["at"]))
    for numbered in ("functions", "stream_texts", "communicator_names"):
        found[numbered].sort(key=lambda one: (one["number"], one["at"]))
    return found


def meant(numbered, number, returned):
    """Of those with the number, the newest one that is not younger than the record's return."""
    return next((one for one in reversed(numbered) if one["number"] == number and one["at"] <= returned), {})


def records(data, header, named, lanes):
    for index in range(low(header[18])):
        if header[17] + index * high(header[18]) >= len(data) or high(header[18]) == 0:
            return
        segment = Segment(data, header, index)
        if segment.holds_records:
            for number, words in enumerate(segment.records(), segment.first):
                lanes[segment.lane]["present"] += 1
                one = record(words)
                yield known(words), {
                    "thread_number": segment.thread_number, "thread": segment.thread, "lane": segment.lane, "number": number, **one,
                    "function_name": meant(named["functions"], one["function"], one["returned"]).get("name"),
                    "stream_handle": meant(named["stream_texts"], one["stream"], one["returned"]).get("handle")}


def read(data):
    header = Words(data[:4096])
    if not any(data[:4096]):
        sys.exit("read_trace.py: nothing was recorded: the process was killed before anything was, or the recording is being made")
    if data[:8] != b"LGTRACE\n" or low(header[1]) != 1:
        sys.exit("read_trace.py: this is not a recording of version 1")
    out = {"version": low(header[1]), "state": STATES.get(header[7], header[7]), "process": low(header[3]),
           "driver_version": high(header[3]), "program": header.text(64, 128), "host": header.text(80, 64),
           "rank": header.text(88, 32), "lazyguard": header.text(92, 32),
           **header.named(file_bytes=2, armed_unix_nanos=4, armed_monotonic_nanos=5, process_start_ticks=6, last_seen=8,
                          without_entry=23, texts_lost=22, former_calls=24, former_launches=25),
           "threads": list(threads(data, header)), "contexts": list(contexts(data, header)), "communicators": list(communicators(header)), **texts(data, header)}
    idle_until = {context["number"]: context["idle_until"] for context in out["contexts"]}
    out["streams"] = list(streams(data, header, idle_until))
    out["lanes"] = [{"segments": high(header[at]), "present": 0, **header.named(overwritten=at + 2, dropped=at + 4, released=at + 3)}
                    for at in (32, 40, 48)]
    all_records = list(records(data, header, out, out["lanes"]))
    out["records"] = [one for known_kind, one in all_records if known_kind]
    out["records"].sort(key=lambda one: (one["entered"], one["thread_number"], one["lane"], one["number"]))
    out["unknown_records"] = len(all_records) - len(out["records"])
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as file:
            json.dump(read(file.read()), sys.stdout, indent=1)
    except OSError as error:
        sys.exit(f"read_trace.py: {error}")
    print()
