//! Weighs hazards by the records around them: can the work in flight wait for what comes later, or is it known not to?
//!
//! | the records show | the hazard is |
//! |---|---|
//! | a collective or an exchange in flight, an unsatisfied wait for a value, a host function, a grid that is resident at once beside others, or an event wait behind one of these | likely |
//! | work in flight that lasted [`LONG_IN_FLIGHT_NANOS`], in this place or under the same name in another | likely |
//! | work in flight that outlasted a silence, and ended with the next submission | likely |
//! | work in flight that lasted, and ended while every thread had stood in a call for [`LONG_IN_FLIGHT_NANOS`], beside a load that holds back later work | possible |
//! | beside a kernel's load, a wait for a value that ended though nothing submitted writes that | possible |
//! | all work in flight ended before the next submission of any thread | refuted |
//! | nothing of that | possible |
//!
//! A collective of a process's only communicator is no reason: all its ranks submit the same collectives in the same order, so it waits for nothing
//! that this process submits behind it. That holds for each of several ranks in a process. Its length says nothing either, because it lasts as long as other ranks are late.
//!
//! Work that ended while every thread stood in a call has waited for none of them, unless another rank ended it. Behind a kernel's load no later work could
//! end a wait: the host did, or a kernel that was submitted before, and the load holds up neither.
//!
//! A refutation is about submissions. No record shows the stores of the host, so a wait for a value, and work that lasts, stay likely.
//!
//! Must not: grow with the number of records; or refute what was not recorded.

use super::event::HazardEvent;
use super::group::key;
use super::rules::{LONG_IN_FLIGHT_NANOS, LONG_LOAD_NANOS, SILENCE_NANOS};
use super::{Flags, Hazard};
use crate::api::{Class, Code, EntryPoint, NodeKind, ValueWait, ValueWrite};
use crate::demangle::demangle;
use crate::diagnose::{Confidence, GraphSeen};
use crate::map::{HashMap, HashSet};
use crate::replay::{is_transfer, takes_time, waits_for_peers, Images, Proofs, Proven, Scope};
use crate::trace::read::{Entry, Recording, Source};
use crate::trace::{Kind, Payload, Record};
use crate::Nanos;
use std::collections::VecDeque;

/// More than a queue holds: what was submitted before has ended.
const MOST_OUTSTANDING: usize = 2048;
const MOST_WRITES: usize = 256;
const MOST_CASES: usize = 256;
/// Event waits that are followed from stream to stream.
const MOST_EVENTS: u32 = 8;
/// Names of kernels that lasted, and of those in flight beside a hazard.
const MOST_NAMES: usize = 1024;
const MOST_BESIDE: usize = 32;
/// A host function that returns so soon has waited for nothing.
const SOON_NANOS: Nanos = 1_000_000;
/// The part of a silence within which the work has to end with what ended it.
const PART_OF_SILENCE: Nanos = 8;

/// An operation that is not known to have ended.
#[derive(Clone, Copy)]
struct Operation {
    at: Nanos,
    meant_at: Nanos,
    entry_point: EntryPoint,
    function: u32,
    is: Is,
}

#[derive(Clone, Copy)]
enum Is {
    Work,
    /// A wait for this stream up to then.
    Behind(u32, Nanos),
    Wait(ValueWait),
    Graph(u64),
    AtOnce,
}

#[derive(Default)]
struct Outstanding {
    context: u32,
    operations: VecDeque<Operation>,
}

/// Work that has ended by a time to come: records are seen in the order of their entry.
struct Ending {
    proven: Proven,
    /// Since when the call stood behind that work; `None` for an answer.
    stood: Option<Nanos>,
    /// The shortest time for one operation that shows that it lasts.
    long: Nanos,
    /// The call's own operations.
    own: u64,
}

/// The work that may wait for later work, and how that is told.
struct Waits {
    what: Option<String>,
    because: String,
    by: By,
}

#[derive(Clone, Copy)]
enum By {
    Kind,
    Time,
    Value(ValueWait),
}

