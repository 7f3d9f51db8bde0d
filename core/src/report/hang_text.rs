//! The text of a hang's report, which is read once, at night.
//!
//! First line: which process, and since when. Second: the wait in one sentence. Third: the fix. Then the evidence, each fact once; then the
//! stacks. The JSON form holds all of it.

use super::hang_lists::{MOST_CALLS, MOST_STREAMS};
use super::new_lines::new_lines;
use super::probe::ProbeSeen;
use super::python_stack::{main_python, python_line};
use super::{Block, Detail, FrameSeen, GpuDumpSeen, HangReport, NudgeAnswer, RevokedSeen};
use crate::api::{counted, lasted, time_of_day};
use crate::demangle::demangle;
use crate::diagnose::{
    chain, messages, BlockedCall, BusyStream, Code, Culprit, LateRank, OperationSeen, Origin, Status, Verdict,
};
use crate::stall::Stall;
use crate::Nanos;

const MOST_SHORT: usize = 5;
const MOST_PLACES: usize = 4;
const MOST_STANDING: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// When the same calls were last seen in progress.
    pub at: Nanos,
    /// Whether `at` is now; else the process was last seen then.
    pub is_now: bool,
}

impl HangReport {
    pub fn text(&self) -> Block {
        self.text_after(None)
    }

    /// The same where the wait was reported as slow before: what is new, and where the rest is.
    pub fn text_after(&self, slow: Option<&Self>) -> Block {
        let mut known = slow.map(Self::text_lines).unwrap_or_default();
        known.retain(|line| Some(line) != self.details().as_ref());
        Block::marked(new_lines(&self.text_lines(), &known))
    }

    fn text_lines(&self) -> Vec<String> {
        let head = self.head(None);
        let evidence = self.evidence(&head, Detail::Short);
        Detail::Short.of(head.into_iter().chain(evidence))
    }

    /// The report for all ranks of a job: which process, the wait, the fix, and where the report is. If the rank to blame is another one, that
    /// is the report of the run.
    pub fn in_short(&self, run: &str) -> Block {
        let head = self.head(None).into_iter().take(MOST_SHORT);
        match self.waits_for_ranks() {
            true => {
                short_block(head.map(|line| line.replace(messages::OF_THE_RUN, &format!("`lazyguard report {run}`"))))
            }
            false => short_block(head.chain(self.details())),
        }
    }

    fn waits_for_ranks(&self) -> bool {
        self.verdicts.first().is_some_and(|verdict| verdict.code == Code::LG208)
    }

    /// The stacks, for standard error: Python's, then the native ones. Those of the report as slow are left out.
    pub fn stacks_text(&self, slow: Option<&Self>) -> Block {
        Block::marked(new_lines(&self.short_stacks(), &slow.map(Self::short_stacks).unwrap_or_default()))
    }

    fn short_stacks(&self) -> Vec<String> {
        Detail::Short.of(self.stack_lines(Detail::Short))
    }

    /// The lines at the end of a run. `printed` is the report as the process itself has printed it: of that, the first line has the codes alone.
    pub fn at_the_end(&self, newest: Option<Newest>, printed: Option<&Self>) -> Vec<String> {
        let own = Detail::Short.of(self.head(newest)).into_iter().chain(self.short_stacks()).collect::<Vec<_>>();
        let Some((printed, (heading, rest))) = printed.zip(own.split_first()) else { return own };
        let known = [printed.text_lines(), printed.short_stacks()].concat();
        let first = format!("{heading}: {}, as reported", self.codes());
        std::iter::once(first).chain(new_lines(rest, &known)).collect()
    }

    fn codes(&self) -> String {
        self.verdicts.iter().map(|verdict| verdict.code.name()).collect::<Vec<_>>().join(", ")
    }

    pub fn repeated(&self) -> Block {
        let line = match self.status {
            Status::Hang => format!("{}: still {}, as reported", self.heading(None), self.codes()),
            _ => format!("{}, as reported", self.heading(None)),
        };
        Block::marked([line])
    }

    /// The ranks that are late for what a slow report waits for, and those that stand still.
    pub fn late(&self) -> Block {
        let late = self.snapshot.late.iter().flat_map(|late| &late.ranks).map(LateRank::in_words);
        let ranks: Vec<_> = late.chain(self.standing()).collect();
        Block::marked([format!("{}: {}", self.heading(None), ranks.join("; "))])
    }

