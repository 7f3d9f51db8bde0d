//! The objects that a reproducer's statements use, and the lines that make them. An object is made where it is first asked for its name.

use lazyguard_core::api::StreamKind;
use lazyguard_core::trace::read::{FunctionSeen, StringTable};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

#[derive(Default)]
pub(super) struct Objects<'a> {
    texts: Option<&'a StringTable>,
    /// The first context, which the program begins in.
    pub contexts: Vec<u32>,
    /// Each stream's context and the flags of its making, by its number.
    streams: BTreeMap<u32, (u32, &'static str)>,
    /// Each event's handle, and the context of its first call.
    events: Vec<(u64, u32)>,
    /// Addresses of words, in lots of eight bytes.
    words: Vec<u64>,
    kernels: Vec<Kernel>,
    /// Libraries by the handles that they had, and whether one is in the context at the beginning.
    pub libraries: BTreeMap<u64, bool>,
    /// Kernels that are cold at the beginning.
    pub cold: BTreeSet<u32>,
    /// Lines that make other things, after the kernels.
    others: String,
    others_count: usize,
    pub has_graph: bool,
}

struct Kernel {
    number: u32,
    name: String,
    owner: u64,
    context: u32,
    local: bool,
}

/// More local memory a thread than a context has at first.
const LOCAL_BYTES: &str = "32768";

impl<'a> Objects<'a> {
    pub fn new(texts: &'a StringTable) -> Self {
        Self { texts: Some(texts), ..Self::default() }
    }

    /// A context by its number; 0 is none, and then any will do.
    pub fn context(&mut self, number: u32) -> String {
        format!("context[{}]", if number == 0 { 0 } else { place(&mut self.contexts, number) })
    }

    /// The program's stream of a number, as a call knew it that was made then.
    pub fn stream(&mut self, number: u32, at: Nanos) -> String {
        let newest = self.texts.and_then(|texts| texts.streams.newest(number, at));
        let Some(stream) = newest else { return "nullptr".to_owned() };
        let flags = match stream.kind {
            StreamKind::Legacy => return "CU_STREAM_LEGACY".to_owned(),
            StreamKind::PerThread => return "CU_STREAM_PER_THREAD".to_owned(),
            StreamKind::NonBlocking => "CU_STREAM_NON_BLOCKING",
            _ => "CU_STREAM_DEFAULT",
        };
        place(&mut self.contexts, stream.context);
        self.streams.insert(number, (stream.context, flags));
        format!("stream[{number}]")
    }

    pub fn event(&mut self, handle: u64, context: u32) -> String {
        let at = self.events.iter().position(|(known, _)| *known == handle).unwrap_or_else(|| {
            self.events.push((handle, context));
            self.events.len() - 1
        });
        format!("event[{at}]")
    }

    pub fn word(&mut self, address: u64) -> String {
        format!("words + {}", 8 * place(&mut self.words, address >> 3) as u64 + (address & 7))
    }

    /// A kernel by the number of its function. `local` is whether it needs more local memory than there is.
    pub fn kernel(&mut self, number: u32, context: u32, at: Nanos, local: bool) -> String {
        place(&mut self.contexts, context);
        let at = self.kernels.iter_mut().position(|kernel| kernel.number == number).unwrap_or_else(|| {
            let function = self.texts.and_then(|texts| texts.function(number, at));
            let name = function.and_then(|function: FunctionSeen<'_>| function.name).unwrap_or("kernel");
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '$', "_");
            let owner = function.map_or(0, |function| function.owner);
            self.kernels.push(Kernel { number, name, owner, context, local: false });
            self.kernels.len() - 1
        });
        self.kernels[at].local |= local;
        format!("kernel_{at}")
    }

    /// A thing of its own; `make` is the line that makes it, with `{}` for its name.
    pub fn other(&mut self, name: &str, make: &str) -> String {
        self.others_count += 1;
        let name = format!("{name}_{}", self.others_count);
        let _ = writeln!(self.others, "{}", make.replace("{}", &name));
        name
    }

    /// Writes lines that several statements need.
    pub fn once(&mut self, lines: &str) {
        if !self.others.contains(lines) {
            let _ = writeln!(self.others, "{lines}");
        }
    }

    pub fn graph(&mut self, make: &str) -> String {
        self.has_graph = true;
        self.other("graph", make)
    }

    pub fn library(owner: u64) -> String {
        format!("library_{owner:x}")
    }

