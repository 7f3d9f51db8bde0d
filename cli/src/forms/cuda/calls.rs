//! The statement for a call of the recording.

use super::objects::Objects;
use crate::folder::source::Opened;
use lazyguard_core::api::{Class, Code, Condition, GraphContents, GraphPart, NodeKind, ValueWait};
use lazyguard_core::diagnose::{BusyStream, Snapshot, Verdict};
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Launch, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::BTreeSet;

pub(super) struct Calls<'a> {
    opened: &'a Opened,
    verdicts: &'a [Verdict],
    pub objects: Objects<'a>,
    /// When the operations were submitted that do not end.
    pub culprits: BTreeSet<Nanos>,
    /// Streams at a copy that seems not to end. A copy ends, so the kernel behind it does not.
    pub stand: BTreeSet<u32>,
    /// When the host functions were submitted that do not return.
    host_functions: BTreeSet<Nanos>,
}

type Statement = Result<String, String>;

impl<'a> Calls<'a> {
    pub fn new(opened: &'a Opened, snapshot: &'a Snapshot, verdicts: &'a [Verdict], entries: &[(Entry, u64)]) -> Self {
        let mut objects = Objects::new(opened.recording.strings());
        let mut launched = BTreeSet::new();
        for record in entries.iter().map(|(entry, _)| &entry.record) {
            let is_cold = matches!(record.kind, Kind::ColdFunction | Kind::ColdModule);
            if is_cold && record.entry_point.class() != Class::ModuleLoad {
                *objects.libraries.entry(record.owner().unwrap_or(0)).or_insert(true) &=
                    record.kind == Kind::ColdFunction;
                if !launched.contains(&record.function) {
                    objects.cold.insert(record.function);
                }
            }
            launched.insert(record.function);
        }
        let culprits = verdicts.iter().flat_map(|verdict| &verdict.culprits);
        let culprits = culprits.map(|culprit| culprit.operation.at).collect();
        let host_functions = snapshot.host_functions.iter().map(|function| function.at).collect();
        Self { opened, verdicts, objects, culprits, stand: BTreeSet::new(), host_functions }
    }

    /// An expression whose value is the driver's result; else why there is none.
    pub fn statement(&mut self, entry: &Entry) -> Statement {
        let record = &entry.record;
        let class = record.entry_point.class();
        if matches!(record.kind, Kind::ColdFunction | Kind::ColdModule)
            && !matches!(class, Class::ModuleLoad)
            && (class != Class::Launch || !record.submitted() && record.returned != 0)
        {
            return Ok(self.loads(record));
        }
        let stream = self.objects.stream(record.stream, record.meant_at());
        Ok(match (class, record.payload()) {
            (Class::Launch, Payload::Launch(launch)) => self.launch(record, launch, &stream),
            (Class::HostFunction, _) => {
                let (function, base) = (self.host_function(record.entered), record.entry_point.info().base());
                let flags = if base == "cuStreamAddCallback" { ", 0" } else { "" };
                format!("{base}({stream}, {function}, nullptr{flags})")
            }
            (Class::GraphLaunch, Payload::Graph(handle)) => {
                format!("cuGraphLaunch({}, {stream})", self.graph(record, handle)?)
            }
            (_, Payload::Wait(wait)) => {
                let (bits, word) = (if wait.wide { 64 } else { 32 }, self.waited(record, wait));
                format!("cuStreamWaitValue{bits}({stream}, {word}, {:#x}u, {})", wait.value, wait.flags)
            }
            (_, Payload::Write(write)) => {
                let (bits, word) = (if write.wide { 64 } else { 32 }, self.objects.word(write.address));
                format!("cuStreamWriteValue{bits}({stream}, {word}, {:#x}u, 0)", write.value)
            }
            (Class::StreamWaitEvent | Class::EventRecord | Class::EventSynchronize, Payload::Event(event)) => {
                self.about_event(record, event, &stream)
            }
            (Class::EventQuery, Payload::Queries { event, .. } | Payload::Event(event)) => {
                polls(&format!("cuEventQuery({})", self.objects.event(event, record.context.into())))
            }
            (Class::StreamQuery, _) => polls(&format!("cuStreamQuery({stream})")),
            (Class::StreamSynchronize, _) => format!("cuStreamSynchronize({stream})"),
            (Class::StreamDestroy, _) => format!("cuStreamDestroy({stream})"),
            (Class::ContextSynchronize, _) => "cuCtxSynchronize()".to_owned(),
            (Class::ModuleLoad, _) => {
                let made = self.objects.other("module", "CUmodule {};");
                format!("cuModuleLoadData(&{made}, code({{\"other\"}}, 0).c_str())")
            }
            (Class::AllocateAsync | Class::FreeAsync, _) => {
                return Err("a recording does not have the state of a memory pool".to_owned());
            }
            (Class::GraphInstantiate, _) if record.sets_aside() => {
                let kernel = self.objects.kernel(record.function, record.context.into(), record.meant_at(), true);
                let ready = self.objects.graph("CUgraphExec {};");
                format!("Graph().launches({kernel}, already).instantiate(&{ready})")
            }
            (_, payload) => return self.of_memory(record, payload, &stream),
        })
    }

