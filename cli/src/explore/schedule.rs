//! A schedule: the calls before which threads are held, and until which other calls; and the calls that a run left (`points`), by which the
//! next schedule is drawn. The guard's `record/schedule.rs` reads the one file and writes the other.

use crate::machine::files;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::order::grouped;
use lazyguard_core::run_folder::file::POINTS;
use lazyguard_core::Nanos;
use std::fmt;
use std::path::{Path, PathBuf};

/// A call by its name in schedules: `FUNCTION@SITE%THREAD#NUMBER`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallName(pub String);

impl CallName {
    pub fn function(&self) -> &str {
        self.0.split('@').next().unwrap_or_default()
    }

    pub fn thread(&self) -> &str {
        let thread = self.0.split_once('%').and_then(|(_, rest)| rest.rsplit_once('#'));
        thread.map_or("", |(thread, _)| thread)
    }

    pub fn class(&self) -> Option<Class> {
        let forms = [self.function().to_owned(), format!("{}_v2", self.function())];
        forms.iter().find_map(|symbol| EntryPoint::by_symbol(symbol.as_bytes())).map(EntryPoint::class)
    }
}

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}'s {}", self.thread(), self.function())?;
        match self.0.rsplit_once('#') {
            None | Some((_, "1")) => Ok(()),
            Some((_, number)) => write!(f, " (number {number} of its place)"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Point {
    /// When its thread came to it, and when it went on.
    pub came: Nanos,
    pub at: Nanos,
    pub thread: u32,
    pub call: CallName,
    /// Whether its thread was held before it.
    pub held: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    pub rank: String,
    /// The folder in which its process left them.
    pub folder: PathBuf,
    pub calls: Vec<Point>,
}

impl Points {
    pub fn read(folder: &Path, rank: &str) -> Self {
        let text = files::read_text(folder.join(POINTS)).unwrap_or_default();
        let mut calls: Vec<_> = text.lines().filter_map(point).collect();
        calls.sort_by_key(|point| point.at);
        Self { rank: rank.to_owned(), folder: folder.to_owned(), calls }
    }

    pub fn find(&self, call: &CallName) -> Option<&Point> {
        self.calls.iter().find(|point| point.call == *call)
    }

    /// The threads, by their first call.
    pub fn threads(&self) -> Vec<u32> {
        grouped(&self.calls, |point| point.thread).into_iter().map(|(thread, _)| thread).collect()
    }
}

fn point(line: &str) -> Option<Point> {
    let words: Vec<_> = line.split(' ').collect();
    let [at, thread, call, waited, held] = words[..] else { return None };
    let (at, waited): (Nanos, Nanos) = (at.parse().ok()?, waited.parse().ok()?);
    let (thread, call) = (thread.parse().ok()?, CallName(call.to_owned()));
    Some(Point { came: at.saturating_sub(waited), at, thread, call, held: held != "-" })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The rank, or empty for every process.
    pub rank: String,
    pub call: CallName,
    /// The call that ends the hold; without one, it lasts for the whole time.
    pub until: Option<CallName>,
    pub most: Nanos,
}

impl Hold {
    /// The calls of the processes that it is for.
    pub fn of<'a>(&'a self, ranks: &'a [Points]) -> impl Iterator<Item = &'a Points> {
        ranks.iter().filter(|points| self.rank.is_empty() || points.rank == self.rank)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.rank.is_empty() {
            write!(f, "in rank {} ", self.rank)?;
        }
        match &self.until {
            Some(until) => write!(f, "{} comes after {until}", self.call),
            None => write!(f, "{} comes {} ms late", self.call, self.most / 1_000_000),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    pub budget: Nanos,
    pub holds: Vec<Hold>,
}

impl Schedule {
    /// The file that the guard reads.
    pub fn text(&self) -> String {
        let line = |hold: &Hold| {
            let rank = if hold.rank.is_empty() { "*" } else { &hold.rank };
            let until = hold.until.as_ref().map_or("", |until| &until.0);
            format!("hold {rank} {} {} {until}\n", hold.most, hold.call.0)
        };
        format!("budget {}\n{}", self.budget, self.holds.iter().map(line).collect::<String>())
    }

    pub fn in_words(&self) -> String {
        self.holds.iter().map(Hold::to_string).collect::<Vec<_>>().join(", and ")
    }

    pub fn carried_out(&self, run: &[Points]) -> Vec<Hold> {
        let was_held = |hold: &&Hold| {
            hold.of(run).flat_map(|points| &points.calls).any(|point| point.held && point.call == hold.call)
        };
        self.holds.iter().filter(was_held).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_said_in_the_words_of_its_calls() {
        let call = |name: &str| CallName(name.to_owned());
        let hold = Hold {
            rank: String::new(),
            call: call("cuMemFree@218%loader#1"),
            until: Some(call("cuStreamWaitValue32@806%main#2")),
            most: 7_000_000,
        };
        let late = Hold { rank: "1".to_owned(), until: None, ..hold.clone() };
        let schedule = Schedule { budget: 9, holds: vec![hold, late] };
        assert_eq!(
            schedule.in_words(),
            "thread loader's cuMemFree comes after thread main's cuStreamWaitValue32 (number 2 of its place), and \
             in rank 1 thread loader's cuMemFree comes 7 ms late"
        );
        assert_eq!(
            schedule.text(),
            "budget 9\nhold * 7000000 cuMemFree@218%loader#1 cuStreamWaitValue32@806%main#2\n\
             hold 1 7000000 cuMemFree@218%loader#1 \n"
        );
        assert_eq!(call("cuMemFree@218%a#1").class(), Some(Class::Free));
    }

    #[test]
    fn a_line_of_a_run_is_read_and_a_damaged_one_is_not() {
        let read = point("4929660 3714 cuEventRecord@bbd%worker#1 351 came").unwrap();
        assert_eq!((read.at, read.thread, read.held, read.call.function()), (4929660, 3714, true, "cuEventRecord"));
        assert!(point("4929660 3714 cuEventRecord@bbd%worker#1").is_none());
    }
}
