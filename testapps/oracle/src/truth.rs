//! The truth of one run, as `player.cpp` writes it: it has completed, or it is stuck, and who waits for whom.

use crate::program::{Program, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a run ended, or did not.
#[derive(Clone, Debug)]
pub enum Truth {
    /// It came to its end.
    Completed {
        /// The longest that one of its driver calls took, in milliseconds.
        longest: u64,
    },
    /// Nothing can move any more.
    Stuck(Box<Stuck>),
}

/// The state of work that has begun.
pub const RUNS: u64 = 2;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A thread, by its number in the system.
    Thread(u64),
    /// Work in flight, by its number in the driver.
    Op(u64),
}

impl From<u64> for Who {
    fn from(op: u64) -> Self {
        Self::Op(op)
    }
}

/// A thread of the program that has not ended.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its number in the program.
    pub number: usize,
    /// Its number in the system.
    pub tid: u64,
    /// At what: `call`, `lock`, `gate`, `word` or `join`.
    pub at: String,
    /// The line of its step.
    pub line: u64,
    /// The number of the lock, the gate, the word or the thread that it waits for.
    pub subject: i64,
}

/// Work in flight.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The line of the step that submitted it; 0 for another's.
    pub line: u64,
    /// 0: behind other work, 1: a kernel without room, 2: it runs.
    pub state: u64,
    /// Whether it is a kernel.
    pub is_kernel: bool,
}

/// A program that is stuck.
#[derive(Clone, Debug, Default)]
pub struct Stuck {
    /// Since when, in nanoseconds since 1970.
    pub since: u64,
    /// Until when it was looked at.
    pub until: u64,
    /// Threads that have not ended.
    pub threads: Vec<Standing>,
    /// The work in flight.
    pub ops: BTreeMap<u64, Op>,
    /// The handle of each stream.
    pub streams: Vec<u64>,
    lock_holders: BTreeMap<i64, i64>,
    in_driver: BTreeMap<u64, (u64, u64, Vec<u64>)>,
    edges: BTreeMap<Who, BTreeSet<Who>>,
}

impl Truth {
    /// Reads what the player has written; none where that is incomplete.
    pub fn parse(text: &str, program: &Program) -> Option<Self> {
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        (lines.last()?.first() == Some(&"end")).then_some(())?;
        if lines[0] == ["completed"] {
            return Some(Self::Completed { longest: lines[1].get(1)?.parse().ok()? });
        }
        let mut stuck = Stuck::default();
        for line in &lines {
            stuck.take(line)?;
        }
        stuck.connect(program);
        Some(Self::Stuck(Box::new(stuck)))
    }
}

impl Stuck {
    fn take(&mut self, line: &[&str]) -> Option<()> {
        let number = |at: usize| line.get(at).and_then(|word| word.parse::<u64>().ok());
        let signed = |at: usize| line.get(at).and_then(|word| word.parse::<i64>().ok());
        match *line.first()? {
            "stuck" => self.since = number(1)?,
            "until" => self.until = number(1)?,
            "thread" if line.get(3) != Some(&"ended") => self.threads.push(Standing {
                number: number(1)? as usize,
                tid: number(2)?,
                at: (*line.get(3)?).to_owned(),
                line: number(4)?,
                subject: signed(5)?,
            }),
            "lock" => drop(self.lock_holders.insert(signed(1)?, signed(2)?)),
            "stream" => self.streams.push(number(2)?),
            "op" => {
                let op = Op { line: number(2)?, state: number(3)?, is_kernel: number(4)? == 1 };
                self.ops.insert(number(1)?, op);
            }
            "waits" => drop(self.edges.entry(Who::Op(number(1)?)).or_default().insert(Who::Op(number(2)?))),
            "driver" => {
                let held = (4..line.len()).filter_map(number).filter(|lock| *lock != 0).collect();
                self.in_driver.insert(number(1)?, (number(2)?, number(3)?, held));
            }
            _ => {}
        }
        Some(())
    }

