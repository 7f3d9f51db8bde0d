//! Counts, spans of time and times of day, as every message for people writes them.

use crate::Nanos;
use std::fmt;

pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    Quantity(count.try_into().unwrap_or(u64::MAX), noun).to_string()
}

/// The same without a string of its own.
#[derive(Clone, Copy, Debug)]
pub struct Quantity<'a>(pub u64, pub &'a str);

impl fmt::Display for Quantity<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = *self;
        if count == 1 {
            return write!(out, "1 {noun}");
        }
        let before = noun.len().checked_sub(2).and_then(|at| noun.as_bytes().get(at));
        let takes_ies = noun.ends_with('y') && before.is_some_and(|letter| !b"aeiou".contains(letter));
        match noun {
            _ if takes_ies => write!(out, "{count} {}ies", &noun[..noun.len() - 1]),
            _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => write!(out, "{count} {noun}es"),
            _ => write!(out, "{count} {noun}s"),
        }
    }
}

/// `0.3 s`, `30 s`, `14 min 5 s`, `5 h 29 min`.
pub fn lasted(nanos: Nanos) -> String {
    let seconds = nanos.saturating_add(500_000_000) / 1_000_000_000;
    match seconds {
        0..10 => format!("{:.1} s", nanos as f64 / 1e9),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Nanoseconds since 1970 as `04:43:33Z`.
pub fn time_of_day(unix_nanos: u64) -> String {
    let seconds = unix_nanos / 1_000_000_000;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

pub fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_everything_else_is_plural() {
        for (count, noun, expect) in [
            (0_u64, "launch", "0 launches"),
            (1, "launch", "1 launch"),
            (2, "launch", "2 launches"),
            (1, "time", "1 time"),
            (3, "time", "3 times"),
            (2, "query", "2 queries"),
            (2, "day", "2 days"),
            (8, "process", "8 processes"),
            (0, "driver call", "0 driver calls"),
        ] {
            assert_eq!(counted(count, noun), expect);
        }
    }

    #[test]
    fn a_span_has_the_precision_that_a_reader_needs() {
        const SECOND: Nanos = 1_000_000_000;
        for (nanos, expect) in [
            (345_000_000, "0.3 s"),
            (9_400_000_000, "9.4 s"),
            (29_999_000_000, "30 s"),
            (30 * SECOND, "30 s"),
            (845 * SECOND, "14 min 5 s"),
            (19_770 * SECOND, "5 h 29 min"),
            (200_000 * SECOND, "2 days 7 h"),
        ] {
            assert_eq!(lasted(nanos), expect);
        }
    }

    #[test]
    fn a_time_of_day_is_that_of_utc() {
        assert_eq!(time_of_day(1_750_000_000_000_000_000), "15:06:40Z");
    }
}
