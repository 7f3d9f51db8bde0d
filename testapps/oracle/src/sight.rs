//! What a report may say of a program that is stuck, as far as someone outside the program can know.

use crate::program::{Program, Step};
use crate::properties::verdicts;
use crate::truth::{Op, Stuck, RUNS};
use lazyguard_e2e::Json;

/// Whether a report of a program that is stuck is right.
///
/// # Errors
///
/// Why it is not, or not yet.
pub fn said_well(stuck: &Stuck, program: &Program, hang: &Json) -> Result<(), String> {
    if hang["status"] != "hang" {
        return Err(format!("it is called {}", hang["status"]));
    }
    if verdicts(hang).is_empty() {
        return Err("there is no verdict".to_owned());
    }
    let sight = Sight { stuck, program };
    verdicts(hang).iter().try_for_each(|verdict| {
        sight.threads_stand(verdict).and_then(|()| sight.names_what_stands(verdict)).and_then(|()| sight.fits(verdict))
    })
}

struct Sight<'a> {
    stuck: &'a Stuck,
    program: &'a Program,
}

impl<'a> Sight<'a> {
    fn step(&self, op: &Op) -> Option<&'a Step> {
        self.program.step_of_line(op.line)
    }

    /// The step at which the first thread of a verdict is in a call.
    fn first_call(&self, verdict: &Json) -> Option<&'a Step> {
        let tid = verdict["threads"].get(0)?.as_u64()?;
        let thread = self.stuck.threads.iter().find(|thread| thread.tid == tid && thread.at == "call")?;
        self.program.step_of_line(thread.line)
    }

    fn threads_stand(&self, verdict: &Json) -> Result<(), String> {
        let stands =
            |tid: &Json| self.stuck.threads.iter().any(|one| Some(one.tid) == tid.as_u64() && one.at == "call");
        match verdict["threads"].as_array().and_then(|threads| threads.iter().find(|tid| !stands(tid))) {
            Some(tid) => Err(format!("{} explains thread {tid}, which is in no call", verdict["code"])),
            None => Ok(()),
        }
    }

    /// The first culprit is the one that the sentence names. A verdict that is possible may name another one beside it.
    fn names_what_stands(&self, verdict: &Json) -> Result<(), String> {
        let culprits = verdict["culprits"].as_array().map_or(&[][..], Vec::as_slice);
        if culprits.is_empty() {
            return match verdict["code"] == "LG299" {
                true => Ok(()),
                false => Err(format!("{} names no culprit", verdict["code"])),
            };
        }
        let is_possible = verdict["confidence"] == "possible";
        let or_later =
            verdict["sentence"].as_str().unwrap_or_default().contains("or an operation after it has not ended");
        let may_be = self.stuck.culprits(self.program);
        let is_one = |culprit: &Json| {
            self.stuck.ops.iter().any(|(id, op)| {
                (is_possible || may_be.contains(id))
                    && if or_later { self.is_on_stream(culprit, op) } else { self.is_that(culprit, op) }
            })
        };
        let known = if is_possible { culprits.iter().any(is_one) } else { culprits.first().is_some_and(is_one) };
        if known {
            return Ok(());
        }
        let steps = self.stuck.ops.iter().filter(|(id, _)| is_possible || may_be.contains(id));
        let steps: Vec<_> = steps.filter_map(|(_, op)| self.step(op)).map(ToString::to_string).collect();
        Err(format!("the culprit of {} is none of {steps:?}: {}", verdict["code"], in_words(&culprits[0])))
    }

    fn is_on_stream(&self, culprit: &Json, op: &Op) -> bool {
        let Some(step) = self.step(op) else { return false };
        let stream = step.get("stream").and_then(|stream| usize::try_from(stream).ok()).unwrap_or(usize::MAX);
        match self.program.streams.get(stream).copied() {
            Some("legacy") => culprit["stream"]["kind"].as_str().is_some_and(|kind| kind.starts_with("legacy")),
            Some(_) => culprit["stream"]["handle"].as_u64() == self.stuck.streams.get(stream).copied(),
            None => true,
        }
    }

    /// Whether a culprit is this work: its stream, its call, its kernel.
    fn is_that(&self, culprit: &Json, op: &Op) -> bool {
        let Some(step) = self.step(op) else { return false };
        let call = culprit["operation"]["call"].as_str().unwrap_or_default();
        let calls: &[&str] = match step.what {
            "launch" => &["cuLaunchKernel"],
            "graph" => &["cuGraphLaunch"],
            "wait_value" => &["cuStreamWaitValue32"],
            "write_value" => &["cuStreamWriteValue32"],
            "host" => &["cuLaunchHostFunc"],
            "record" => &["cuEventRecord"],
            "wait_event" => &["cuStreamWaitEvent"],
            "memset" => &["cuMemset"],
            "pool" => &["cuMemAllocAsync", "cuMemFreeAsync"],
            "copy" | "copy_async" => &["cuMemcpyHtoD"],
            "copy_back" => &["cuMemcpyDtoH"],
            _ => &[],
        };
        let kernel = step.get("kernel").map(|kernel| format!("k{kernel}")).filter(|_| step.what == "launch");
        self.is_on_stream(culprit, op)
            && calls.iter().any(|known| call.starts_with(known))
            && culprit["operation"]["function"].as_str() == kernel.as_deref()
    }

    fn in_flight(&self, culprit: &Json, fits: impl Fn(&Step, &Op) -> bool) -> bool {
        let is_one = |op: &&Op| self.is_that(culprit, op) && self.step(op).is_some_and(|step| fits(step, op));
        self.stuck.ops.values().any(|op| is_one(&op))
    }

    /// Whether the code's pattern is there, with the work that the verdict names in its place.
    fn fits(&self, verdict: &Json) -> Result<(), String> {
        let first = &verdict["culprits"][0];
        let is_launch = |step: &Step| matches!(step.what, "launch" | "graph");
        let first_use =
            |step: &Step| is_launch(step) && step.get("kernel").is_some_and(|k| !self.program.warm.contains(&k));
        let call = self.first_call(verdict);
        let calls = |what: &[&str]| call.is_some_and(|step| what.contains(&step.what));
        let there = match verdict["code"].as_str().unwrap_or_default() {
            // A kernel of a graph is loaded by another call than the one that submits it.
            "LG201" => self.stuck.ops.values().any(|op| {
                let kernel = self.step(op).filter(|step| first_use(step)).and_then(|step| step.get("kernel"));
                op.state != RUNS && kernel.is_some_and(|kernel| holds_back(verdict, kernel))
            }),
            "LG202" => calls(&["load_module"]) || call.is_some_and(first_use),
            "LG203" => self.in_flight(first, |step, op| {
                let minimal = self.stuck.minimal();
                let is_last =
                    self.stuck.ops.iter().any(|(id, one)| one.line == op.line && minimal.contains(&(*id).into()));
                step.what == "wait_value" && (is_last || !self.stuck.is_to_be_written(self.program, step))
            }),
            "LG204" => calls(&["free", "unload_module"]) || self.is_by_the_default_stream(call),
            "LG206" => self.stuck.ops.values().any(|op| op.state == 1),
            "LG207" => self.in_flight(first, |step, op| step.get("gate").is_some() && op.state == RUNS),
            "LG211" => self.in_flight(&verdict["held_back"], |step, op| is_launch(step) && op.state != RUNS),
            "LG299" => true,
            _ => false,
        };
        if there {
            return Ok(());
        }
        let at = call.map_or_else(|| "no call".to_owned(), ToString::to_string);
        Err(format!("nothing of {} is there: the first thread is at {at}", verdict["code"]))
    }

    /// A call that waits for the default stream, which waits for the streams that were created with default flags.
    fn is_by_the_default_stream(&self, call: Option<&Step>) -> bool {
        let waits = |step: &Step| match step.what {
            "copy" | "copy_back" => true,
            _ => step.get("stream").is_some_and(|on| self.program.streams.get(on as usize) == Some(&"legacy")),
        };
        call.is_some_and(waits)
    }
}

/// Whether a verdict says of a kernel that it cannot start.
fn holds_back(verdict: &Json, kernel: u64) -> bool {
    let name = format!("k{kernel}");
    match verdict["held_back"]["operation"]["function"].as_str() {
        Some(function) => function == name,
        None => verdict["sentence"].as_str().unwrap_or_default().starts_with(&format!("{name} cannot start")),
    }
}

fn in_words(culprit: &Json) -> String {
    let operation = &culprit["operation"];
    format!("{} of {} on stream {}", operation["call"], operation["function"], culprit["stream"]["number"])
}