    /// Adds what only the program knows to what the driver has shown.
    fn connect(&mut self, program: &Program) {
        let mut found = Vec::new();
        for (tid, (what, on, _)) in &self.in_driver {
            match what {
                1 | 2 => found.push((Who::Thread(*tid), Who::Op(*on))),
                3 => found.extend(self.holders_of(*on).map(|holder| (Who::Thread(*tid), Who::Thread(holder)))),
                _ => {}
            }
        }
        for thread in &self.threads {
            let me = Who::Thread(thread.tid);
            let step = program.step_of_line(thread.line);
            match (thread.at.as_str(), step) {
                ("join", _) => found.extend(self.tid_of(thread.subject).map(|other| (me, other))),
                ("lock", _) => {
                    let holder = self.lock_holders.get(&thread.subject).copied().unwrap_or(-1);
                    found.extend(self.tid_of(holder).map(|other| (me, other)));
                }
                ("gate", _) => found.extend(self.openers(program, thread.subject as u64).map(|other| (me, other))),
                ("word", Some(step)) => {
                    found.extend(self.writers(program, step.get("word"), step.get("value")).map(|other| (me, other)))
                }
                ("call", Some(step)) if step.what.starts_with("poll") => {
                    found.extend(self.polled(program, step).map(|other| (me, other)));
                }
                _ => {}
            }
        }
        for (id, op) in &self.ops {
            let Some(step) = program.step_of_line(op.line).filter(|_| op.state == RUNS) else { continue };
            let me = Who::Op(*id);
            match step.what {
                "launch" | "graph" => {
                    found.extend(self.writers(program, step.get("until"), step.get("reaches")).map(|other| (me, other)))
                }
                "wait_value" => {
                    found.extend(self.writers(program, step.get("word"), step.get("value")).map(|other| (me, other)))
                }
                "host" => found.extend(
                    step.get("gate").into_iter().flat_map(|gate| self.openers(program, gate)).map(|other| (me, other)),
                ),
                _ => {}
            }
        }
        for (from, to) in found {
            self.edges.entry(from).or_default().insert(to);
        }
    }

    fn holders_of(&self, lock: u64) -> impl Iterator<Item = u64> + '_ {
        self.in_driver.iter().filter(move |(_, (_, _, held))| held.contains(&lock)).map(|(tid, _)| *tid)
    }

    fn tid_of(&self, number: i64) -> Option<Who> {
        self.threads.iter().find(|thread| thread.number as i64 == number).map(|thread| Who::Thread(thread.tid))
    }

    /// Those that have a step before them, or in flight, that fits.
    fn to_come<'a>(
        &'a self,
        program: &'a Program,
        fits: impl Fn(&Step) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = Who> + 'a {
        let in_flight = self
            .ops
            .iter()
            .filter(move |(_, op)| program.step_of_line(op.line).is_some_and(fits))
            .map(|(id, _)| Who::Op(*id));
        let later = self.threads.iter().filter(move |thread| {
            let mut steps = program.steps.iter().enumerate();
            steps.any(|(at, step)| step.thread == thread.number && program.line_of(at) > thread.line && fits(step))
        });
        in_flight.chain(later.map(|thread| Who::Thread(thread.tid)))
    }

    fn writers<'a>(
        &'a self,
        program: &'a Program,
        word: Option<u64>,
        value: Option<u64>,
    ) -> impl Iterator<Item = Who> + 'a {
        self.to_come(program, move |step| writes(step, word, value))
    }

    fn openers<'a>(&'a self, program: &'a Program, gate: u64) -> impl Iterator<Item = Who> + 'a {
        self.to_come(program, move |step| step.what == "open" && step.get("gate") == Some(gate))
    }

    fn polled<'a>(&'a self, program: &'a Program, step: &'a Step) -> impl Iterator<Item = Who> + 'a {
        self.ops
            .iter()
            .filter(move |(_, op)| {
                program
                    .step_of_line(op.line)
                    .is_some_and(|on| on.what == "record" && on.get("event") == step.get("event"))
            })
            .map(|(id, _)| Who::Op(*id))
    }

    /// All that something waits for, by way of others, and itself.
    fn behind(&self, who: Who) -> BTreeSet<Who> {
        let mut seen = BTreeSet::from([who]);
        let mut next = VecDeque::from([who]);
        while let Some(at) = next.pop_front() {
            for on in self.edges.get(&at).into_iter().flatten() {
                if seen.insert(*on) {
                    next.push_back(*on);
                }
            }
        }
        seen
    }

    /// The waits that hold each other or are held by nothing: what a thread stands behind, and that stands behind nothing else.
    ///
    /// A wait of a word can end by any of several writes, so that a circle counts even where something else is waited for beside it.
    pub fn minimal(&self) -> BTreeSet<Who> {
        let reached: BTreeSet<Who> =
            self.threads.iter().flat_map(|thread| self.behind(Who::Thread(thread.tid))).collect();
        let behind: BTreeMap<Who, BTreeSet<Who>> = reached.iter().map(|who| (*who, self.behind(*who))).collect();
        let in_a_circle = |who: &Who| {
            self.edges.get(who).into_iter().flatten().any(|on| behind.get(on).is_some_and(|far| far.contains(who)))
        };
        let last = |who: &Who| behind[who].iter().all(|on| behind.get(on).is_some_and(|far| far.contains(who)));
        reached.iter().filter(|who| last(who) || in_a_circle(who)).copied().collect()
    }

    /// The work in flight that a likely or certain verdict may call the culprit: the minimal set, and work that looks alike from outside the program. Such
    /// work is a kernel that runs and waits for a word, a host function that runs and waits, and a wait for a value that no operation in flight writes.
    pub fn culprits(&self, program: &Program) -> BTreeSet<u64> {
        let minimal = self.minimal();
        let closed = |op: &Op| match program.step_of_line(op.line) {
            Some(step) if step.what == "wait_value" => op.state == RUNS && !self.is_to_be_written(program, step),
            Some(step) => op.state == RUNS && matches!(step.what, "launch" | "graph" | "host"),
            None => false,
        };
        let is_one = |(id, op): &(&u64, &Op)| minimal.contains(&Who::Op(**id)) || closed(op);
        self.ops.iter().filter(is_one).map(|(id, _)| *id).collect()
    }

    /// Whether an operation in flight that was submitted as a write stores what a step waits for.
    pub fn is_to_be_written(&self, program: &Program, step: &Step) -> bool {
        let mut submitted = self.ops.values().filter_map(|op| program.step_of_line(op.line));
        submitted.any(|other| other.what == "write_value" && writes(other, step.get("word"), step.get("value")))
    }

    /// Who waits for whom.
    pub fn edges(&self) -> impl Iterator<Item = (Who, Who)> + '_ {
        self.edges.iter().flat_map(|(from, all)| all.iter().map(|to| (*from, *to)))
    }

    /// Whether a thread stands in a driver call, so that the guard can see it.
    pub fn in_a_call(&self) -> bool {
        self.threads.iter().any(|thread| thread.at == "call")
    }
}

