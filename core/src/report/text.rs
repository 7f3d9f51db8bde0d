//! Lines for a person, as a terminal and the log of a CI system show them.
//!
//! Much of a line is foreign: names of threads, kernels, programs and files, settings, Python's output. Such text must not end a line, move the
//! cursor, reverse letters, or pass for a command of a CI system.
//!
//! The code that finishes a line ensures this, because names enter lines in hundreds of places. [`Block`] is the only thing that the library
//! writes to standard error or into a text file; the command's output passes [`one_line`] as well. Safe text stays as it is.
//!
//! Must not: be used for JSON, XML or another form with escapes of its own.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The prefix of each line on standard error.
pub const MARK: &str = "lazyguard: ";

/// One line that says the same to every reader: `\n`, `\x1b` or `\u{202e}` in place of what a terminal or a CI system would obey.
///
/// That is: control characters (Cc), other ends of lines, unseen marks of direction (UAX #9), and the beginnings of commands: `::` at the start of
/// a line (GitHub), and `##[`, `##vso[` and `##teamcity[` anywhere (GitHub, Azure, TeamCity).
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte: u8| matches!(byte, b' '..=b'~') && byte != b'#') && !begins_a_command(text) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    let colons = begins_a_command(text).then(|| text.len() - text.trim_start().len());
    for (at, letter) in text.char_indices() {
        let commands = Some(at) == colons || letter == '#' && begins_a_marked_command(&text[at..]);
        let _ = match letter {
            '\n' => line.write_str("\\n"),
            '\r' => line.write_str("\\r"),
            '\t' => line.write_str("\\t"),
            letter if commands || letter < '\u{80}' && letter.is_control() => write!(line, "\\x{:02x}", letter as u32),
            letter if misleads(letter) => write!(line, "\\u{{{:x}}}", letter as u32),
            letter => line.write_char(letter),
        };
    }
    Cow::Owned(line)
}

/// GitHub looks behind the blanks.
fn begins_a_command(text: &str) -> bool {
    text.trim_start().starts_with("::")
}

fn begins_a_marked_command(text: &str) -> bool {
    text.strip_prefix("##").is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "._-".contains(c)).starts_with('[')
    })
}

/// Controls, ends of lines, marks of direction, and what is not seen at all.
pub fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Lines that are written together; foreign text makes no other line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    text: String,
}

impl Block {
    /// Each line behind [`MARK`], by which a job's log is searched.
    pub fn marked(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::of(lines.into_iter().map(|line| MARK.to_owned() + line.as_ref()))
    }

    pub fn of(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut block = Self::default();
        lines.into_iter().for_each(|line| block.push(line.as_ref()));
        block
    }

    pub fn push(&mut self, line: &str) {
        self.text.push_str(&one_line(line));
        self.text.push('\n');
    }

    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.text.push_str(&other.text);
        self
    }

    pub fn unmarked(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(|line| line.strip_prefix(MARK).unwrap_or(line))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_or_a_ci_system_obeys_is_written_out() {
        for (text, expect) in [
            ("k1 of a::b<'c'> [x] \u{e9} \u{1f600} \\n", "k1 of a::b<'c'> [x] \u{e9} \u{1f600} \\n"),
            ("a\nlazyguard: b\r\tc", "a\\nlazyguard: b\\r\\tc"),
            ("\u{1b}[2J\u{7}\u{0}\u{7f}", "\\x1b[2J\\x07\\x00\\x7f"),
            ("\u{9b}2J\u{85}", "\\u{9b}2J\\u{85}"),
            ("a\u{202e}b\u{2066}c\u{2028}d\u{200f}", "a\\u{202e}b\\u{2066}c\\u{2028}d\\u{200f}"),
            ("::error::x", "\\x3a:error::x"),
            (" \u{a0}::error::x", " \u{a0}\\x3a:error::x"),
            ("at ::error::x", "at ::error::x"),
            ("a ##[error]b ##vso[task.complete]", "a \\x23#[error]b \\x23#vso[task.complete]"),
            ("###teamcity[x]", "#\\x23#teamcity[x]"),
            ("######## 3 #[x] ## 4 [5]", "######## 3 #[x] ## 4 [5]"),
        ] {
            assert_eq!(one_line(text), expect);
            assert_eq!(one_line(expect), expect, "once is as good as twice");
        }
    }

    #[test]
    fn a_block_has_as_many_lines_as_it_was_given() {
        let block = Block::marked(["HANG: a\nlazyguard: RESOLVED", "::x"]).and(&Block::of(["::y", ""]));
        assert_eq!(block.as_str(), "lazyguard: HANG: a\\nlazyguard: RESOLVED\nlazyguard: ::x\n\\x3a:y\n\n");
        let unmarked: Vec<_> = block.unmarked().collect();
        assert_eq!(unmarked, ["HANG: a\\nlazyguard: RESOLVED", "::x", "\\x3a:y", ""]);
    }
}
