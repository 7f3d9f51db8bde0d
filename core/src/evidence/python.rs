//! The Python frames of a process, and what they say of a wait: that it computes, collects, compiles, ends, or waits for other ranks.
//!
//! Must not: be asked at [`Depth::Kernel`](super::Depth): all lies in memory.

use super::source::Source;
use super::Class;
use crate::stack::{modules, Image, Python, PythonFrame};

pub(super) fn read(source: &Source, process: u32) -> Option<Python> {
    let memory = source.memory(process)?;
    let maps = source.text(&format!("proc/{process}/maps"))?;
    // The interpreter is the program, or a library of this name.
    let all = modules(&maps);
    let may_have_it =
        all.iter().enumerate().filter(|(number, module)| *number == 0 || module.name().contains("python"));
    let images: Vec<Image> = may_have_it.filter_map(|(_, module)| Image::read(&memory, module.base)).collect();
    Python::of(&memory, images.iter(), source.numbers(&format!("proc/{process}/task")))
}

/// The innermost frame of the program's own code, else the innermost of all.
pub(super) fn own(frames: &[PythonFrame]) -> Option<&PythonFrame> {
    frames.iter().find(|frame| frame.is_of_the_program()).or(frames.first())
}

/// `train.py:31 in main`, of the program's own code.
pub(super) fn place(frames: &[PythonFrame]) -> Option<String> {
    own(frames).filter(|frame| frame.is_of_the_program()).map(|frame| match frame.function.as_str() {
        "<module>" => frame.place(),
        function => format!("{} in {function}", frame.place()),
    })
}

/// A class that the frames name whatever the kernel says of the thread, and its words.
pub(super) fn class(frames: &[PythonFrame], collects: bool) -> Option<(Class, String)> {
    let is_in = |frame: &&PythonFrame, file: &str, functions: &[&str]| {
        frame.file.ends_with(file) && (functions.is_empty() || functions.contains(&frame.function.as_str()))
    };
    let deletes = frames.iter().find(|frame| frame.function.ends_with("__del__"));
    if let Some(frame) = deletes {
        let of = frame.function.strip_suffix(".__del__").map(|class| format!(" of {class}")).unwrap_or_default();
        let collection = if collects { "runs a garbage collection, in" } else { "is in" };
        return Some((Class::Collects, format!("{collection} `__del__`{of} ({})", frame.place())));
    }
    if collects {
        return Some((Class::Collects, "runs a garbage collection".to_owned()));
    }
    const ENDS: &[(&str, &[&str])] = &[
        ("torch/distributed/distributed_c10d.py", &["destroy_process_group", "_shutdown_backend"]),
        ("/threading.py", &["_shutdown"]),
        ("multiprocessing/util.py", &["_exit_function"]),
        ("concurrent/futures/thread.py", &["_python_exit"]),
        ("concurrent/futures/process.py", &["_python_exit"]),
    ];
    let ends = |frame: &&PythonFrame| ENDS.iter().any(|(file, functions)| is_in(frame, file, functions));
    if let Some(frame) = frames.iter().rev().find(ends) {
        return Some((Class::Ends, format!("has left its loop and is in {}", frame.function)));
    }
    None
}

/// The compiler that the frames are in.
pub(super) fn compiler(frames: &[PythonFrame]) -> Option<&'static str> {
    const COMPILERS: [(&str, &str); 6] = [
        ("/triton/compiler/", "Triton"),
        ("/torch/_inductor/", "Inductor"),
        ("/torch/_dynamo/", "Dynamo"),
        ("torch/utils/cpp_extension.py", "an extension of PyTorch"),
        ("/numba/core/", "Numba"),
        ("cupy/cuda/compiler.py", "NVRTC"),
    ];
    // Compiled code runs below frames of Dynamo: only the frames inside of the program's innermost one count.
    let inner = frames.iter().take_while(|frame| !frame.is_of_the_program());
    let found = inner.filter(|frame| !frame.function.contains("_fn") && !frame.function.starts_with("run"));
    found
        .into_iter()
        .find_map(|frame| COMPILERS.iter().find(|(part, _)| frame.file.contains(part)).map(|(_, name)| *name))
}

/// The function of `torch.distributed` that waits for other ranks on the host.
pub(super) fn collective(frames: &[PythonFrame]) -> Option<&str> {
    let is_it = |frame: &&PythonFrame| frame.file.ends_with("torch/distributed/distributed_c10d.py");
    frames.iter().take_while(|frame| !frame.is_of_the_program()).find(is_it).map(|frame| frame.function.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(all: &[(&str, &str)]) -> Vec<PythonFrame> {
        let one = |(file, function): &(&str, &str)| PythonFrame {
            file: (*file).to_owned(),
            line: 31,
            function: (*function).to_owned(),
        };
        all.iter().map(one).collect()
    }

    const C10D: &str = "/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py";

    #[test]
    fn frames_name_a_collection_and_an_end() {
        let deletes = frames(&[("/srv/cache.py", "Cache.__del__"), ("/srv/train.py", "main")]);
        let in_words = |frames: &[PythonFrame], collects| {
            class(frames, collects).map(|(class, words)| format!("{class}: {words}"))
        };
        let of_cache = "collects: runs a garbage collection, in `__del__` of Cache (cache.py:31)";
        assert_eq!(in_words(&deletes, true).as_deref(), Some(of_cache));
        assert_eq!(in_words(&deletes, false).as_deref(), Some("collects: is in `__del__` of Cache (cache.py:31)"));
        let ends = frames(&[(C10D, "_shutdown_backend"), (C10D, "destroy_process_group"), ("/srv/train.py", "main")]);
        let left = "ends: has left its loop and is in destroy_process_group";
        assert_eq!(in_words(&ends, false).as_deref(), Some(left));
        let exits = frames(&[("/usr/lib/python3.12/threading.py", "_shutdown")]);
        assert_eq!(in_words(&exits, false).as_deref(), Some("ends: has left its loop and is in _shutdown"));
        assert_eq!(in_words(&frames(&[("/srv/train.py", "_shutdown")]), false), None, "it is the program's own");
    }

    #[test]
    fn frames_name_a_compiler_and_a_collective_inside_of_the_programs_own() {
        let inside = |file| frames(&[(file, "compile"), ("/srv/train.py", "main")]);
        assert_eq!(compiler(&inside("/lib/python3/site-packages/triton/compiler/compiler.py")), Some("Triton"));
        assert_eq!(
            compiler(&frames(&[
                ("/srv/model.py", "forward"),
                ("/x/site-packages/torch/_dynamo/eval_frame.py", "compile")
            ])),
            None
        );
        assert_eq!(collective(&frames(&[(C10D, "barrier"), ("/srv/train.py", "main")])), Some("barrier"));
        assert_eq!(collective(&frames(&[("/srv/train.py", "main")])), None);
        assert_eq!(place(&inside(C10D)).as_deref(), Some("train.py:31 in main"));
        assert_eq!(place(&frames(&[("/srv/train.py", "<module>")])).as_deref(), Some("train.py:31"));
        assert_eq!(place(&[]), None);
    }
}