struct Case {
    noted: HazardEvent,
    key: String,
    /// The streams in flight, the newest operation of each before the hazard, and whether that has ended.
    streams: Vec<(u32, Nanos, bool)>,
    ended: Nanos,
    next: Option<(Nanos, &'static str)>,
    found: Option<Waits>,
    /// That its work ended before the next submission does not refute it.
    stands: bool,
    /// The functions in flight that were looked at.
    looked_at: HashSet<u32>,
    /// Host functions in flight, by the time of their submission, and when each began.
    host_functions: Vec<(Nanos, Nanos)>,
    /// In flight is a collective that may last.
    is_beside_peers: bool,
    beside: Vec<String>,
}

#[derive(Default)]
struct Weighed {
    /// By the hazard's own record.
    noted: Confidence,
    refuted: u64,
    found: Option<Waits>,
    beside: HashSet<String>,
}

/// Show it the records in the order of entry.
pub struct Weigher<'r, S: Source> {
    recording: &'r Recording<S>,
    proofs: Proofs,
    images: Images,
    streams: HashMap<u32, Outstanding>,
    endings: Vec<Ending>,
    writes: VecDeque<ValueWrite>,
    /// The newest call of each thread.
    calls: HashMap<u32, Record>,
    cases: Vec<Case>,
    weighed: HashMap<String, Weighed>,
    lasted: HashSet<String>,
    has_one_communicator: bool,
    is_a_rank: bool,
}

impl<'r, S: Source> Weigher<'r, S> {
    pub fn new(recording: &'r Recording<S>) -> Self {
        let made = recording.communicators().iter().filter(|one| one.handle != 0 || one.id != 0);
        // Ranks of one communicator have one id.
        let ids: HashSet<(u64, u64)> = made.map(|one| (one.id, if one.id == 0 { one.handle } else { 0 })).collect();
        Self {
            recording,
            has_one_communicator: ids.len() == 1,
            is_a_rank: !recording.rank().is_empty(),
            proofs: Proofs::default(),
            images: Images::default(),
            streams: HashMap::default(),
            endings: Vec::new(),
            writes: VecDeque::new(),
            calls: HashMap::default(),
            cases: Vec::new(),
            weighed: HashMap::default(),
            lasted: HashSet::default(),
        }
    }

    pub fn see(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.ends_until(record.entered);
        self.settle(|case| case.is_over(record.entered));
        match record.kind {
            Kind::Hazard => {
                if let Some(noted) = HazardEvent::of(record, entry.thread) {
                    self.opens(noted);
                }
                return;
            }
            Kind::HostBegins | Kind::HostEnds => self.host_function(record),
            kind if kind.is_call() && !record.is_refused() => {
                self.images.see(record);
                self.is_own_call(entry.thread, record);
                self.calls.insert(entry.thread, *record);
                if record.submitted() && record.stream != 0 {
                    self.submits(entry.thread, record);
                }
            }
            _ => return,
        }
        if let Some(proven) = self.proofs.see(record) {
            let class = record.entry_point.class();
            let stands = record.kind == Kind::Call && (class.synchronizes() || class == Class::Copy);
            self.endings.push(Ending {
                proven,
                stood: stands.then_some(record.entered),
                long: LONG_IN_FLIGHT_NANOS,
                own: u64::from(class == Class::Copy),
            });
        }
    }

    /// Gives hazards their confidence, and drops those that are refuted. One without records keeps its own.
    pub fn finish(mut self, hazards: &mut Vec<Hazard>) {
        self.ends_until(Nanos::MAX);
        self.has_not_returned();
        self.settle(|_| true);
        let Self { weighed, lasted, .. } = self;
        hazards.retain_mut(|hazard| {
            let Some(weighed) = weighed.get(&hazard.key()) else { return true };
            hazard.confidence = weighed.noted;
            let again = || weighed.beside.iter().find(|name| lasted.contains(*name));
            if let Some(found) = &weighed.found {
                hazard.confidence = Confidence::Likely;
                (hazard.because, hazard.waits) = (found.because.clone(), found.what.clone());
            } else if let Some(name) = again() {
                hazard.confidence = Confidence::Likely;
                hazard.because =
                    format!("{name} lasted {} ms or longer elsewhere in this run", ms(LONG_IN_FLIGHT_NANOS));
            }
            // An occurrence without a record may have been another.
            let is_refuted = hazard.confidence == Confidence::Possible && weighed.refuted == hazard.count;
            !is_refuted || hazard.prevented
        });
    }