    pub fn text(&self) -> String {
        let mut text = "CUdevice device;\nCK(cuInit(0));\nCK(cuDeviceGet(&device, 0));\n".to_owned();
        let _ = writeln!(text, "CUcontext context[{}];", self.contexts.len().max(1));
        text += "CK(cuDevicePrimaryCtxRetain(&context[0], device));\n";
        for at in 1..self.contexts.len() {
            let _ = writeln!(text, "CK(make_context(&context[{at}], device));");
        }
        let memory = if self.contexts.len() > 1 { "memory_of_all" } else { "memory" };
        text += &format!("CK(cuCtxSetCurrent(context[0]));\n[[maybe_unused]] const CUdeviceptr never = {memory}(8), already = {memory}(8);\nCK(cuMemsetD32(already, 1, 1));\n");
        if !self.words.is_empty() {
            let _ = writeln!(text, "const CUdeviceptr words = {memory}({});", 8 * self.words.len());
        }
        let streams = self.streams.iter().map(|(number, key)| (*number, *key));
        self.make_all(&mut text, "CUstream stream", "cuStreamCreate(&stream[n]", streams.collect());
        let events = (0..).zip(&self.events).map(|(at, (_, context))| (at, (*context, "CU_EVENT_DISABLE_TIMING")));
        self.make_all(&mut text, "CUevent event", "cuEventCreate(&event[n]", events.collect());
        self.kernels(&mut text);
        self.enter(0, &mut text);
        text + &self.others + "CK(cuCtxSynchronize());\n"
    }

    /// Writes the statement that makes this context current, or the first, where the program has several.
    fn enter(&self, context: u32, text: &mut String) {
        if self.contexts.len() > 1 {
            let at = self.contexts.iter().position(|known| *known == context).unwrap_or(0);
            let _ = writeln!(text, "CK(cuCtxSetCurrent(context[{at}]));");
        }
    }

    /// Writes what makes all of a kind, each with its number, context and flags.
    fn make_all(&self, text: &mut String, array: &str, make: &str, mut all: Vec<(u32, (u32, &str))>) {
        let Some((last, _)) = all.last() else { return };
        let _ = writeln!(text, "{array}[{}];", last + 1);
        all.sort_by_key(|(_, key)| *key);
        for group in all.chunk_by(|a, b| a.1 == b.1) {
            let (context, flags) = group[0].1;
            self.enter(context, text);
            let numbers = group.iter().map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "for (const int n : {{{numbers}}}) CK({make}, {flags}));");
        }
    }

    fn kernels(&self, text: &mut String) {
        let of_kernels = self.kernels.iter().map(|kernel| (kernel.context, kernel.owner, kernel.local));
        let unused = self.libraries.keys().filter(|owner| self.kernels.iter().all(|kernel| kernel.owner != **owner));
        let owners: BTreeSet<_> = of_kernels.chain(unused.map(|owner| (0, *owner, false))).collect();
        for key in owners {
            let (context, owner, local) = key;
            self.enter(context, text);
            let of = self.kernels.iter().enumerate();
            let of = of.filter(|(_, kernel)| (kernel.context, kernel.owner, kernel.local) == key);
            let names: BTreeSet<_> = of.clone().map(|(_, kernel)| format!("\"{}\"", kernel.name)).collect();
            let names = if names.is_empty() { "\"other\"".to_owned() } else { Vec::from_iter(names).join(", ") };
            let in_context = self.libraries.get(&owner).filter(|_| !local);
            let (made, make) = match in_context {
                Some(in_context) => (Self::library(owner), format!("library({{{names}}}, {in_context})")),
                None if local => (format!("module_{owner:x}_local"), format!("module({{{names}}}, {LOCAL_BYTES})")),
                None => (format!("module_{owner:x}"), format!("module({{{names}}}, 0)")),
            };
            let kind = if in_context.is_some() { "CUlibrary" } else { "CUmodule" };
            let _ = writeln!(text, "const {kind} {made} = {make};");
            // A library none of whose kernels is loaded is unloaded at once.
            if in_context == Some(&true) && of.clone().next().is_none() {
                let _ = writeln!(text, "kernel({made}, {names}, true);");
            }
            for (at, Kernel { number, name, .. }) in of {
                let make = match in_context {
                    Some(in_context) => {
                        format!("kernel({made}, \"{name}\", {})", *in_context && !self.cold.contains(number))
                    }
                    None => format!("function({made}, \"{name}\")"),
                };
                let _ = writeln!(text, "const CUfunction kernel_{at} = {make};");
            }
        }
    }
}

fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}