    pub fn asks_for(&mut self, busy: &BusyStream, at: Nanos) -> String {
        polls(&format!("cuStreamQuery({})", self.objects.stream(busy.stream.number, at)))
    }

    /// A call that loads a kernel or a library on its first use, and is no launch.
    fn loads(&mut self, record: &Record) -> String {
        if record.kind == Kind::ColdModule {
            let made = self.objects.other("module", "CUmodule {};");
            return format!("cuLibraryGetModule(&{made}, {})", Objects::library(record.owner().unwrap_or(0)));
        }
        let kernel = self.objects.kernel(record.function, record.context.into(), record.meant_at(), false);
        let made = self.objects.other("function", "CUfunction {};");
        format!("cuKernelGetFunction(&{made}, reinterpret_cast<CUkernel>({kernel}))")
    }

    fn launch(&mut self, record: &Record, launch: Launch, stream: &str) -> String {
        let grows = record.kind == Kind::Call && record.returned == 0 && self.has(Code::LG204);
        let kernel = self.objects.kernel(record.function, record.context.into(), record.meant_at(), grows);
        let spins = self.stand.remove(&record.stream) || self.culprits.contains(&record.entered);
        let flag = if spins { "never" } else { "already" };
        let at_once = if record.at_once() { ", true" } else { "" };
        let blocks = launch.blocks().min(i32::MAX as u64);
        format!("launch({kernel}, {blocks}, {}, {stream}, {flag}{at_once})", launch.threads())
    }

    /// The word of a wait. The value that it begins with does not end a wait that lasts.
    fn waited(&mut self, record: &Record, wait: ValueWait) -> String {
        let word = self.objects.word(wait.address);
        if self.culprits.contains(&record.entered) && wait.satisfied_by(0) {
            let begins = if wait.condition() == Condition::Nor { -1 } else { wait.value.wrapping_sub(1) as i64 };
            self.objects.once(&format!("set({word}, {begins}, {});", if wait.wide { 8 } else { 4 }));
        }
        word
    }

    fn about_event(&mut self, record: &Record, event: u64, stream: &str) -> String {
        let event = self.objects.event(event, record.context.into());
        let context = self.objects.context(record.context.into());
        match (record.entry_point.class(), record.entry_point.info().base().starts_with("cuCtx")) {
            (Class::StreamWaitEvent, true) => format!("cuCtxWaitEvent({context}, {event})"),
            (Class::StreamWaitEvent, false) => format!("cuStreamWaitEvent({stream}, {event}, 0)"),
            (Class::EventRecord, true) => format!("cuCtxRecordEvent({context}, {event})"),
            (Class::EventRecord, false) => format!("cuEventRecord({event}, {stream})"),
            _ => format!("cuEventSynchronize({event})"),
        }
    }

