//! Python's stacks, which the interpreter writes as text: the main thread's last, and of each thread the innermost frame first.

use crate::api::counted;
use crate::order::grouped;
use crate::stack::PythonFrame;

/// Threads shown beside the main one, and lines of each; `--verbose` has them all.
const MOST_THREADS: usize = 3;
const MOST_LINES: usize = 10;

/// The stack of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonStack {
    /// The interpreter's line about the thread.
    pub title: String,
    /// The innermost first.
    pub frames: Vec<PythonFrame>,
}

/// The stacks in a text, the main thread's first.
pub fn python_stacks(text: &str) -> Vec<PythonStack> {
    let mut stacks: Vec<PythonStack> = Vec::new();
    for line in text.lines() {
        if line.contains("most recent call first") {
            stacks.push(PythonStack { title: line.to_owned(), frames: Vec::new() });
        } else if let (Some(stack), Some(frame)) = (stacks.last_mut(), frame(line)) {
            stack.frames.push(frame);
        }
    }
    let main = stacks.pop();
    main.into_iter().chain(stacks).collect()
}

/// The main thread's frames.
pub fn main_python(text: &str) -> Vec<PythonFrame> {
    python_stacks(text).into_iter().next().map(|stack| stack.frames).unwrap_or_default()
}

fn frame(line: &str) -> Option<PythonFrame> {
    let (file, rest) = line.trim().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    Some(PythonFrame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
}

/// The program's innermost line, else the innermost one of all.
pub fn python_line(frames: &[PythonFrame]) -> Option<String> {
    frames.iter().find(|frame| frame.is_of_the_program()).or_else(|| frames.first()).map(PythonFrame::place)
}

/// A line for each frame by `say`, with the frames of libraries, and of the interpreter, counted. The innermost one says what the thread does there.
pub fn folded(frames: &[PythonFrame], say: impl Fn(&PythonFrame) -> String) -> Vec<String> {
    let folds = |(at, frame): &(usize, &PythonFrame)| (*at > 0 && !frame.is_of_the_program()).then_some(());
    let mut lines = Vec::new();
    let mut all = frames.iter().enumerate().peekable();
    while let Some(one) = all.next() {
        if folds(&one).is_none() {
            lines.push(say(one.1));
            continue;
        }
        let mut count = 1;
        while all.next_if(|next| folds(next).is_some()).is_some() {
            count += 1;
        }
        lines.push(format!("({} of libraries)", counted(count, "frame")));
    }
    if lines.len() > MOST_LINES {
        let more = lines.len() - (MOST_LINES - 1);
        lines.truncate(MOST_LINES - 1);
        lines.push(format!("and {}", counted(more as u64, "more line")));
    }
    lines
}

impl PythonStack {
    /// No frame of the program's: it waits for work, in a library.
    fn is_idle(&self) -> bool {
        !self.frames.iter().any(PythonFrame::is_of_the_program)
    }

    fn lines(&self, title: &str) -> Vec<String> {
        let frame = |frame: &PythonFrame| format!("File \"{}\", line {} in {}", frame.file, frame.line, frame.function);
        std::iter::once(title.to_owned())
            .chain(folded(&self.frames, frame).into_iter().map(|line| format!("  {line}")))
            .collect()
    }
}

/// The text for a person: the main thread, then the threads that are not idle. A text without stacks is as it was.
pub fn python_in_short(text: &str) -> Vec<String> {
    let stacks = python_stacks(text);
    let before = text.lines().take_while(|line| !line.contains("most recent call first"));
    let mut lines: Vec<_> = before.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let Some((main, others)) = stacks.split_first() else { return lines };
    lines.extend(main.lines("main thread (most recent call first):"));
    let busy = others.iter().filter(|stack| !stack.is_idle());
    let groups = grouped(busy, |stack| stack.frames.clone());
    for (_, same) in groups.iter().take(MOST_THREADS) {
        let title = match same.len() {
            1 => same[0].title.clone(),
            count => format!("{} (most recent call first):", counted(count as u64, "thread")),
        };
        lines.extend(same[0].lines(&title));
    }
    let idle = others.iter().filter(|stack| stack.is_idle()).count();
    let shown: usize = groups.iter().take(MOST_THREADS).map(|(_, same)| same.len()).sum();
    let more = others.len() - idle - shown;
    let left = [(more, "more thread"), (idle, "idle thread")].into_iter().filter(|(count, _)| *count > 0);
    let left: Vec<_> = left.map(|(count, what)| counted(count as u64, what)).collect();
    lines.extend((!left.is_empty()).then(|| format!("and {}", left.join(", "))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: &str = "Thread 0x01 (most recent call first):\n  <no Python frame>\n\nThread 0x02 (most recent call first):\n  \
         File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n  File \"/usr/lib/python3.12/threading.py\", line 1010 in run\n\n\
         Thread 0x03 (most recent call first):\n  File \"/usr/lib/python3.12/ctypes/__init__.py\", line 9 in read\n  \
         File \"/srv/job/checkpoint.py\", line 12 in write\n  File \"/usr/lib/python3.12/threading.py\", line 1010 in run\n  \
         File \"/usr/lib/python3.12/threading.py\", line 1030 in _bootstrap\n\nCurrent thread 0x04 (most recent call first):\n  \
         File \"/opt/lib/python3.12/site-packages/torch/cuda/__init__.py\", line 1162 in synchronize\n  \
         File \"/srv/job/train.py\", line 31 in <module>\n";

    #[test]
    fn the_main_thread_comes_first_and_idle_threads_are_counted() {
        assert_eq!(
            python_in_short(STACKS),
            [
                "main thread (most recent call first):",
                "  File \"/opt/lib/python3.12/site-packages/torch/cuda/__init__.py\", line 1162 in synchronize",
                "  File \"/srv/job/train.py\", line 31 in <module>",
                "Thread 0x03 (most recent call first):",
                "  File \"/usr/lib/python3.12/ctypes/__init__.py\", line 9 in read",
                "  File \"/srv/job/checkpoint.py\", line 12 in write",
                "  (2 frames of libraries)",
                "and 2 idle threads",
            ]
        );
        assert_eq!(python_line(&main_python(STACKS)).as_deref(), Some("train.py:31"));
    }

    #[test]
    fn many_threads_at_one_place_and_deep_stacks_are_short() {
        let own = |line: u32| format!("  File \"/srv/job/a.py\", line {line} in f\n");
        let deep: String = (0..40).map(own).collect();
        let same = format!("Thread 0x05 (most recent call first):\n{}\n", own(7)).repeat(9);
        let lines = python_in_short(&format!("{same}Thread 0x06 (most recent call first):\n{deep}"));
        assert_eq!(lines.len(), 1 + MOST_LINES + 2);
        assert_eq!(lines[MOST_LINES..MOST_LINES + 2], ["  and 31 more lines", "9 threads (most recent call first):"]);
    }

    #[test]
    fn a_text_without_stacks_stays() {
        assert_eq!(python_in_short("its stacks could not be had: x\n"), ["its stacks could not be had: x"]);
        assert_eq!((main_python("x"), python_line(&[])), (Vec::new(), None));
    }
}
