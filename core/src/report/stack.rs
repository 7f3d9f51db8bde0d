//! The stack of a blocked thread, as a report has it.

use crate::api::counted;
use crate::demangle::demangle;
use serde::{Deserialize, Serialize};

/// Frames shown of one stack; the JSON form has them all.
const MOST_FRAMES: usize = 12;

/// Files of the C and C++ runtime, the dynamic linker, CUDA and this library.
const SYSTEM: [&str; 8] =
    ["libc.so", "libc-", "libpthread", "libstdc++.so", "libgcc_s", "ld-linux", "libm.so", "liblazyguard"];
const CUDA: [&str; 12] = [
    "libcuda.so",
    "libcudart",
    "libnvidia-",
    "libnccl.so",
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcutensor",
    "libnvrtc",
];
/// Prefixes of functions in the program's own file: of the runtime, and of those that nvcc makes to launch kernels.
const FUNCTIONS: [&str; 2] = ["libcudart_static_", "__device_stub__"];
/// The interpreter, and what its `ctypes` calls through.
const INTERPRETER: [&str; 4] = ["libpython", "python3", "_ctypes.", "libffi.so"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Program,
    Cuda,
    System,
    Interpreter,
}

impl Owner {
    fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Cuda => "CUDA libraries",
            Self::System => "system libraries",
            Self::Interpreter => "Python interpreter",
        }
    }
}

/// The stack of a blocked thread, from the driver's caller outwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSeen {
    /// The thread's id.
    pub thread: u32,
    /// The innermost first.
    pub frames: Vec<FrameSeen>,
    /// Remarks on the frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Inlined functions share an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSeen {
    /// Its return address.
    pub address: u64,
    /// The file's name, or empty.
    pub module: String,
    /// The address in that file, for `addr2line`.
    pub offset: u64,
    /// The function's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether it was inlined into the next frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl StackSeen {
    /// Python's frames alone: Python's own stacks say more.
    pub fn is_of_python_alone(&self) -> bool {
        let any = |owner| self.frames.iter().any(|frame| frame.owner() == owner);
        any(Owner::Interpreter) && !any(Owner::Program)
    }

    /// The program's frames and the notes. Other frames are only counted, beside those of the program.
    pub fn lines(&self) -> Vec<String> {
        let owners: Vec<_> = self.frames.iter().map(FrameSeen::owner).collect();
        let has_own = owners.contains(&Owner::Program);
        let mut lines = Vec::new();
        let (mut shown, mut at) = (0, 0);
        while let (Some(frame), Some(&owner)) = (self.frames.get(at), owners.get(at)) {
            let same = owners[at..].iter().take_while(|other| **other == owner).count();
            let rest = self.frames.len() - at;
            if has_own && owner != Owner::Program {
                lines.push(format!("    ({} of the {})", counted(same as u64, "frame"), owner.name()));
                at += same;
            } else if shown == MOST_FRAMES && rest > 1 {
                lines.push(format!("    and {}", counted(rest as u64, "more frame")));
                break;
            } else {
                lines.push(format!("    at {}", frame.text()));
                (shown, at) = (shown + 1, at + 1);
            }
        }
        lines.extend(self.notes.iter().map(|note| format!("    ({note})")));
        lines
    }
}

impl FrameSeen {
    fn owner(&self) -> Owner {
        let starts = |names: &[&str]| names.iter().any(|name| self.module.starts_with(name));
        let function = self.function.as_deref().map(demangle).unwrap_or_default();
        let last = function.rsplit("::").next().unwrap_or_default();
        let rest = last.trim_start_matches('_').strip_prefix("cuda");
        let of_runtime = rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            || FUNCTIONS.iter().any(|begin| last.starts_with(begin));
        match () {
            () if starts(&INTERPRETER) => Owner::Interpreter,
            () if starts(&SYSTEM) || matches!(last, "_start" | "clone" | "clone3") => Owner::System,
            // The runtime may be linked into the program's own file.
            () if starts(&CUDA) || of_runtime || function.starts_with("cudart::") => Owner::Cuda,
            () => Owner::Program,
        }
    }

    pub fn is_of_nccl(&self) -> bool {
        self.module.starts_with("libnccl.so")
    }

    /// A library of PyTorch, which Python calls.
    fn is_of_torch(&self) -> bool {
        ["libtorch", "libc10"].iter().any(|name| self.module.starts_with(name))
    }

    pub fn is_of_python(&self) -> bool {
        ["libpython", "python3"].iter().any(|name| self.module.starts_with(name))
    }

    /// The program's line in a process with an interpreter: of a module that is not installed with debug information, as a library is.
    pub fn is_own_beside_python(&self) -> bool {
        self.is_of_the_program() && self.line.is_some() && !self.is_of_torch()
    }

    pub fn is_of_the_program(&self) -> bool {
        self.owner() == Owner::Program && !self.module.is_empty()
    }

