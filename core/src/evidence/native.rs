//! The library by which a thread talks to other processes of its job, from the native frames of its wait: the job's store, gloo, MPI, UCX, NVSHMEM.
//!
//! The kernel gives the stack and the code of a thread that sleeps in a system call; the tables in the files of code lead on from there. No thread is stopped.
//!
//! Must not: be asked at [`Depth::Kernel`](super::Depth), as all lies in memory; or name a frame that the tables do not lead to.

use super::source::Source;
use crate::demangle::demangle;
use crate::stack::{mappings, modules, walk_from, Image, Module, Registers, MOST_FRAMES};

/// A wait inside of such a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Native {
    pub library: Library,
    /// The outermost of its functions, without arguments and scopes.
    pub function: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    /// The store of a job of PyTorch.
    Store,
    /// By which ranks exchange data on the host.
    Ranks(&'static str),
}

/// Begins of the names of files of code. Those of PyTorch's own have more than that in them.
const FILES: [(&str, &str); 10] = [
    ("libmpi", "MPI"),
    ("libopen-pal", "MPI"),
    ("libpmix", "PMIx"),
    ("libucp", "UCX"),
    ("libucs", "UCX"),
    ("libuct", "UCX"),
    ("libnvshmem", "NVSHMEM"),
    ("libgloo", "gloo"),
    (TORCH, ""),
    ("libc10", ""),
];
const TORCH: &str = "libtorch";

/// Parts of the names of functions of PyTorch.
const FUNCTIONS: [(&str, Library); 7] = [
    ("c10d::TCPStore::", Library::Store),
    ("c10d::PrefixStore::", Library::Store),
    ("c10d::FileStore::", Library::Store),
    ("c10d::ProcessGroupGloo", Library::Ranks("gloo")),
    ("gloo::", Library::Ranks("gloo")),
    ("c10d::ProcessGroupMPI", Library::Ranks("MPI")),
    ("c10d::ProcessGroupUCC", Library::Ranks("UCC")),
];

/// A process's files of code, read once for all of its threads.
pub(super) struct Code<'a> {
    source: &'a Source,
    process: u32,
    maps: String,
    modules: Vec<Module>,
    images: Vec<Option<Image>>,
}

impl<'a> Code<'a> {
    /// `None` where the process has none of these libraries.
    pub fn of(source: &'a Source, process: u32) -> Option<Self> {
        let maps = source.text(&format!("proc/{process}/maps"))?;
        let modules = modules(&maps);
        modules.iter().any(|module| file(module).is_some()).then_some(())?;
        let memory = source.memory(process)?;
        let images = modules.iter().map(|module| Image::read(&memory, module.base)).collect();
        Some(Self { source, process, maps, modules, images })
    }

    /// The outermost frame of such a library, of a thread that sleeps with this stack pointer and program counter.
    pub fn native(&self, (stack, address): (u64, u64)) -> Option<Native> {
        let memory = self.source.memory(self.process)?;
        let end = mappings(&self.maps).find(|one| (one.begin..one.end).contains(&stack))?.end;
        let begin = Registers::of_thread(self.source.machine, address, stack, []);
        let image = |number: usize| self.images.get(number)?.as_ref();
        let frames = walk_from(&memory, &self.modules, &image, begin, end, MOST_FRAMES).frames;
        frames.iter().rev().find_map(|frame| {
            let number = self.modules.iter().position(|module| module.has_code_at(frame.call()))?;
            let name = file(&self.modules[number])?;
            let function = image(number)?.function_at(&memory, frame.call()).map(|name| demangle(&name));
            of_function(name, function.as_deref())
        })
    }
}

fn file(module: &Module) -> Option<&'static str> {
    FILES.iter().find(|(begin, _)| module.name().starts_with(begin)).map(|(_, name)| *name)
}

fn of_function(file: &'static str, function: Option<&str>) -> Option<Native> {
    let known = function.and_then(|function| FUNCTIONS.iter().find(|(part, _)| function.contains(part)));
    let library = match (known, file) {
        (Some((_, library)), _) => *library,
        // PyTorch's other functions wait for anything.
        (None, "") => return None,
        (None, name) => Library::Ranks(name),
    };
    let bare = |function: &str| {
        let scopes = function.split(['(', '<', '[', ' ']).next().unwrap_or_default();
        scopes.rsplit("::").next().unwrap_or_default().to_owned()
    };
    Some(Native { library, function: function.map(bare).filter(|name| !name.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_tells_the_library_of_pytorch_and_a_file_every_other_one() {
        let of = |file, function| of_function(file, function).map(|native| (native.library, native.function));
        let store = "c10d::TCPStore::get(std::__cxx11::basic_string<char> const&)";
        assert_eq!(of("", Some(store)), Some((Library::Store, Some("get".to_owned()))));
        let gloo = "gloo::transport::tcp::UnboundBuffer::waitRecv(int*, std::chrono::duration<long>)";
        assert_eq!(of("", Some(gloo)), Some((Library::Ranks("gloo"), Some("waitRecv".to_owned()))));
        assert_eq!(of("", Some("at::native::add(at::Tensor const&)")), None);
        assert_eq!(of("", None), None);
        assert_eq!(of("MPI", Some("MPI_Recv")), Some((Library::Ranks("MPI"), Some("MPI_Recv".to_owned()))));
        assert_eq!(of("UCX", None), Some((Library::Ranks("UCX"), None)));
    }
}
