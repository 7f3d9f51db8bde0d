//! All that is read from a recording, as JSON. `scripts/read_trace.py` prints the same.

use lazyguard_core::api::{Operation, SharedMemory};
use lazyguard_core::trace::layout;
use lazyguard_core::trace::read::{Recording, Source, StreamSeen, TextSeen};
use lazyguard_core::trace::{ProcessState, Record};
use serde_json::{json, Map, Value};

fn operation(op: Operation) -> Value {
    json!({ "at": op.at, "entry_point": op.entry_point, "function": op.function })
}

fn record(record: &Record) -> Map<String, Value> {
    let words = record.to_words();
    let block = [16, 32, 48].map(|shift| words[layout::record::PLACE] >> shift & 0xffff);
    let value = json!({
        "entry_point": record.entry_point.info().id, "kind": record.kind as u8, "flags": record.flags, "result": record.result,
        "entered": record.entered, "returned": record.returned, "stream": record.stream, "function": record.function,
        "context": record.context, "block": block, "extent": words[layout::record::EXTENT], "caller": record.caller,
        "detail": words[layout::record::DETAIL],
    });
    let path = (record.path != 0).then(|| ("path".to_owned(), json!(record.path)));
    value.as_object().cloned().unwrap_or_default().into_iter().chain(path).collect()
}

fn texts(texts: &[TextSeen]) -> Vec<Value> {
    texts.iter().map(|text| json!({ "at": text.at, "text": text.text })).collect()
}