    fn submits(&mut self, thread: u32, record: &Record) {
        let class = record.entry_point.class();
        let is = match record.payload() {
            Payload::Wait(wait) => Is::Wait(wait),
            Payload::Graph(graph) if class == Class::GraphLaunch => Is::Graph(graph),
            Payload::Event(event) if class == Class::StreamWaitEvent => match self.proofs.event(event) {
                Some(recorded) if recorded.stream != 0 => Is::Behind(recorded.stream, recorded.at),
                _ => Is::Work,
            },
            _ if record.at_once() => Is::AtOnce,
            Payload::Write(write) => {
                if self.writes.len() == MOST_WRITES {
                    self.writes.pop_front();
                }
                self.writes.push_back(write);
                Is::Work
            }
            _ => Is::Work,
        };
        // An operation that only orders or prepares ends no wait.
        let acts = takes_time(class) || class == Class::WriteValue;
        for case in self.cases.iter_mut().filter(|case| acts && case.next.is_none() && !case.is_of(thread, record)) {
            case.next = Some((record.entered, record.entry_point.info().base()));
        }
        let (at, meant_at, entry_point) = (record.entered, record.meant_at(), record.entry_point);
        let outstanding = self.streams.entry(record.stream).or_default();
        outstanding.context = record.context.into();
        if outstanding.operations.len() == MOST_OUTSTANDING {
            outstanding.operations.pop_front();
        }
        outstanding.operations.push_back(Operation { at, meant_at, entry_point, function: record.function, is });
    }

    fn host_function(&mut self, record: &Record) {
        let Payload::HostCall { submitted, .. } = record.payload() else { return };
        for case in &mut self.cases {
            if record.kind == Kind::HostBegins {
                case.host_functions
                    .iter_mut()
                    .filter(|(at, _)| *at == submitted)
                    .for_each(|(_, began)| *began = record.entered);
            } else {
                let waited = |began: Nanos| began == 0 || record.entered.saturating_sub(began) >= SOON_NANOS;
                case.host_functions.retain(|(at, began)| *at != submitted || waited(*began));
            }
        }
    }

    /// A hazard's own call shows when the work in flight has ended, if it had to wait for all of that.
    fn is_own_call(&mut self, thread: u32, record: &Record) {
        if let Some(case) = self.cases.iter().find(|case| case.is_of(thread, record)) {
            let ending = ending_by(&case.noted, record, self.images.compiles(record));
            self.endings.extend(ending);
        }
    }

    fn opens(&mut self, noted: HazardEvent) {
        let kernel = self.name(noted.function, noted.noted);
        let key = key(
            noted.code,
            kernel.as_deref(),
            noted.entry_point.info().base(),
            noted.class,
            noted.flags.says(Flags::PREVENTED),
        );
        if noted.confidence() >= Confidence::Likely || noted.flags.says(Flags::TIMED) {
            // The call says it itself, or nothing was in flight.
            let weighed = self.weighed.entry(key).or_default();
            weighed.noted = weighed.noted.max(noted.confidence());
            return;
        }
        let mut case = Case {
            key,
            streams: self.in_flight(&noted),
            noted,
            ended: 0,
            next: None,
            found: None,
            stands: false,
            looked_at: HashSet::default(),
            host_functions: Vec::new(),
            is_beside_peers: false,
            beside: Vec::new(),
        };
        let streams = case.streams.clone();
        streams.iter().for_each(|(stream, until, _)| self.looks_at(&mut case, *stream, *until, MOST_EVENTS));
        self.has_lasted(&mut case);
        let own = self.calls.get(&noted.thread).filter(|call| call.entered == noted.at).copied();
        self.endings.extend(own.and_then(|call| ending_by(&noted, &call, self.images.compiles(&call))));
        if noted.code == Code::LG105 {
            let proven =
                Proven { scope: Scope::Stream(noted.stream), until: noted.at.saturating_sub(1), at: noted.noted };
            self.endings.push(Ending { proven, stood: Some(noted.at), long: LONG_IN_FLIGHT_NANOS, own: 1 });
        }
        if noted.code == Code::LG106 && !case.is_beside_peers && noted.held().unwrap_or(0) >= LONG_IN_FLIGHT_NANOS {
            // A full queue takes the next operation when its first one ends.
            let what = self.named(&noted);
            let because = format!("{what} held the full queue for {} ms", ms(noted.held().unwrap_or(0)));
            case.stands(Waits { what: None, because, by: By::Time });
        }
        if self.cases.len() == MOST_CASES {
            let oldest = self.cases.remove(0);
            self.takes(oldest);
        }
        self.cases.push(case);
    }

