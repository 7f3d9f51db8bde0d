//! The file of a schedule, of `lazyguard explore`: the calls before which a thread is held, and for how long.
//!
//! ```text
//! # hangs when thread loader's cuMemFree comes after thread main's cuStreamWaitValue32: LG204
//! budget 5000000000
//! hold * 7000000 cuMemFree@218%loader#1 cuStreamWaitValue32@806%main#2
//! hold 1 7000000 cuMemFree@218%loader#1
//! ```
//!
//! A line that begins with `#` is for people. `budget` has the nanoseconds for all holds. `hold` has the rank or `*`, the nanoseconds, the call, and perhaps the call for which it waits.
//!
//! Must not: believe a file of which a part means nothing. A run without its holds would seem to pass.

use crate::Nanos;

/// `lazyguard explore` writes some hundred bytes.
pub const MOST_BYTES: u64 = 1 << 20;

const ANY: &str = "*";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule<'a> {
    pub budget: Nanos,
    pub holds: Vec<Hold<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold<'a> {
    /// Nothing for each of them.
    pub rank: Option<&'a str>,
    pub most: Nanos,
    pub call: &'a str,
    pub until: Option<&'a str>,
}

impl<'a> Schedule<'a> {
    /// # Errors
    ///
    /// In words: it is none, or was cut off, or is larger than [`MOST_BYTES`].
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let text = Some(text).filter(|text| text.len() as u64 <= MOST_BYTES);
        text.and_then(Self::whole).ok_or("it is no schedule of lazyguard explore, or was cut off")
    }

    fn whole(text: &'a str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.lines().filter(|line| !line.starts_with('#'));
        let budget = lines.next()?.strip_prefix("budget ")?.parse().ok()?;
        Some(Self { budget, holds: lines.map(Hold::parse).collect::<Option<_>>()? })
    }
}

impl<'a> Hold<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (&[word, rank, most, call], rest) = fields.split_first_chunk()?;
        let until = match rest {
            [] => None,
            [until] => Some(*until),
            _ => return None,
        };
        let are_calls = [Some(call), until].into_iter().flatten().all(|call| call.contains('@') && call.contains('#'));
        let rank = Some(rank).filter(|rank| *rank != ANY);
        (word == "hold" && are_calls).then_some(Self { rank, most: most.parse().ok()?, call, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        "budget 9\nhold * 7 cuMemFree@218%loader#1 cuStreamWaitValue32@806%main#2\nhold 1 8 cuMemFree@218%loader#1 \n";

    #[test]
    fn a_schedule_is_read_as_explore_writes_it() {
        let call = "cuMemFree@218%loader#1";
        let first = Hold { rank: None, most: 7, call, until: Some("cuStreamWaitValue32@806%main#2") };
        let second = Hold { rank: Some("1"), most: 8, call, until: None };
        assert_eq!(Schedule::parse(WHOLE), Ok(Schedule { budget: 9, holds: vec![first, second] }));
        assert_eq!(Schedule::parse("budget 0\n"), Ok(Schedule::default()));
        let with_words = format!("# hangs when thread loader's cuMemFree comes late\n{WHOLE}");
        assert_eq!(Schedule::parse(&with_words), Schedule::parse(WHOLE));
    }

    #[test]
    fn a_part_that_means_nothing_makes_it_none() {
        for end in 0..WHOLE.len() {
            let is_whole_line = WHOLE[..end].ends_with('\n');
            assert_eq!(Schedule::parse(&WHOLE[..end]).is_ok(), is_whole_line, "cut off at {end}");
        }
        for (from, to) in
            [("budget 9", "budget -5"), ("budget 9", "budget 99999999999999999999999"), ("budget", "budge")]
                .into_iter()
                .chain([
                    ("hold *", "held *"),
                    (" 7 ", " 7ms "),
                    ("cuMemFree@218%loader#1", "cuMemFree"),
                    ("main#2", "main#2 x"),
                ])
                .chain([("hold * 7", "hold"), ("\nhold 1", "\n\nhold 1"), ("budget 9\n", "")])
        {
            assert!(Schedule::parse(&WHOLE.replacen(from, to, 1)).is_err(), "{from:?} is {to:?}");
        }
    }
}
