//! Programs: streams, kernels that are loaded at the start, and the steps of each thread.

use std::fmt;

/// The kinds of step, each with its arguments in the order of the text. An argument in brackets may be absent.
///
/// `kernel`, `stream`, `event`, `word`, `gate`, `lock` and `allocation` are numbers of objects; `value`, `reaches` and `to` are values of a word; `busy` and `ms`
/// are milliseconds. `comm` is a communicator of a job ([`crate::Job`]), `count` is of floats, and `from` is a rank, as `to` is of the steps that call NCCL.
/// A kernel waits until the word `until` is at least `reaches`, lasts `busy`, and raises the word `raise` to `to`.
pub const KINDS: &[(&str, &[&str])] = &[
    ("launch", &["stream", "kernel", "[until]", "[reaches]", "[busy]", "[raise]", "[to]"]),
    ("graph", &["stream", "kernel", "[until]", "[reaches]", "[busy]", "[raise]", "[to]"]),
    ("record", &["event", "stream"]),
    ("wait_event", &["stream", "event"]),
    ("wait_value", &["stream", "word", "value"]),
    ("write_value", &["stream", "word", "value"]),
    ("synchronize", &["stream"]),
    ("synchronize_event", &["event"]),
    ("synchronize_context", &[]),
    ("poll", &["stream"]),
    ("poll_event", &["event"]),
    ("allocate", &[]),
    ("free", &["allocation"]),
    ("load_module", &[]),
    ("unload_module", &[]),
    ("copy", &[]),
    ("copy_back", &[]),
    ("copy_async", &["stream"]),
    ("memset", &["stream"]),
    ("host", &["stream", "[gate]"]),
    ("pool", &["stream"]),
    ("sleep", &["ms"]),
    ("store", &["word", "value"]),
    ("await", &["word", "value"]),
    ("lock", &["lock"]),
    ("unlock", &["lock"]),
    ("pass", &["gate"]),
    ("open", &["gate"]),
    ("all_reduce", &["comm", "stream", "count"]),
    ("send", &["comm", "stream", "to", "count"]),
    ("receive", &["comm", "stream", "from", "count"]),
    ("exchange", &["comm", "stream", "to", "from", "count"]),
];

/// The kinds of stream.
pub const STREAMS: &[&str] = &["nonblocking", "blocking", "legacy", "per-thread"];

/// One step of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread, from 0, which is the main thread.
    pub thread: usize,
    /// One of [`KINDS`].
    pub what: &'static str,
    /// Its arguments.
    pub with: Vec<(&'static str, u64)>,
}

impl Step {
    /// An argument.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.with.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.thread, self.what)?;
        self.with.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The kind of each stream, of [`STREAMS`].
    pub streams: Vec<&'static str>,
    /// The kernels that are launched once before the first step.
    pub warm: Vec<u64>,
    /// The steps, each thread's in its order. The threads are not ordered among each other.
    pub steps: Vec<Step>,
}

impl Program {
    /// The step of a line of the program's text, from 1.
    pub fn step_of_line(&self, line: u64) -> Option<&Step> {
        let before = (self.streams.len() + self.warm.len()) as u64;
        line.checked_sub(before + 1).and_then(|index| self.steps.get(index as usize))
    }

    /// The line of a step.
    pub fn line_of(&self, index: usize) -> u64 {
        (self.streams.len() + self.warm.len() + index + 1) as u64
    }

    /// Reads a text, in which lines that begin with `#` say what the program is.
    ///
    /// # Errors
    ///
    /// The line that is no step.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut program = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            program.take(line).ok_or_else(|| format!("no step: {line}"))?;
        }
        Ok(program)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        match words.next()? {
            "stream" => {
                let kind = words.next()?;
                self.streams.push(STREAMS.iter().find(|known| **known == kind)?);
            }
            "warm" => self.warm.push(words.next()?.parse().ok()?),
            thread => {
                let thread = thread.parse().ok()?;
                let what = words.next()?;
                let (what, names) = KINDS.iter().find(|(known, _)| *known == what)?;
                let with = words.map(|word| argument(names, word)).collect::<Option<Vec<_>>>()?;
                let complete = names
                    .iter()
                    .filter(|name| !name.starts_with('['))
                    .all(|name| with.iter().any(|(given, _)| given == name));
                complete.then_some(())?;
                self.steps.push(Step { thread, what, with });
            }
        }
        Some(())
    }
}

fn argument(names: &[&'static str], word: &str) -> Option<(&'static str, u64)> {
    let (name, value) = word.split_once('=')?;
    let known = names.iter().map(|known| known.trim_matches(['[', ']'])).find(|known| *known == name)?;
    Some((known, value.parse().ok()?))
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.streams.iter().try_for_each(|kind| writeln!(f, "stream {kind}"))?;
        self.warm.iter().try_for_each(|kernel| writeln!(f, "warm {kernel}"))?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_as_it_is_written() {
        let text = "stream nonblocking\nwarm 3\n0 launch stream=0 kernel=3 until=1 reaches=2\n1 open gate=0\n";
        let program = Program::parse(&format!("# Says something.\n\n{text}")).unwrap();
        assert_eq!(program.to_string(), text);
        assert_eq!(program.step_of_line(4).map(|step| step.what), Some("open"));
        assert_eq!(program.line_of(1), 4);
    }

    #[test]
    fn what_is_no_step_is_refused() {
        for text in [
            "stream wide",
            "0 jump",
            "0 record event=0",
            "0 record event=0 stream=1 word=2",
            "0 sleep ms=long",
            "zero open gate=0",
        ] {
            assert!(Program::parse(text).is_err(), "{text}");
        }
    }
}
