//! Formats that all commands share: the form of a whole report, spans of time, and moments.
//!
//! Must not: decide what is reported.

use chrono::DateTime;
use lazyguard_core::Nanos;
use std::ffi::OsStr;

/// How a report of one process is written.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// For a program: JSON.
    Json,
}

pub(crate) struct Took(pub Nanos);

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0 as f64;
        f.pad(&match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{:.1} us", nanos / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} ms", nanos / 1e6),
            _ => format!("{:.3} s", nanos / 1e9),
        })
    }
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// A word as a shell reads it.
pub(crate) fn shell_word(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy();
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+=:,%@".contains(&b));
    if is_plain {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The first of several, with so much between them, and how many more there are.
pub(crate) fn first_of(
    all: impl ExactSizeIterator<Item = String>,
    most: usize,
    between: &str,
    more: impl FnOnce(u64) -> String,
) -> String {
    let rest = all.len().saturating_sub(most) as u64;
    all.take(most).chain((rest > 0).then(|| more(rest))).collect::<Vec<_>>().join(between)
}

/// A moment on the wall, from nanoseconds since 1970.
pub(crate) fn utc(unix_nanos: u64) -> String {
    let moment = i64::try_from(unix_nanos).map(DateTime::from_timestamp_nanos).unwrap_or_default();
    moment.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_each_word_as_it_was() {
        let words = ["/a/b-1.x", "", "a b", "echo 'x' $y"].map(shell_word);
        assert_eq!(words.join(" "), r"/a/b-1.x '' 'a b' 'echo '\''x'\'' $y'");
    }

    #[test]
    fn sizes_are_written_in_the_unit_in_which_they_are_read() {
        assert_eq!((size(1023), size(1536), size(3 << 30)), ("1023 B".into(), "1.5 KiB".into(), "3.0 GiB".into()));
    }

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        for (seconds, expect) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000), expect);
        }
    }
}
