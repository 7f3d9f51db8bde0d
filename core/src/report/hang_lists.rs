//! The lists of a hang's report: blocked calls, busy streams, unsatisfied waits, and stacks.

use super::python_stack::{main_python, python_in_short};
use super::{Detail, HangReport, StackSeen};
use crate::api::{counted, lasted, StreamKind};
use crate::diagnose::{chain, messages, BlockedCall, BusyStream, OperationSeen, StreamRef, WaitSeen};
use crate::order;

/// Listed in the text; the JSON form has them all.
const MOST_WAITS: usize = 8;
pub(super) const MOST_STREAMS: usize = 16;
pub(super) const MOST_CALLS: usize = 16;
const MOST_STACKS: usize = 8;
const MOST_PYTHON_LINES: usize = 100;

impl HangReport {
    pub(super) fn blocked_calls(&self) -> Vec<String> {
        // A thread that polls many events in turns is one line.
        let groups = order::grouped(self.snapshot.blocked.iter().enumerate(), |(at, call)| {
            (call.thread, &call.call, if call.queries.is_some() { None } else { Some(*at) })
        });
        let group = |group: &[(usize, &BlockedCall)]| {
            self.blocked_call(&group.iter().map(|(_, call)| *call).collect::<Vec<_>>())
        };
        let mut lines: Vec<_> = groups.iter().take(MOST_CALLS).filter_map(|(_, calls)| group(calls)).collect();
        if !lines.is_empty() {
            lines.insert(0, "blocked calls:".to_owned());
        }
        lines.extend(more(groups.len(), MOST_CALLS));
        lines
    }

    /// One call, or queries of one thread.
    pub(super) fn blocked_call(&self, group: &[&BlockedCall]) -> Option<String> {
        let call = group.first()?;
        let who = format!("  {}", messages::thread(call.thread, &call.thread_name));
        let longest = group.iter().map(|call| call.blocked_nanos).max().unwrap_or(0);
        let of = messages::of(call.function.as_ref());
        let on = match &call.stream {
            Some(stream) if group.len() == 1 => format!(" on {}", self.stream(stream)),
            _ => String::new(),
        };
        let since = format!("for {} since {}", lasted(longest), messages::time(call.entered));
        // The first line or the stack says it as well, where there is one.
        let has_stack = self.stacks.iter().any(|stack| stack.thread == call.thread);
        let from = self.place_of(&call.origin).filter(|_| !has_stack).map(|from| format!(", called from {from}"));
        let from = from.unwrap_or_default();
        Some(match (call.queries, group.len()) {
            (None, _) => format!("{who} in {}{of}{on} {since}{from}", call.call),
            (Some(queries), 1) => format!("{who} polls {}{on}, {} {since}{from}", call.call, counted(queries, "time")),
            (Some(_), events) => {
                let queries = group.iter().filter_map(|call| call.queries).fold(0, u64::saturating_add);
                let what = if call.call.symbol().starts_with("cuEvent") { "event" } else { "stream" };
                let (what, times) = (counted(events as u64, what), counted(queries, "time"));
                format!("{who} polls {what} by {}, {times} {since}{from}", call.call)
            }
        })
    }

    /// Names a stream, with handle and kind where the list of busy streams does not have it.
    fn stream(&self, stream: &StreamRef) -> String {
        let mut listed = self.snapshot.streams.iter().take(MOST_STREAMS).map(|busy| busy.stream.number);
        listed.find(|number| *number == stream.number).map_or_else(|| in_full(stream), |_| stream.to_string())
    }

    /// The busy streams, and the unsatisfied waits; a line each.
    pub fn outstanding(&self) -> Vec<String> {
        if self.snapshot.streams.is_empty() {
            return vec!["no stream is known to have work outstanding".to_owned()];
        }
        let mut lines = vec!["busy streams, with the oldest operation not known to have ended:".to_owned()];
        lines.extend(self.snapshot.streams.iter().take(MOST_STREAMS).map(|busy| self.busy_stream(busy)));
        lines.extend(more(self.snapshot.streams.len(), MOST_STREAMS));
        // Waits in a verdict's chain are not repeated.
        let chains = || self.verdicts.iter().flat_map(|verdict| &verdict.chain).chain(&self.slow);
        let is_said = |wait: &&WaitSeen| chains().any(|line| *line == chain::wait(wait));
        let waits: Vec<_> = self.snapshot.waits.iter().filter(|wait| !wait.is_over() && !is_said(wait)).collect();
        if !waits.is_empty() {
            lines.push("unsatisfied waits:".to_owned());
        }
        for wait in waits.iter().take(MOST_WAITS) {
            lines.push(format!(
                "  {}: memory at {:#x} {} {}, since {}; {} would satisfy it",
                wait.stream,
                wait.address,
                wait.condition,
                wait.value,
                messages::time(wait.at),
                counted(wait.satisfying_writes.len() as u64, "submitted write")
            ));
        }
        lines.extend(more(waits.len(), MOST_WAITS));
        lines
    }