    /// The streams whose work the hazard is about, with the newest operation of each before it.
    fn in_flight(&self, noted: &HazardEvent) -> Vec<(u32, Nanos, bool)> {
        let is_of_one_stream = matches!(noted.code, Code::LG105 | Code::LG106);
        let concerns = |number: u32, stream: &Outstanding| match is_of_one_stream {
            true => number == noted.stream,
            false => stream.context == u32::from(noted.context),
        };
        let newest = |stream: &Outstanding| {
            stream.operations.iter().rev().map(|operation| operation.at).find(|at| *at < noted.at)
        };
        let of = |(number, stream): (&u32, &Outstanding)| Some((*number, newest(stream)?, false));
        let mut streams: Vec<_> =
            self.streams.iter().filter(|(number, stream)| concerns(**number, stream)).filter_map(of).collect();
        if noted.other.stream != 0 && !streams.iter().any(|(number, ..)| *number == noted.other.stream) {
            streams.push((noted.other.stream, noted.at.saturating_sub(1), false));
        }
        streams.sort_unstable();
        streams
    }

    /// Finds what can wait among a stream's outstanding operations up to then.
    fn looks_at(&self, case: &mut Case, number: u32, until: Nanos, events: u32) {
        let Some(stream) = self.streams.get(&number) else { return };
        for operation in stream.operations.iter().take_while(|operation| operation.at <= until) {
            let class = operation.entry_point.class();
            match operation.is {
                Is::Behind(of, at) if events > 0 && of != number => self.looks_at(case, of, at, events - 1),
                Is::Wait(wait) if !self.writes.iter().any(|write| write.ends(&wait)) => {
                    let what = operation.entry_point.info().base().to_owned();
                    let because =
                        format!("{what} on stream {number} waits for a value that nothing submitted by then writes");
                    case.stands(Waits { what: Some(what), because, by: By::Value(wait) });
                }
                Is::AtOnce if case.streams.len() > 1 => {
                    if let Some(what) = self.name(operation.function, operation.meant_at) {
                        let because = format!("kernel {what} on stream {number} starts as a whole, beside other work");
                        case.finds(Waits { what: Some(what), because, by: By::Kind });
                    }
                }
                Is::Graph(graph) => self.looks_into(case, graph, operation, number),
                _ if class == Class::HostFunction => case.host_functions.push((operation.at, 0)),
                _ if case.looked_at.insert(operation.function) => {
                    if let Some(name) = self.name(operation.function, operation.meant_at) {
                        self.kernel(case, name, number);
                    }
                }
                _ => {}
            }
        }
    }

    fn looks_into(&self, case: &mut Case, graph: u64, launch: &Operation, stream: u32) {
        let texts = self.recording.strings();
        let Some(contents) = texts.graphs.newest(graph, launch.meant_at) else { return };
        let seen = GraphSeen::of(graph, contents, |number| self.name(number, launch.meant_at));
        if seen.parts.iter().any(|part| part.kind == NodeKind::HostFunction) {
            case.host_functions.push((launch.at, 0));
        }
        for name in seen.parts.into_iter().filter_map(|part| part.function) {
            self.kernel(case, name, stream);
        }
    }