    /// A call that is about no stream's order: it takes memory, copies it, fills it, or waits for a whole context.
    fn of_memory(&mut self, record: &Record, payload: Payload, stream: &str) -> Statement {
        let bytes = if let Payload::Memory { bytes, .. } = payload { bytes.max(1) } else { 1 };
        self.stand.extend(self.culprits.contains(&record.entered).then_some(record.stream));
        let base = record.entry_point.info().base();
        let is_asynchronous = base.ends_with("Async");
        // A call that returns at once though its stream is busy has pinned memory.
        let host = if is_asynchronous && record.returned != 0 { "pinned" } else { "pageable" };
        let on = if is_asynchronous { format!(", {stream}") } else { String::new() };
        Ok(match base.trim_end_matches("Async") {
            // A call that does not return has memory of the host.
            "cuMemcpy" if record.returned == 0 => {
                format!("{base}((CUdeviceptr) {}, {}, {bytes}{on})", self.host(host, bytes), self.at("from", bytes))
            }
            "cuMemcpy" | "cuMemcpyDtoD" => {
                format!("{base}({}, {}, {bytes}{on})", self.at("to", bytes), self.at("from", bytes))
            }
            "cuMemcpyPeer" => {
                let (to, from, context) =
                    (self.at("to", bytes), self.at("from", bytes), self.objects.context(record.context.into()));
                // The other context is not recorded.
                format!("{base}({to}, context[0], {from}, {context}, {bytes}{on})")
            }
            "cuMemcpyHtoD" => format!("{base}({}, {}, {bytes}{on})", self.at("to", bytes), self.host(host, bytes)),
            "cuMemcpyDtoH" => format!("{base}({}, {}, {bytes}{on})", self.host(host, bytes), self.at("from", bytes)),
            name if name.starts_with("cuMemsetD") && !name.contains("2D") => {
                let each = name.trim_start_matches("cuMemsetD").parse().map_or(1, |bits: u64| bits / 8);
                format!("{base}({}, 0, {}{on})", self.at("to", bytes), bytes / each)
            }
            "cuMemAlloc" => self.makes("CUdeviceptr", base, &format!("{bytes}")),
            "cuMemAllocHost" => self.makes("void*", base, &format!("{bytes}")),
            "cuMemHostAlloc" => self.makes("void*", base, &format!("{bytes}, 0")),
            "cuEventCreate" => self.makes("CUevent", base, "CU_EVENT_DISABLE_TIMING"),
            "cuStreamCreate" => self.makes("CUstream", base, "CU_STREAM_NON_BLOCKING"),
            "cuStreamCreateWithPriority" => self.makes("CUstream", base, "CU_STREAM_NON_BLOCKING, 0"),
            "cuMemFree" => format!("cuMemFree({})", self.at("freed", bytes)),
            "cuMemFreeHost" => format!("cuMemFreeHost({})", self.host("pinned", bytes)),
            "cuMemHostUnregister" => {
                let registered = self.host("registered", 4096);
                self.objects.once(&format!("CK(cuMemHostRegister({registered}, 4096, 0));"));
                format!("cuMemHostUnregister({registered})")
            }
            "cuModuleUnload" => {
                let unloaded = self.objects.other("module", "const CUmodule {} = module({\"other\"});");
                format!("cuModuleUnload({unloaded})")
            }
            "cuLibraryUnload" => {
                self.objects.libraries.entry(0).or_insert(true);
                format!("cuLibraryUnload({})", Objects::library(0))
            }
            "cuCtxSetLimit" => "cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 32768)".to_owned(),
            "cuCtxSetFlags" => "cuCtxSetFlags(CU_CTX_SYNC_MEMOPS)".to_owned(),
            "cuDevicePrimaryCtxRelease" | "cuDevicePrimaryCtxReset" => format!("{base}(device)"),
            "cuCtxDestroy" => format!("cuCtxDestroy({})", self.objects.context(u32::MAX)),
            _ => return Err(format!("there is no statement for {}", record.entry_point.symbol())),
        })
    }