    /// The same, without the host's function that launches the kernel of its name.
    pub fn is_own(&self, kernels: &[String]) -> bool {
        let function = self.function.as_deref().map(demangle);
        self.is_of_the_program() && !function.is_some_and(|function| kernels.contains(&function))
    }

    /// The program's innermost one of a call's places, which are the innermost first. `is_linked` is whether a runtime is linked into its file.
    pub fn program_s<'a>(
        places: &[&'a Self],
        kernels: &[String],
        is_linked: impl FnOnce(&Self) -> bool,
    ) -> Option<&'a Self> {
        let mut own = places.iter().copied().filter(|place| place.is_own(kernels));
        let (own, outermost) = (own.next()?, own.next_back());
        // Without names, a runtime linked into the program looks as the program does, and so does nvcc's function of a kernel.
        let by_runtime = places[0] != own || is_linked(own);
        Some(outermost.filter(|_| own.function.is_none() && by_runtime).unwrap_or(own))
    }

    /// `main lazy_pair.cpp:15`, `main (lazy_pair)` or `lazy_pair+0x4509`.
    pub fn short(&self) -> String {
        let file = self.file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
        let line = file.zip(self.line).map(|(file, line)| format!("{file}:{line}"));
        match (self.function.as_deref().map(demangle), line) {
            (Some(function), Some(line)) => format!("{function} {line}"),
            (None, Some(line)) => line,
            (Some(function), None) => format!("{function} ({})", self.module),
            (None, None) => format!("{}+{:#x}", self.module, self.offset),
        }
    }

    pub fn text(&self) -> String {
        let place = if self.module.is_empty() {
            format!("{:#x}", self.address)
        } else {
            format!("{}+{:#x}", self.module, self.offset)
        };
        let line = match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file.clone()),
            _ => None,
        };
        let function = self.function.as_deref().map(demangle);
        match (function.into_iter().chain(line).reduce(|function, line| function + ", " + &line), self.inlined) {
            (None, _) => place,
            (Some(known), true) => format!("{known} (inlined)"),
            (Some(known), false) => format!("{known} ({place})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_is_known_of_it() {
        let bare =
            FrameSeen { address: 0x7f01, module: "libfoo.so".to_owned(), offset: 0x1234, ..FrameSeen::default() };
        let named = FrameSeen { function: Some("_Z2k1v".to_owned()), ..bare.clone() };
        let whole = FrameSeen { file: Some("k.cpp".to_owned()), line: Some(7), ..named.clone() };
        let inlined = FrameSeen { inlined: true, ..whole.clone() };
        let nowhere = FrameSeen { module: String::new(), ..bare.clone() };
        let notes = vec!["no more".to_owned()];
        let stack = StackSeen { thread: 1, frames: vec![bare, named, whole, inlined, nowhere], notes };
        assert_eq!(
            stack.lines(),
            [
                "    at libfoo.so+0x1234",
                "    at k1 (libfoo.so+0x1234)",
                "    at k1, k.cpp:7 (libfoo.so+0x1234)",
                "    at k1, k.cpp:7 (inlined)",
                "    at 0x7f01",
                "    (no more)",
            ]
        );
        let nameless = |count| StackSeen { frames: vec![stack.frames[0].clone(); count], ..StackSeen::default() };
        assert_eq!(nameless(13).lines().len(), 13);
        assert_eq!(nameless(40).lines().last().unwrap(), "    and 28 more frames");
        let short: Vec<_> = stack.frames[..3].iter().map(FrameSeen::short).collect();
        assert_eq!(short, ["libfoo.so+0x1234", "k1 (libfoo.so)", "k1 k.cpp:7"]);
        let text = serde_json::to_string(&stack).unwrap();
        assert!(text.contains(r#"{"address":32513,"module":"libfoo.so","offset":4660}"#), "{text}");
        assert_eq!(serde_json::from_str::<StackSeen>(&text).unwrap(), stack);
    }

    #[test]
    fn frames_that_are_not_the_programs_are_counted() {
        let frame = |module: &str, function: &str| FrameSeen {
            address: 1,
            module: module.to_owned(),
            function: (!function.is_empty()).then(|| function.to_owned()),
            ..FrameSeen::default()
        };
        let frames = vec![
            frame("libcudart.so.12", ""),
            frame("train", "cudaDeviceSynchronize"),
            frame("libtorch.so", "step"),
            frame("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),
            frame("python3.11", ""),
            frame("libc.so.6", "__libc_start_main"),
            frame("train", "_start"),
        ];
        let stack = StackSeen { thread: 1, frames, notes: Vec::new() };
        assert_eq!(
            stack.lines(),
            [
                "    (2 frames of the CUDA libraries)",
                "    at step (libtorch.so+0x0)",
                "    (2 frames of the Python interpreter)",
                "    (2 frames of the system libraries)",
            ]
        );
        let foreign = StackSeen { frames: vec![frame("libc.so.6", "clone3")], ..StackSeen::default() };
        assert_eq!(foreign.lines(), ["    at clone3 (libc.so.6+0x0)"], "what there is, where nothing is the program's");
    }
}