    fn standing(&self) -> impl Iterator<Item = String> + '_ {
        self.snapshot.standing.iter().take(MOST_STANDING).map(LateRank::in_words)
    }

    /// The verdicts that came to a hang after its report.
    pub fn beside(&self) -> Block {
        let heading = format!("{}: beside what was reported", self.heading(None));
        let verdicts = self.verdicts.iter().flat_map(|verdict| self.of_verdict(verdict));
        short_block(std::iter::once(heading).chain(verdicts))
    }

    pub fn lines(&self, newest: Option<Newest>, detail: Detail) -> Vec<String> {
        let head = self.head(newest);
        let evidence = self.evidence(&head, detail);
        detail.of(head.into_iter().chain(evidence).chain(self.stack_lines(detail)))
    }

    /// The lines that a reader needs first: process, wait, fix, and place of the launch.
    pub fn head(&self, newest: Option<Newest>) -> Vec<String> {
        let mut lines = vec![self.heading(newest)];
        lines.extend(self.verdicts.first().into_iter().flat_map(|verdict| self.of_verdict(verdict)));
        lines.extend(self.slow.first().cloned());
        let left_out = |count| format!("entries left out or cut, as the report's file has a bound: {count}");
        lines.extend(self.shortened.map(left_out));
        lines
    }

    /// Equal for reports of different processes on one cause.
    pub fn cause(&self) -> String {
        let verdict = self.verdicts.first();
        let culprit = verdict.and_then(|v| v.culprits.first()).map(|c| c.operation.name());
        let call = self.first_call().map(|call| call.call.symbol());
        if let Some(stall) = &self.stall {
            return format!("stalled|{}", stall.evidence.class);
        }
        let code = verdict.map_or(Code::LG299, |verdict| verdict.code);
        format!("{code}|{}|{}", culprit.as_deref().unwrap_or("-"), call.unwrap_or("-"))
    }

    fn heading(&self, newest: Option<Newest>) -> String {
        let word = match self.status {
            Status::Hang => "HANG",
            Status::Slow => "SLOW",
            Status::Stalled => "STALLED",
            Status::Well => "no hang",
        };
        let since = newest.and_then(|newest| self.by_now(newest)).unwrap_or_default();
        format!("{word} {}: {}{since}", self.who(self.snapshot.at), self.blocked_in())
    }

    /// The call that the first verdict explains, or the longest one.
    pub fn first_call(&self) -> Option<&BlockedCall> {
        let calls = &self.snapshot.blocked;
        let thread = self.verdicts.first().and_then(|verdict| verdict.threads.first());
        let longest = || calls.iter().filter(|call| call.past_threshold).max_by_key(|call| call.blocked_nanos);
        calls.iter().find(|call| Some(&call.thread) == thread).or_else(longest).or_else(|| calls.first())
    }

    pub(super) fn blocked_in(&self) -> String {
        if let Some(stall) = &self.stall {
            let time = lasted(self.snapshot.at.saturating_sub(stall.since));
            return format!("no submission for {time}: {}", stall.in_words());
        }
        if self.snapshot.any_stands_at_rest() && self.waited_in().next().is_none() {
            return "work stands still on the device, and no thread waits for it in a call".to_owned();
        }
        let Some(call) = self.first_call() else {
            let quiet = self.snapshot.at.saturating_sub(self.snapshot.last_activity);
            return format!("no driver call but of a poll for {}", lasted(quiet));
        };
        let place = self.place_of_call(call).map(|place| format!(" at {place}")).unwrap_or_default();
        let time = lasted(call.blocked_nanos);
        match call.queries {
            Some(_) => format!("polling {} for {time}{place}", call.call),
            None => format!("blocked {time} in {}{place}", call.call),
        }
    }

    /// Its duration by now, where that is longer than in the report.
    fn by_now(&self, newest: Newest) -> Option<String> {
        let call = || self.first_call().map_or(self.snapshot.last_activity, |call| call.entered);
        let since = self.stall.as_ref().map_or_else(call, |stall| stall.since);
        let time = lasted(newest.at.saturating_sub(since));
        (newest.at > self.snapshot.at && time != lasted(self.snapshot.at.saturating_sub(since))).then(|| {
            match (newest.is_now, self.armed_unix_nanos) {
                (true, _) => format!("; now {time}"),
                (false, 0) => format!("; {time} when it was last seen"),
                (false, armed) => {
                    format!("; {time} when it was last seen, at {}", time_of_day(armed.saturating_add(newest.at)))
                }
            }
        })
    }

    fn of_verdict(&self, verdict: &Verdict) -> Vec<String> {
        let sentence = if verdict.sentence.is_empty() { &verdict.title } else { &verdict.sentence };
        let mut lines = vec![
            self.with_host_functions(format!("{} ({}): {sentence}", verdict.code, verdict.confidence.name())),
            self.with_host_functions(format!("  fix: {}", verdict.fix)),
        ];
        if verdict.code == Code::LG208 {
            lines.splice(1..1, self.standing().map(|rank| format!("  {rank}")));
        }
        lines.extend(self.launched_at(verdict));
        lines
    }

    /// `k1 launched at main a.cpp:11, k2 at main a.cpp:12`.
    fn launched_at(&self, verdict: &Verdict) -> Option<String> {
        let mut operations: Vec<&Culprit> = Vec::new();
        for one in verdict.culprits.iter().take(MOST_PLACES).chain(&verdict.held_back) {
            if !operations.iter().any(|other| other.operation.at == one.operation.at) {
                operations.push(one);
            }
        }
        // Operations from one place are one part of the line.
        let mut groups: Vec<(Vec<String>, &str, String)> = Vec::new();
        for one in operations {
            let Some(place) = self.place_of_operation(&one.operation) else { continue };
            let is_launch = one.operation.function.is_some() || one.operation.graph.is_some();
            let (name, verb) = (one.operation.name(), if is_launch { "launched" } else { "called" });
            match groups.iter_mut().find(|(_, other, there)| (*other, there) == (verb, &place)) {
                Some((names, ..)) if names.contains(&name) => {}
                Some((names, ..)) => names.push(name),
                None => groups.push((vec![name], verb, place)),
            }
        }
        let mut before = "";
        let places = groups.into_iter().map(|(names, verb, place)| {
            let verb = if std::mem::replace(&mut before, verb) == verb { String::new() } else { format!(" {verb}") };
            format!("{}{verb} at {place}", names.join(" and "))
        });
        let mut places: Vec<_> = places.collect();
        // The threads that keep the context busy, of each stream the busiest.
        for fed in verdict.fed.iter().take(MOST_PLACES) {
            places.extend(fed.by.first().and_then(|by| {
                let times = counted(by.operations, "operation");
                Some(format!("{times} of thread {} from {}", by.thread, self.place_of(&by.origin)?))
            }));
        }
        (!places.is_empty()).then(|| format!("  {}", places.join(", ")))
    }

    /// The program's frame: from the thread's stack, or from the return address.
    pub fn place_of_call(&self, call: &BlockedCall) -> Option<String> {
        if let Some(line) = self.main_python_line().filter(|_| call.thread == self.process) {
            return Some(line);
        }
        let stack = self.stacks.iter().find(|stack| stack.thread == call.thread);
        // The origin of a launch says more: see `place_of`.
        let stack = stack.filter(|_| call.origin.outer.is_empty());
        let is_own = |frame: &&FrameSeen| self.is_own(frame);
        let frame = stack.and_then(|stack| stack.frames.iter().find(is_own));
        frame.map(FrameSeen::short).or_else(|| self.place_of(&call.origin))
    }

    /// The line of Python where the main thread stands in that call. An earlier launch of Python's has no known line.
    fn place_of_operation(&self, operation: &OperationSeen) -> Option<String> {
        let is_it =
            |call: &BlockedCall| (call.thread, call.entered) == (self.process, operation.at) && call.queries.is_none();
        let in_it = self.snapshot.blocked.iter().any(is_it);
        let line = in_it.then(|| self.main_python_line()).flatten();
        line.or_else(|| self.place_of(&operation.origin))
    }

    /// Whether an interpreter runs the program: the frames of its modules are those of libraries.
    fn is_python(&self) -> bool {
        let frames = || self.stacks.iter().flat_map(|stack| &stack.frames);
        self.main_python_line().is_some() || self.program.starts_with("python") || frames().any(FrameSeen::is_of_python)
    }

    fn is_own(&self, place: &FrameSeen) -> bool {
        if self.is_python() {
            place.is_own_beside_python()
        } else {
            place.is_of_the_program()
        }
    }

    /// The line of Python at which the main thread stands.
    fn main_python_line(&self) -> Option<String> {
        python_line(&main_python(self.python.as_deref()?))
    }

    /// The program's innermost frame.
    pub(super) fn place_of(&self, origin: &Origin) -> Option<String> {
        let known = origin.addresses().filter_map(|address| self.known(address));
        let known: Vec<_> =
            known.filter(|place| !place.is_of_nccl() && (!self.is_python() || self.is_own(place))).collect();
        let is_in = |own: &FrameSeen, runtime: &NudgeAnswer| runtime.object.rsplit('/').next() == Some(&own.module);
        let is_linked = |own: &FrameSeen| self.preload.runtimes.iter().any(|runtime| is_in(own, runtime));
        FrameSeen::program_s(&known, &self.kernels(), is_linked).map(FrameSeen::short)
    }

    /// Each has a function of its name on the host, which launches it.
    pub fn kernels(&self) -> Vec<String> {
        let operations = self.verdicts.iter().flat_map(|verdict| verdict.culprits.iter().chain(&verdict.held_back));
        operations.filter_map(|one| one.operation.function.as_deref()).map(demangle).collect()
    }

    fn place(&self, address: u64) -> Option<String> {
        self.known(address).filter(|known| known.is_of_the_program()).map(FrameSeen::short)
    }

    fn known(&self, address: u64) -> Option<&FrameSeen> {
        self.places.iter().find(|place| place.address == address && address != 0)
    }

    /// Return addresses of calls, and beginnings of functions.
    pub fn addresses(&self) -> (Vec<u64>, Vec<u64>) {
        let operations = self.verdicts.iter().flat_map(|verdict| verdict.culprits.iter().chain(&verdict.held_back));
        let fed = self.snapshot.fed.iter().flat_map(|fed| &fed.by).map(|feeder| &feeder.origin);
        let calls = self.snapshot.blocked.iter().map(|call| &call.origin);
        let origins = operations.map(|one| &one.operation.origin).chain(fed).chain(calls);
        let mut calls: Vec<_> = origins.flat_map(Origin::addresses).collect();
        let mut functions: Vec<_> = self.host_functions().collect();
        for addresses in [&mut calls, &mut functions] {
            addresses.sort_unstable();
            addresses.dedup();
            addresses.retain(|address| *address != 0);
        }
        (calls, functions)
    }

    /// The addresses of those that run, and of the first one that each stream is to call.
    fn host_functions(&self) -> impl Iterator<Item = u64> + '_ {
        let awaited = |stream: &BusyStream| stream.operations.iter().find_map(OperationSeen::calls);
        let awaited = self.snapshot.streams.iter().filter_map(awaited);
        self.snapshot.host_functions.iter().map(|host| host.address).chain(awaited)
    }

    /// Names host functions in place of their addresses.
    pub(super) fn with_host_functions(&self, line: String) -> String {
        const NOT_NAMED: &str = "host function at ";
        if !line.contains(NOT_NAMED) {
            return line;
        }
        let named = self.host_functions().filter_map(|address| Some((address, self.place(address)?)));
        named.fold(line, |line, (address, place)| {
            line.replace(&format!("{NOT_NAMED}{address:#x}"), &format!("host function {place}"))
        })
    }

    /// The lines after the head, each fact once.
    fn evidence(&self, head: &[String], detail: Detail) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (number, verdict) in self.verdicts.iter().enumerate() {
            let own = if number > 0 { self.of_verdict(verdict) } else { Vec::new() };
            for line in own.into_iter().chain(self.facts(&verdict.chain)) {
                if !head.contains(&line) && !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines.extend(self.stall.iter().flat_map(Stall::lines));
        lines.extend(self.facts(self.slow.get(1..).unwrap_or_default()));
        lines.extend(self.blocked_calls());
        lines.extend(self.outstanding());
        lines.extend(self.probe.iter().flat_map(ProbeSeen::lines));
        lines.extend(self.revoked.iter().map(RevokedSeen::in_words));
        lines.extend(self.gpu_dump.iter().filter_map(GpuDumpSeen::missing_in_words));
        let loads = self.verdicts.iter().any(|verdict| matches!(verdict.code, Code::LG201 | Code::LG202));
        let most = match detail {
            _ if loads => usize::MAX,
            Detail::Whole => 1,
            Detail::Short => 0,
        };
        lines.extend(self.preload.lines().into_iter().take(most));
        lines.extend(self.details());
        lines
    }

    fn details(&self) -> Option<String> {
        self.folder.as_ref().map(|folder| format!("details: lazyguard report {folder}"))
    }

    /// The facts that the lists of blocked calls and busy streams do not say.
    fn facts(&self, chain: &[String]) -> Vec<String> {
        let listed = self.snapshot.streams.iter().take(MOST_STREAMS);
        let mut said: Vec<_> = listed
            .map(|busy| chain::not_ended(&Culprit { stream: busy.stream.clone(), operation: busy.front().clone() }))
            .collect();
        for call in self.snapshot.blocked.iter().take(MOST_CALLS) {
            said.extend([messages::blocked(call), messages::waits_too(call)]);
        }
        let new = chain.iter().filter(|line| !said.contains(line));
        new.map(|line| self.with_host_functions(format!("  - {line}"))).collect()
    }
}

fn short_block(lines: impl IntoIterator<Item = String>) -> Block {
    Block::marked(Detail::Short.of(lines))
}

#[cfg(test)]
#[path = "hang_text_tests.rs"]
mod tests;