    fn kernel(&self, case: &mut Case, name: String, stream: u32) {
        if waits_for_peers(&name) {
            case.is_beside_peers = true;
            if !self.has_one_communicator || is_transfer(&name) {
                let because = format!("kernel {name} on stream {stream} waits for its peers");
                case.finds(Waits { what: Some(name), because, by: By::Kind });
            }
        } else if case.beside.len() < MOST_BESIDE && !case.beside.contains(&name) {
            case.beside.push(name);
        }
    }

    /// The driver has said that the named stream is busy: since its newest submission that was so all the time.
    fn has_lasted(&self, case: &mut Case) {
        let noted = &case.noted;
        let Some(stream) = self.streams.get(&noted.other.stream).filter(|_| !case.is_beside_peers) else { return };
        let before = || stream.operations.iter().filter(|operation| operation.at < noted.at);
        let Some(newest) = before().next_back() else { return };
        let timed = before().filter(|operation| takes_time(operation.entry_point.class())).count() as u64;
        let lasted = (noted.at - newest.at) / timed.max(1);
        if lasted >= LONG_IN_FLIGHT_NANOS {
            let what = self.named(noted);
            let because = format!("{what} had been in flight for {} ms", ms(noted.at - newest.at));
            case.stands(Waits { what: None, because, by: By::Time });
        }
    }

    /// A load that is in progress waits for the work in flight.
    fn has_not_returned(&mut self) {
        let last_seen = self.recording.facts().last_seen;
        for case in self.cases.iter_mut().filter(|case| !case.is_beside_peers) {
            let is_own = |call: &Record| case.is_of(case.noted.thread, call);
            let mut threads = self.recording.threads().iter().filter(|thread| thread.thread == case.noted.thread);
            let Some(call) = threads.find_map(|thread| thread.call_in_progress.filter(is_own)) else { continue };
            let lasts = last_seen.saturating_sub(call.entered);
            if lasts >= LONG_LOAD_NANOS && !self.images.compiles(&call) {
                let because = format!("the call had not returned after {} ms", ms(lasts));
                case.stands(Waits { what: None, because, by: By::Time });
            }
        }
    }

    fn ends_until(&mut self, now: Nanos) {
        while let Some(next) = (0..self.endings.len()).min_by_key(|at| self.endings[*at].proven.at) {
            if self.endings[next].proven.at > now {
                return;
            }
            let ending = self.endings.swap_remove(next);
            self.ends(&ending, MOST_EVENTS);
        }
    }