/// See the module.
pub fn dump<S: Source>(recording: &Recording<S>) -> Value {
    let facts = recording.facts();
    let texts_read = recording.strings();
    let idle_until = |stream: &StreamSeen| {
        recording.contexts().iter().find(|context| context.number == stream.context).map_or(0, |c| c.idle_until)
    };
    let threads: Vec<_> = recording
        .threads()
        .iter()
        .map(|thread| {
            json!({
                "number": thread.number, "thread": thread.thread, "state": thread.state, "born": thread.born,
                "ended": thread.ended, "calls": thread.calls, "launches": thread.launches, "name": thread.name,
                "stack": thread.stack, "frame": thread.frame,
                "in_progress": thread.call_in_progress.as_ref().map(record),
            })
        })
        .collect();
    let contexts: Vec<_> = recording
        .contexts()
        .iter()
        .map(|context| {
            json!({
                "number": context.number, "handle": context.handle, "alive": context.alive, "device": context.device,
                "born": context.born, "idle_until": context.idle_until, "orphaned_until": context.orphaned_until,
            })
        })
        .collect();
    let streams: Vec<_> = recording
        .streams()
        .iter()
        .map(|stream| {
            json!({
                "number": stream.number, "handle": stream.handle, "context": stream.context, "thread": stream.thread,
                "kind": stream.kind, "alive": stream.alive, "capturing": stream.capturing,
                "destroyed": stream.destroyed, "submitted": stream.work.submissions.count, "last_submitted": stream.work.submissions.last,
                "complete_until": stream.work.complete_until, "born": stream.born,
                "first_since_idle": operation(stream.work.submissions.first_since_idle),
                "recent": stream.work.recent.iter().copied().map(operation).collect::<Vec<_>>(),
                "oldest": stream.oldest(idle_until(stream)).map(operation),
            })
        })
        .collect();
    let communicators: Vec<_> = recording
        .communicators()
        .iter()
        .map(|one| {
            json!({
                "number": one.number, "handle": one.handle, "id": one.id, "rank": one.rank, "born": one.born,
                "ended": one.ended, "collectives": one.collectives, "last": one.last,
            })
        })
        .collect();
    let names: Vec<_> = texts_read
        .communicators
        .all()
        .map(|(number, at, name)| json!({ "number": number, "at": at, "name": name }))
        .collect();
    let lanes = recording.lanes().map(|lane| {
        json!({
            "segments": lane.segments, "present": lane.present, "overwritten": lane.overwritten, "dropped": lane.dropped,
            "released": lane.released,
        })
    });
    let records: Vec<_> = recording
        .records()
        .map(|entry| {
            let mut fields = record(&entry.record);
            let function = texts_read.function(entry.record.function, entry.record.returned);
            let stream = texts_read.streams.newest(entry.record.stream, entry.record.returned);
            fields.extend([
                ("thread_number".to_owned(), json!(entry.thread_number)),
                ("thread".to_owned(), json!(entry.thread)),
                ("lane".to_owned(), json!(entry.lane as u8)),
                ("number".to_owned(), json!(entry.number)),
                ("function_name".to_owned(), json!(function.and_then(|f| f.name))),
                ("stream_handle".to_owned(), json!(stream.map(|s| s.handle))),
            ]);
            fields
        })
        .collect();
    let paths: Vec<_> = (0..=u16::MAX)
        .map(|number| (number, texts_read.path(number)))
        .filter(|(_, frames)| !frames.is_empty())
        .map(|(number, frames)| json!({ "number": number, "frames": frames }))
        .collect();
    let mut all = json!({
        "version": layout::VERSION,
        "state": match facts.state {
            ProcessState::Guarded => json!("guarded"),
            ProcessState::Ended => json!("ended"),
            ProcessState::SteppedAside => json!("stepped aside"),
            ProcessState::Unknown(other) => json!(other),
        },
        "process": facts.process,
        "driver_version": facts.driver_version as u32,
        "armed_unix_nanos": facts.armed_unix_nanos,
        "armed_monotonic_nanos": facts.armed_monotonic_nanos,
        "process_start_ticks": facts.start_ticks,
        "last_seen": facts.last_seen,
        "program": facts.program,
        "host": facts.host,
        "rank": facts.rank,
        "lazyguard": facts.lazyguard,
        "file_bytes": facts.file_bytes,
        "without_entry": facts.without_entry,
        "texts_lost": facts.texts_lost,
        "former_calls": facts.former_calls,
        "former_launches": facts.former_launches,
        "threads": threads,
        "contexts": contexts,
        "communicators": communicators,
        "communicator_names": names,
        "streams": streams,
        "functions": texts_read.functions().map(|(number, at, f)| json!({
            "number": number, "at": at, "name": f.name, "handle": f.handle, "owner": f.owner, "kernel": f.kernel,
        })).collect::<Vec<_>>(),
        "stream_texts": texts_read.streams.all().map(|(number, at, s)| json!({
            "number": number, "at": at, "context": s.context, "handle": s.handle, "kind": s.kind,
        })).collect::<Vec<_>>(),
        "graphs": texts_read.graphs.all().map(|(handle, at, graph)| json!({
            "handle": handle, "at": at, "nodes": graph.nodes, "unseen": graph.unseen, "changed": graph.changed,
            "parts": graph.parts.iter().map(|part| json!({
                "kind": part.kind.number(), "count": part.count, "what": part.what, "value": part.value,
                "condition": part.condition, "wide": part.wide,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "files": texts_read.files.iter().map(|f| json!({
            "at": f.at, "begin": f.begin, "end": f.end, "bias": f.bias, "path": f.path,
        })).collect::<Vec<_>>(),
        "settings": texts(&texts_read.settings),
        "notes": texts(&texts_read.notes),
        "lanes": lanes,
        "records": records,
        "unknown_records": recording.unknown_records(),
    });
    let shared = texts_read.shared.iter().map(|shared| {
        let SharedMemory { address, bytes, identity, offset } = *shared;
        json!({ "address": address, "bytes": bytes, "identity": identity, "offset": offset })
    });
    if !texts_read.shared.is_empty() {
        all["shared"] = json!(shared.collect::<Vec<_>>());
    }
    if !paths.is_empty() {
        all["paths"] = json!(paths);
    }
    all
}
