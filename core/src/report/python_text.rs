//! Python's stacks for a reader: the main thread first, then the threads that are not idle; frames of the interpreter's own modules are folded.
//!
//! The interpreter writes a block a thread, the main thread last, each with its innermost frame first.

use crate::api::counted;

/// Modules in which a thread waits, or is started: their frames say nothing of the program.
const FOLDED: [&str; 9] = [
    "/threading.py\"",
    "/queue.py\"",
    "/selectors.py\"",
    "/multiprocessing/",
    "/concurrent/futures/",
    "/asyncio/",
    "/ctypes/",
    "/runpy.py\"",
    "<frozen ",
];
/// Begins the line of a frame.
pub(super) const FRAME: &str = "  File \"";
const BEGINS_A_THREAD: &str = "(most recent call first):";

struct Thread<'a> {
    title: &'a str,
    frames: Vec<&'a str>,
}

fn is_of_the_program(frame: &str) -> bool {
    frame.starts_with(FRAME) && !FOLDED.iter().any(|module| frame.contains(module))
}

impl Thread<'_> {
    /// Its frames but for those of the interpreter's modules, which are counted.
    fn lines(&self) -> Vec<String> {
        let own = self.frames.iter().filter(|frame| is_of_the_program(frame));
        let mut lines: Vec<_> = own.map(|frame| (*frame).to_owned()).collect();
        let folded = self.frames.len() - lines.len();
        if folded > 0 && !lines.is_empty() {
            lines.insert(0, format!("  ({} of Python's own modules)", counted(folded as u64, "frame")));
        }
        if lines.is_empty() {
            lines = self.frames.iter().map(|frame| (*frame).to_owned()).collect();
        }
        lines.insert(0, self.title.to_owned());
        lines
    }
}

/// The lines of a text that the interpreter has written; another text as it is.
pub(super) fn folded(text: &str) -> Vec<String> {
    let mut threads: Vec<Thread<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match threads.last_mut() {
            _ if line.ends_with(BEGINS_A_THREAD) => threads.push(Thread { title: line, frames: Vec::new() }),
            Some(thread) => thread.frames.push(line),
            None => return text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        }
    }
    let Some(main) = threads.pop() else { return Vec::new() };
    let (busy, idle): (Vec<_>, Vec<_>) =
        threads.into_iter().partition(|thread| thread.frames.iter().any(|frame| is_of_the_program(frame)));
    let mut lines = main.lines();
    lines.extend(busy.iter().flat_map(Thread::lines));
    if !idle.is_empty() {
        lines.push(format!("and {}, in no code of the program: python.txt", counted(idle.len() as u64, "more thread")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::folded;

    const TEXT: &str = "Thread 0x00007f27 (most recent call first):\n  <no Python frame>\n\n\
        Thread 0x00007f2a (most recent call first):\n  File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n  \
        File \"/usr/lib/python3.12/multiprocessing/queues.py\", line 251 in _feed\n\n\
        Thread 0x00007f2c (most recent call first):\n  File \"/srv/job/save.py\", line 9 in write\n  \
        File \"/usr/lib/python3.12/threading.py\", line 1010 in run\n\n\
        Thread 0x00007f2b (most recent call first):\n  File \"/usr/lib/python3.12/selectors.py\", line 415 in select\n  \
        File \"/srv/job/train.py\", line 21 in <module>\n";

    #[test]
    fn the_main_thread_comes_first_and_idle_threads_are_counted() {
        assert_eq!(
            folded(TEXT),
            [
                "Thread 0x00007f2b (most recent call first):",
                "  (1 frame of Python's own modules)",
                "  File \"/srv/job/train.py\", line 21 in <module>",
                "Thread 0x00007f2c (most recent call first):",
                "  (1 frame of Python's own modules)",
                "  File \"/srv/job/save.py\", line 9 in write",
                "and 2 more threads, in no code of the program: python.txt",
            ]
        );
    }

    #[test]
    fn a_main_thread_in_no_code_of_the_program_keeps_its_frames_and_another_text_is_kept() {
        let idle =
            "Thread 0x1 (most recent call first):\n  File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n";
        assert_eq!(folded(idle), idle.lines().collect::<Vec<_>>());
        assert_eq!(
            folded("its threads' stacks could not be had: no memory"),
            ["its threads' stacks could not be had: no memory"]
        );
        assert_eq!(folded(""), [""; 0]);
    }
}