fn writes(step: &Step, word: Option<u64>, value: Option<u64>) -> bool {
    let (to, of) = match step.what {
        "write_value" | "store" => (step.get("value"), step.get("word")),
        "launch" | "graph" => (step.get("to"), step.get("raise")),
        _ => return false,
    };
    word.is_some() && of == word && to >= value
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "stream nonblocking\nstream nonblocking\n\
        0 wait_value stream=0 word=0 value=1\n0 write_value stream=0 word=1 value=1\n\
        0 wait_value stream=1 word=1 value=1\n0 write_value stream=1 word=0 value=1\n0 synchronize stream=0\n";

    fn stuck(text: &str, program: &Program) -> Stuck {
        let Some(Truth::Stuck(stuck)) = Truth::parse(text, program) else { panic!("not stuck") };
        *stuck
    }

    #[test]
    fn two_waits_for_each_other_are_the_minimal_set_and_their_followers_are_not() {
        let program = Program::parse(PROGRAM).unwrap();
        let text = "stuck 5\nthread 0 100 call 7 -1\nop 1 3 2 0\nop 2 4 0 0\nop 3 5 2 0\nop 4 6 0 0\nop 9 7 0 0\n\
            waits 2 1\nwaits 4 3\nwaits 9 2\ndriver 100 1 9 0 0 0 0\nend\n";
        let stuck = stuck(text, &program);
        assert_eq!(stuck.minimal(), [1, 2, 3, 4].map(Who::Op).into());
        assert_eq!(stuck.culprits(&program), [1, 2, 3, 4].into());
        assert!(stuck.in_a_call());
    }

    #[test]
    fn a_wait_that_nothing_writes_is_last_and_what_is_behind_it_is_not() {
        let program = Program::parse(
            "stream nonblocking\n0 wait_value stream=0 word=0 value=1\n0 memset stream=0\n0 synchronize stream=0\n",
        )
        .unwrap();
        let text = "stuck 5\nthread 0 100 call 4 -1\nop 1 2 2 0\nop 2 3 0 0\nop 9 4 0 0\nwaits 2 1\nwaits 9 2\ndriver 100 1 9 0 0 0 0\nend\n";
        assert_eq!(stuck(text, &program).minimal(), [Who::Op(1)].into());
    }

    #[test]
    fn what_was_not_written_whole_says_nothing() {
        let program = Program::default();
        assert!(Truth::parse("stuck 5\nthread 0 100 call 7 -1\n", &program).is_none());
        assert!(matches!(
            Truth::parse("completed\nlongest 12\nend\n", &program),
            Some(Truth::Completed { longest: 12 })
        ));
    }
}