    fn busy_stream(&self, busy: &BusyStream) -> String {
        let stream = in_full(&busy.stream);
        let all = format!("{} submitted in all", counted(busy.submitted, "operation"));
        let what = |op: &OperationSeen| format!("{}{}", op.call, messages::of(op.function.as_ref()));
        let front = busy.front();
        let fed = self.snapshot.fed.iter().find(|fed| fed.stream.number == busy.stream.number);
        match fed.filter(|fed| self.snapshot.has_passed(fed.stream.number, busy.oldest.at)) {
            // The driver has accepted more operations since than a queue holds, so it has ended.
            Some(fed) => {
                let (newest, at) = (what(&fed.newest), messages::time(fed.newest.at));
                format!("  {stream}: submitted to all the time, the newest {newest} at {at}, {all}")
            }
            None if busy.timed().next().is_none() => {
                format!("  {stream}: only event records and waits since {}, {all}", messages::time(busy.oldest.at))
            }
            None => format!("  {stream}: {} since {}, {all}", what(front), messages::time(front.at)),
        }
    }

    pub(super) fn stack_lines(&self, detail: Detail) -> Vec<String> {
        let mut lines = self.python_lines(detail);
        // The host function's thread comes before the threads that wait for it.
        let runs_it = |thread: u32| self.snapshot.host_functions.iter().any(|host| host.thread == thread);
        let is_explained = |thread: u32| self.verdicts.iter().any(|verdict| verdict.threads.contains(&thread));
        let mut stacks: Vec<_> = self.stacks.iter().collect();
        let is_in_a_call = |thread: u32| self.snapshot.blocked.iter().any(|call| call.thread == thread);
        stacks.retain(|stack| is_in_a_call(stack.thread) || runs_it(stack.thread) || !stack.is_of_python_alone());
        let has_python = self.python.as_deref().is_some_and(|text| !main_python(text).is_empty());
        if detail == Detail::Short && has_python {
            // A thread of a library, such as NCCL's watchdog, has nothing of Python's, and explains no wait.
            let says_more = |thread: u32| is_explained(thread) && thread != self.process;
            stacks.retain(|stack| runs_it(stack.thread) || says_more(stack.thread));
        }
        order::sort_by_key(&mut stacks, |stack| (!runs_it(stack.thread), !is_explained(stack.thread)));
        // Threads at the same place are one stack.
        let groups = order::grouped(stacks, |stack| stack.lines());
        for (shown, group) in groups.iter().take(MOST_STACKS) {
            lines.push(self.stack_title(group));
            lines.extend(shown.iter().cloned());
        }
        lines.extend(more(groups.len(), MOST_STACKS));
        lines
    }

    fn stack_title(&self, group: &[&StackSeen]) -> String {
        let threads: Vec<_> = group.iter().map(|stack| stack.thread.to_string()).collect();
        let Some(first) = group.first().filter(|_| threads.len() == 1) else {
            return format!("stack of threads {}:", threads.join(", "));
        };
        let host = self.snapshot.host_functions.iter().find(|host| host.thread == first.thread);
        let call = self.snapshot.blocked.iter().find(|call| call.thread == first.thread);
        let what = match (host, call) {
            (Some(host), None) => self.with_host_functions(format!(" in the host function at {:#x}", host.address)),
            (_, Some(call)) => format!(" in {}", call.call),
            (None, None) if first.thread == self.process => " (the main thread), in no driver call".to_owned(),
            (None, None) => String::new(),
        };
        format!("stack of thread {}{what}:", first.thread)
    }

    fn python_lines(&self, detail: Detail) -> Vec<String> {
        if let (Detail::Short, Some(text)) = (detail, &self.python) {
            return python_in_short(text).into_iter().map(|line| format!("python: {line}")).collect();
        }
        let said = || self.python.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty());
        let more = said().count().saturating_sub(MOST_PYTHON_LINES);
        let rest = (more > 0).then(|| format!("python: and {} in python.txt", counted(more as u64, "more line")));
        said().take(MOST_PYTHON_LINES).map(|line| format!("python: {line}")).chain(rest).collect()
    }
}

/// A stream with its handle and how it was created.
fn in_full(stream: &StreamRef) -> String {
    let kind = match stream.kind {
        StreamKind::Blocking => ", created with default flags",
        StreamKind::NonBlocking => ", non-blocking",
        StreamKind::Legacy => ", the legacy default stream",
        StreamKind::PerThread => ", a per-thread default stream",
        _ => "",
    };
    format!("{stream} ({:#x}{kind})", stream.handle)
}

fn more(count: usize, shown: usize) -> Option<String> {
    (count > shown).then(|| format!("  and {} more", count - shown))
}