    fn ends(&mut self, ending: &Ending, events: u32) {
        let Ending { proven: Proven { scope, until, at }, stood, long, own } = *ending;
        let numbers: Vec<u32> = match scope {
            Scope::Stream(stream) => vec![stream],
            Scope::Context(context) => {
                self.streams.iter().filter(|(_, stream)| stream.context == context).map(|(number, _)| *number).collect()
            }
        };
        let mut ended = Vec::new();
        for number in &numbers {
            let Some(stream) = self.streams.get_mut(number) else { continue };
            let count = stream.operations.iter().take_while(|operation| operation.at <= until).count();
            ended.extend(stream.operations.drain(..count).map(|operation| (*number, operation)));
        }
        let timed = || ended.iter().filter(|(_, operation)| takes_time(operation.entry_point.class()));
        let count = timed().count() as u64 + own;
        let name = |operation: &Operation| self.name(operation.function, operation.meant_at);
        let peers = || ended.iter().any(|(_, operation)| name(operation).is_some_and(|name| waits_for_peers(&name)));
        let stood_for = stood.map_or(0, |since| at.saturating_sub(since));
        let each = stood_for / count.max(1);
        let lasts = count > 0 && each >= long && !peers();
        let is_of_interest = lasts || stood_for >= SILENCE_NANOS;
        let alone = timed().next().filter(|_| is_of_interest && count == 1 + own);
        let alone = alone.and_then(|(_, operation)| name(operation));
        let by_itself = lasts && self.nobody_acted(at);
        if let (true, Some(name)) =
            (lasts && long == LONG_IN_FLIGHT_NANOS && !(by_itself && self.nothing_came(&ended)), &alone)
        {
            if self.lasted.len() < MOST_NAMES {
                self.lasted.insert(name.clone());
            }
        }
        for case in self.cases.iter_mut().filter(|case| case.noted.at < at) {
            let covers = |number: u32| numbers.contains(&number);
            let mut is_touched = false;
            for (_, newest, has_ended) in case.streams.iter_mut().filter(|(number, ..)| covers(*number)) {
                is_touched |= !*has_ended;
                if until >= *newest && !*has_ended {
                    *has_ended = true;
                    case.ended = case.ended.max(at);
                }
            }
            if !is_touched || case.is_beside_peers {
                continue;
            }
            let what = alone.clone().unwrap_or_else(|| "the work in flight".to_owned());
            if case.has_ended() {
                case.retracts_a_wait(&self.writes);
            }
            if by_itself && case.holds_back_later_work() {
                case.ended_by_itself();
            } else if lasts {
                let because = match &alone {
                    Some(name) => format!("kernel {name} was waited for {} ms", ms(each)),
                    None => format!("one of the {count} operations in flight lasted {} ms or longer", ms(each)),
                };
                case.stands(Waits { what: None, because, by: By::Time });
            } else if let (Some((next, call)), Some(since)) = (case.next, stood) {
                let silence = next.saturating_sub(case.noted.at.max(since));
                if silence >= SILENCE_NANOS && next < at && (at - next) <= silence / PART_OF_SILENCE {
                    let because = format!("{what} stood for {} ms, and ended when {call} was called", ms(silence));
                    case.stands(Waits { what: None, because, by: By::Kind });
                }
            }
        }
        // A stream that has passed a wait for an event shows the end of what came before that.
        for (_, operation) in ended {
            if let (Is::Behind(stream, recorded), true) = (operation.is, events > 0) {
                let proven = Proven { scope: Scope::Stream(stream), until: recorded, at };
                self.ends(&Ending { proven, stood: None, long, own: 0 }, events - 1);
            }
        }
    }

    /// Whether each thread had stood in a call for long by then, or had ended, so that none of them ended what ended then.
    fn nobody_acted(&self, until: Nanos) -> bool {
        let long_before = |time: Nanos| time + LONG_IN_FLIGHT_NANOS <= until;
        let stood = |call: &Record| long_before(call.entered) && (call.returned == 0 || call.returned >= until);
        let ended = |thread: u32, call: &Record| {
            let mut of_number = self.recording.threads().iter().filter(|seen| seen.thread == thread);
            of_number.any(|seen| seen.ended >= call.returned && seen.ended != 0 && long_before(seen.ended))
        };
        let cannot_act = |(thread, call): (&u32, &Record)| stood(call) || ended(*thread, call);
        !self.is_a_rank && !self.calls.is_empty() && self.calls.iter().all(cannot_act)
    }

    /// Whether nothing that started was submitted behind the first of the operations that have ended.
    fn nothing_came(&self, ended: &[(u32, Operation)]) -> bool {
        let ended = || ended.iter().map(|(_, operation)| operation.at);
        let first = ended().min().unwrap_or_default();
        let loads = self.cases.iter().filter(|case| case.holds_back_later_work()).map(|case| case.noted.at);
        let held_back = loads.filter(|at| *at > first).min().unwrap_or(Nanos::MAX);
        let in_flight = self.streams.values().flat_map(|stream| &stream.operations).map(|operation| operation.at);
        !in_flight.chain(ended()).any(|at| at > first && at < held_back)
    }