    fn makes(&mut self, of: &str, call: &str, arguments: &str) -> String {
        let made = self.objects.other("made", &format!("{of} {{}};"));
        format!("{call}(&{made}, {arguments})")
    }

    /// Device memory by its use. Calls of one use and size have the same.
    fn at(&mut self, used: &str, bytes: u64) -> String {
        self.objects.once(&format!("const CUdeviceptr {used}_{bytes} = memory({bytes});"));
        format!("{used}_{bytes}")
    }

    fn host(&mut self, kind: &str, bytes: u64) -> String {
        let name = format!("{kind}_{bytes}");
        self.objects.once(&match kind {
            "pinned" => format!("void* {name};\nCK(cuMemHostAlloc(&{name}, {bytes}, 0));"),
            _ => format!("void* const {name} = aligned_alloc(4096, {});", bytes.next_multiple_of(4096)),
        });
        name
    }

    fn host_function(&self, submitted: Nanos) -> &'static str {
        ["returns", "waits_for_ever"][usize::from(self.host_functions.contains(&submitted))]
    }

    fn has(&self, code: Code) -> bool {
        self.verdicts.iter().any(|verdict| verdict.code == code)
    }

    /// The graph of a launch, with its nodes one after the other.
    fn graph(&mut self, record: &Record, handle: u64) -> Statement {
        let contents = self.opened.recording.strings().graphs.newest(handle, record.entered);
        let contents: &GraphContents =
            contents.filter(|all| all.unseen == 0).ok_or("the content of a graph is not known")?;
        let mut nodes = String::new();
        for part in &contents.parts {
            nodes.push_str(&self.node(record, part)?.repeat(part.count.min(4) as usize));
        }
        Ok(self.objects.graph(&format!("const CUgraphExec {{}} = Graph(){nodes}.ready();")))
    }

    fn node(&mut self, record: &Record, part: &GraphPart) -> Statement {
        let other_culprit = self.has(Code::LG207) || self.has(Code::LG203);
        let spins = self.culprits.contains(&record.entered) && !other_culprit;
        let operation = |calls: &mut Self, kind: &str| {
            let bits = if part.wide { 64 } else { 32 };
            let GraphPart { what: address, value, condition, wide, .. } = *part;
            let wait = ValueWait { at: record.entered, address, value, flags: condition.into(), wide };
            let word = if kind == "WAIT" { calls.waited(record, wait) } else { calls.objects.word(address) };
            format!(".memory_operation(CU_STREAM_MEM_OP_{kind}_VALUE_{bits}, {word}, {value:#x}u, {condition})")
        };
        Ok(match part.kind {
            NodeKind::Kernel => {
                let kernel = self.objects.kernel(part.what as u32, record.context.into(), record.meant_at(), false);
                format!(".launches({kernel}, {})", if spins { "never" } else { "already" })
            }
            NodeKind::HostFunction => format!(".calls({})", self.host_function(record.entered)),
            NodeKind::ValueWait => operation(self, "WAIT"),
            NodeKind::ValueWrite => operation(self, "WRITE"),
            NodeKind::EventWait => {
                format!(".add(cuGraphAddEventWaitNode, {})", self.objects.event(part.what, record.context.into()))
            }
            NodeKind::EventRecord => {
                format!(".add(cuGraphAddEventRecordNode, {})", self.objects.event(part.what, record.context.into()))
            }
            NodeKind::ChildGraph | NodeKind::MemoryOperations => String::new(),
            NodeKind::Empty | NodeKind::Copy | NodeKind::Fill => ".add(cuGraphAddEmptyNode)".to_owned(),
            _ => return Err("there is no statement for one of its graph's nodes".to_owned()),
        })
    }
}

fn polls(query: &str) -> String {
    format!("[&] {{ CUresult is; while ((is = {query}) == CUDA_ERROR_NOT_READY) nap(1); return is; }}()")
}