    fn settle(&mut self, is_over: impl Fn(&Case) -> bool) {
        if !self.cases.iter().any(&is_over) {
            return;
        }
        let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.cases).into_iter().partition(is_over);
        self.cases = open;
        over.into_iter().for_each(|case| self.takes(case));
    }

    fn takes(&mut self, case: Case) {
        let is_refuted = case.is_refuted();
        let Case { key, mut found, host_functions, beside, .. } = case;
        if let (None, Some((at, _))) = (&found, host_functions.first()) {
            let what = "a host function".to_owned();
            let because = format!("{what} was in flight, submitted at {}", crate::diagnose::messages::time(*at));
            found = Some(Waits { what: Some(what), because, by: By::Kind });
        }
        let weighed = self.weighed.entry(key).or_default();
        if is_refuted {
            weighed.refuted += 1;
            return;
        }
        if weighed.found.is_none() {
            weighed.found = found;
        }
        if weighed.beside.len() < MOST_BESIDE {
            weighed.beside.extend(beside);
        }
    }

    fn name(&self, function: u32, at: Nanos) -> Option<String> {
        let name = self.recording.strings().function(function, at)?.name?;
        Some(demangle(name))
    }

    /// The operation in flight that the hazard names.
    fn named(&self, noted: &HazardEvent) -> String {
        let other = noted.other.operation;
        let call =
            || EntryPoint::by_id(other.entry_point).map_or("earlier work", |entry_point| entry_point.info().base());
        self.name(other.function, noted.noted).map_or_else(|| call().to_owned(), |name| format!("kernel {name}"))
    }
}

impl Case {
    fn is_of(&self, thread: u32, record: &Record) -> bool {
        self.noted.thread == thread && self.noted.at == record.entered
    }

    fn finds(&mut self, found: Waits) {
        self.found.get_or_insert(found);
    }

    fn stands(&mut self, found: Waits) {
        if !std::mem::replace(&mut self.stands, true) || self.found.is_none() {
            self.found = Some(found);
        }
    }

    /// Until the work in flight has ended, nothing that is submitted later starts.
    fn holds_back_later_work(&self) -> bool {
        matches!(self.noted.code, Code::LG101 | Code::LG102 | Code::LG107 | Code::LG108)
            && !self.noted.flags.says(Flags::PREVENTED)
    }

    /// It lasted, and is no more than possible: that others would have ended it.
    fn ended_by_itself(&mut self) {
        self.stands = true;
        self.found.take_if(|found| matches!(found.by, By::Time));
    }

    /// The wait has ended though no submitted write ends it.
    fn retracts_a_wait(&mut self, writes: &VecDeque<ValueWrite>) {
        if self.noted.code == Code::LG101 && self.holds_back_later_work() {
            let unwritten = |wait: &ValueWait| !writes.iter().any(|write| write.ends(wait));
            self.found.take_if(|found| matches!(&found.by, By::Value(wait) if unwritten(wait)));
        }
    }

    fn has_ended(&self) -> bool {
        self.streams.iter().all(|(_, _, has_ended)| *has_ended) && !self.streams.is_empty()
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.has_ended() && self.ended < now && self.host_functions.is_empty()
    }

    fn is_refuted(&self) -> bool {
        let before_the_next = self.next.is_none_or(|(next, _)| self.ended <= next);
        self.has_ended() && before_the_next && self.host_functions.is_empty() && !self.stands
    }
}

/// The end of all work in flight, by the return of the hazard's own call: a module is loaded, and local memory grows, in an idle context.
fn ending_by(noted: &HazardEvent, call: &Record, compiles: bool) -> Option<Ending> {
    let long = match noted.code {
        // The guard had loaded it: this call waited for nothing.
        _ if noted.flags.says(Flags::PREVENTED) => return None,
        // Compiling takes any time.
        Code::LG102 | Code::LG108 if compiles => Nanos::MAX,
        Code::LG102 | Code::LG108 => LONG_LOAD_NANOS,
        Code::LG107 => LONG_IN_FLIGHT_NANOS,
        _ => return None,
    };
    let succeeded = call.returned != 0 && call.result == 0 && noted.context != 0;
    let proven =
        Proven { scope: Scope::Context(noted.context.into()), until: noted.at.saturating_sub(1), at: call.returned };
    succeeded.then_some(Ending { proven, stood: Some(noted.at), long, own: 0 })
}

fn ms(nanos: Nanos) -> Nanos {
    nanos / 1_000_000
}
