//! A rank that is late: what the processes of a job say of themselves while one of them waits for its peers, and whether that wait is a hang.
//!
//! The decision is one for the job. A rank sees that it waits, and not for whom; a rank that is late sees what it does, and not who waits. So:
//!
//! 1. The watchdog of a rank whose wait for peers is past the threshold asks, by the job's marker, before it calls that wait a hang.
//! 2. Every process of the job that sees the question looks at itself for as long as it is repeated, and leaves a [`Statement`] beside the marker. The
//!    command `lazyguard run` leaves one for each rank without a guard, such as one that imports its modules.
//! 3. The rank that waits reads the statements whenever it asks ([`Others`]). While one of them moves, the wait is slow. It is a hang once none has
//!    moved for the threshold, or where the setting's time is over. A process that waits for peers itself does not move, whatever its threads do.
//! 4. A process that stands still, and waits for no peers, is named with what it stands at: soon after the question, and in the report of the hang.
//!
//! Must not: compare the clocks of two processes. A statement counts what it has seen, and its reader notes when that number grew.

use crate::diagnose::LateRank;
use crate::evidence::{begun, namespace, Class, Evidence, Source};
use crate::run_folder::file::{LATE, OF_A_JOB};
use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long no process must have moved at least: each of them needs time to see the question, and to look at itself twice.
const LEAST_STILL: Nanos = 3_000_000_000;
/// The pause between two looks at a process.
const LEAST_PAUSE: Nanos = 200_000_000;
const LONGEST_PAUSE: Nanos = 1_000_000_000;
/// The pause between two questions of a rank that waits.
const LEAST_ASKS_EVERY: Nanos = 250_000_000;
const LONGEST_ASKS_EVERY: Nanos = 5_000_000_000;
/// At first it asks more often, so that the rank that is behind is named soon.
const SOON: Nanos = 10_000_000_000;
const ASKS_SOON: Nanos = 1_500_000_000;
/// How long a process looks at itself after a question, at least.
const LEAST_ASKED: Nanos = 10_000_000_000;
/// A look takes at most one part in so many of the time, as far as the others still hear of each move.
const LOOK_SHARE: Nanos = 10;
/// A process that has moved may go on until so many looks have shown that it stands.
const LOOKS: u64 = 2;
/// A process that says nothing may lack a processor: it moves, or may still answer, for so many times as long at most.
const SILENT: Nanos = 4;
/// The time that the asking thread itself lacks a processor counts so often: others lack it as well.
const LACKS: Nanos = 3;
/// More than a statement has.
pub const MOST_BYTES: u64 = 16 << 10;
const MOST_NAMED: usize = 8;

/// Begins the line of the marker by which a rank that waits asks.
pub const QUESTION: &[u8] = b"late ";

/// The question in a marker, or nothing.
pub fn question(marker: &[u8]) -> &[u8] {
    marker.split_inclusive(|&b| b == b'\n').find(|line| line.starts_with(QUESTION)).unwrap_or_default()
}

/// Ends the name of a file that is being written.
pub const UNFINISHED: &str = ".new";

/// Begins the names of the statements beside a job's marker; the machine and the process follow. A job's name has no such sign.
pub fn prefix(marker: &str) -> Option<String> {
    marker.strip_prefix(OF_A_JOB).map(|job| format!("{LATE}{job}+"))
}

/// The statement of a process about itself, as a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub rank: String,
    pub host: String,
    pub process: u32,
    /// With the number and the machine they tell the process from every other one; 0 and nothing where they are not known.
    #[serde(default)]
    pub began: u64,
    #[serde(default)]
    pub namespace: String,
    /// How often the process was looked at, and how often it had moved since the look before.
    pub looks: u64,
    pub moved: u64,
    /// The time between the looks that have seen it stand still, since it last moved.
    #[serde(default)]
    pub stood_nanos: Nanos,
    /// Nothing where it waits for peers itself.
    pub class: Option<Class>,
    pub sentence: String,
}

impl Statement {
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub fn of(source: &Source, rank: String, host: String, process: u32) -> Self {
        let (began, namespace) = (begun(source, process).unwrap_or(0), namespace(source));
        Self { rank, host, process, began, namespace, ..Self::default() }
    }

    /// Whether its process has ended. A process of another machine, or numbered by another namespace, may live.
    pub fn is_of_a_former_process(&self, source: &Source, host: &str) -> bool {
        let can_tell = self.host == host && self.began != 0 && !self.namespace.is_empty();
        can_tell && self.namespace == namespace(source) && begun(source, self.process) != Some(self.began)
    }

    /// Adds a look, and the time since the one before. `submitted`: it has submitted meanwhile.
    pub fn looked(&mut self, evidence: &Evidence, submitted: bool, between: Nanos) {
        self.looks += 1;
        // One that lacks a processor goes on where it gets one.
        let moves = evidence.moves || submitted || evidence.class == Class::Starved;
        self.moved += u64::from(moves);
        self.stood_nanos = if moves { 0 } else { self.stood_nanos.saturating_add(between) };
        self.class = Some(if submitted && !evidence.moves { Class::Computes } else { evidence.class });
        self.sentence = match submitted && !evidence.moves {
            true => "submits work".to_owned(),
            false => evidence.sentence.clone(),
        };
    }

    pub fn waits(&mut self) {
        self.looks += 1;
        (self.class, self.stood_nanos) = (None, 0);
        self.sentence.clear();
    }
}

/// The pause between two looks at a process while a rank waits, the last of which has cost so much.
pub fn pause(threshold: Nanos, cost: Nanos) -> Nanos {
    (threshold / 4).max(cost.saturating_mul(LOOK_SHARE)).clamp(LEAST_PAUSE, LONGEST_PAUSE)
}

/// How long a process looks at itself after the newest question.
pub fn asked_for(threshold: Nanos) -> Nanos {
    threshold.saturating_mul(2).max(LEAST_ASKED)
}

struct Known {
    newest: Statement,
    /// When its number of moves last grew, and when that of its looks.
    moved: Option<Nanos>,
    looked: Nanos,
    /// How many looks there were when it last moved.
    looks_then: u64,
}

/// The statements that a waiting rank has read, by their files' names.
#[derive(Default)]
pub struct Others {
    /// When this rank first asked.
    asked: Option<Nanos>,
    /// How long the asking thread had lacked a processor before the question, and since.
    lacked: Option<(Nanos, Nanos)>,
    known: BTreeMap<String, Known>,
}

impl Others {
    pub fn ask(&mut self, now: Nanos) {
        self.asked.get_or_insert(now);
    }

    /// How long the asking thread has lacked a processor so far.
    pub fn lacks(&mut self, in_all: Nanos) {
        let (before, _) = self.lacked.unwrap_or((in_all, 0));
        self.lacked = Some((before, in_all.saturating_sub(before)));
    }

    /// How long a process may need to answer.
    fn answers_within(&self, threshold: Nanos) -> Nanos {
        let (new, lacked) = (is_new_for(threshold), self.lacked.map_or(0, |(_, since)| since));
        new.saturating_add(lacked.saturating_mul(LACKS)).min(new.saturating_mul(SILENT))
    }

    /// The pause before the next question.
    pub fn asks_again_in(&self, now: Nanos, threshold: Nanos) -> Nanos {
        let is_new = self.asked.is_none_or(|asked| now.saturating_sub(asked) < SOON);
        (threshold / 4).clamp(LEAST_ASKS_EVERY, if is_new { ASKS_SOON } else { LONGEST_ASKS_EVERY })
    }

    pub fn hear(&mut self, file: &str, statement: Statement, now: Nanos) {
        let before = self.known.get(file);
        let grew = |of: fn(&Statement) -> u64| of(&statement) > before.map_or(0, |known| of(&known.newest));
        let moved = if grew(|says| says.moved) { Some(now) } else { before.and_then(|known| known.moved) };
        let looked = if grew(|says| says.looks) { now } else { before.map_or(now, |known| known.looked) };
        let looks_then = before.filter(|_| moved != Some(now)).map_or(statement.looks, |known| known.looks_then);
        self.known.insert(file.to_owned(), Known { newest: statement, moved, looked, looks_then });
    }

    /// The ranks that are late and move; none of them as long as they may not have answered yet. `None`: no process of the job moves.
    pub fn late(&self, now: Nanos, threshold: Nanos, awake_since: Nanos) -> Option<Vec<LateRank>> {
        let within = self.answers_within(threshold);
        let lasts = |since: Nanos| now.saturating_sub(since) < within;
        let is_late = |known: &&Known| known.moves(now, within, threshold) && known.newest.class.is_some();
        let late: Vec<_> = self.known.values().filter(is_late).take(MOST_NAMED).map(Known::named).collect();
        let asked = self.asked.unwrap_or(now).max(awake_since);
        (!late.is_empty() || lasts(asked)).then_some(late)
    }

    /// The ranks that stand still, and do not wait for others themselves, as far as is known; those first of which more is known than that they wait.
    pub fn standing(&self, now: Nanos, threshold: Nanos) -> Vec<LateRank> {
        let stands = |known: &&Known| {
            let speaks = now.saturating_sub(known.looked) < is_new_for(threshold);
            speaks && known.newest.class.is_some() && known.newest.stood_nanos > 0
        };
        let mut standing: Vec<_> = self.known.values().filter(stands).map(Known::named).collect();
        standing.sort_by_key(|rank| matches!(rank.class, Class::Waits | Class::Rests | Class::Peer));
        standing.truncate(MOST_NAMED);
        standing
    }
}

/// How long what a process has said of itself holds.
fn is_new_for(threshold: Nanos) -> Nanos {
    threshold.max(LEAST_STILL)
}

impl Known {
    /// Whether it has moved of late, or looks have not shown yet that it stands.
    fn moves(&self, now: Nanos, within: Nanos, threshold: Nanos) -> bool {
        let has_moved = self.moved.is_some_and(|moved| now.saturating_sub(moved) < within);
        let is_silent = self.newest.looks < self.looks_then.saturating_add(LOOKS);
        let silent_for = now.saturating_sub(self.looked);
        has_moved || self.moved.is_some() && is_silent && silent_for < is_new_for(threshold).saturating_mul(SILENT)
    }

    fn named(&self) -> LateRank {
        let Statement { rank, host, process, class, sentence, stood_nanos, .. } = self.newest.clone();
        LateRank { rank, host, process, class: class.unwrap_or(Class::Waits), sentence, stood_nanos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn evidence(class: Class, moves: bool) -> Evidence {
        let sentence = format!("is seen: {class}");
        serde_json::from_value(serde_json::json!({"process": 7, "class": class, "moves": moves, "sentence": sentence}))
            .unwrap()
    }

    /// A process, and what it is seen to do, a second each: `m` moves, `s` stands still, `w` waits for peers, ` ` says nothing.
    struct Play {
        others: Others,
        says: Statement,
        at: Nanos,
    }

    impl Play {
        fn new() -> Self {
            let mut others = Others::default();
            others.ask(0);
            Self { others, says: Statement { rank: "1".to_owned(), process: 7, ..Statement::default() }, at: 0 }
        }

        fn does(&mut self, seconds: &str) -> &mut Self {
            for second in seconds.chars() {
                self.at += SECOND;
                match second {
                    'm' => self.says.looked(&evidence(Class::Computes, true), false, SECOND),
                    's' => self.says.looked(&evidence(Class::File, false), false, SECOND),
                    'w' => self.says.waits(),
                    _ => continue,
                }
                self.others.hear("host-7", self.says.clone(), self.at);
            }
            self
        }

        fn late(&self) -> Option<usize> {
            self.others.late(self.at, 5 * SECOND, 0).map(|late| late.len())
        }
    }

    #[test]
    fn a_wait_is_a_hang_once_nothing_has_moved_for_the_threshold() {
        for (seconds, expect) in [
            ("", Some(0)),
            ("    ", Some(0)),
            ("     ", None),
            ("ssss", Some(0)),
            ("sssss", None),
            ("wwwww", None),
            ("m", Some(1)),
            ("mmmmmmmmmmmmmmmmmmmm", Some(1)),
            ("mmmmmmmmmmssss", Some(1)),
            ("mmmmmmmmmmsssss", None),
            ("mmmmmmmmmm                   ", Some(1)),
            ("mmmmmmmmmm                    ", None),
            ("mmmmmmmmmms    ", Some(1)),
            ("mmmmmmmmmmss  ", Some(1)),
            ("mmmmmmmmmmss   ", None),
            ("sssssssssm", Some(1)),
            ("ssssmssssmssssmssss", Some(1)),
            ("mmmmmmmmmmw", None),
            ("wwwwwwwwwwm", Some(1)),
        ] {
            assert_eq!(Play::new().does(seconds).late(), expect, "{seconds:?}");
        }
    }

    #[test]
    fn one_process_that_moves_is_enough_and_is_named() {
        let mut play = Play::new();
        play.does("sssssssssm");
        let waits = Statement { rank: "2".to_owned(), looks: 9, ..Statement::default() };
        play.others.hear("host-8", waits, play.at);
        let late = play.others.late(play.at, 5 * SECOND, 0).unwrap();
        assert_eq!(late.len(), 1);
        assert_eq!((late[0].rank.as_str(), late[0].process, late[0].class), ("1", 7, Class::Computes));
        assert_eq!(late[0].sentence, "is seen: computes");
    }

    #[test]
    fn a_look_that_was_missed_is_made_up_for_by_the_count() {
        let mut play = Play::new();
        play.does("sssss");
        assert_eq!(play.late(), None);
        // Between two reads it has moved, and stands again.
        play.says.looked(&evidence(Class::Computes, true), false, SECOND);
        play.says.looked(&evidence(Class::File, false), false, SECOND);
        play.does("s");
        assert_eq!(play.late(), Some(1));
    }

    #[test]
    fn a_short_threshold_leaves_the_processes_time_to_answer_and_a_job_that_was_stopped_as_well() {
        let mut others = Others::default();
        others.ask(SECOND);
        let short = SECOND / 10;
        assert_eq!(others.late(4 * SECOND - 1, short, 0), Some(vec![]));
        assert_eq!(others.late(4 * SECOND, short, 0), None);
        others.ask(10 * SECOND);
        assert_eq!(others.late(10 * SECOND, short, 0), None, "it was asked before");
        assert_eq!(others.late(10 * SECOND, short, 8 * SECOND), Some(vec![]), "the job was stopped until then");
    }

    #[test]
    fn a_rank_that_stands_still_is_named_with_the_time_that_the_looks_have_seen() {
        let mut play = Play::new();
        let named = |play: &Play| {
            let ranks = play.others.standing(play.at, 5 * SECOND).into_iter();
            ranks.map(|rank| (rank.process, rank.stood_nanos / SECOND)).collect::<Vec<_>>()
        };
        assert_eq!(named(play.does("mm")), []);
        assert_eq!(named(play.does("sss")), [(7, 3)], "though it moved a moment ago");
        assert_eq!(named(play.does("w")), []);
        assert_eq!(named(play.does("s")), [(7, 1)]);
        // A process that only waits comes behind.
        let mut waits = Statement { process: 6, ..Statement::default() };
        waits.looked(&evidence(Class::Waits, false), false, SECOND);
        play.others.hear("host-6", waits, play.at);
        assert_eq!(named(&play), [(7, 1), (6, 1)]);
        assert_eq!(named(play.does("     ")), [], "it says nothing any more");
    }

    #[test]
    fn a_rank_that_lacks_a_processor_itself_leaves_the_others_more_time() {
        let mut others = Others::default();
        others.ask(0);
        let late = |others: &Others, at| others.late(at * SECOND, SECOND, 0).map(|late| late.len());
        others.lacks(7 * SECOND);
        assert_eq!(
            [2, 3].map(|at| late(&others, at)),
            [Some(0), None],
            "what it lacked before the question is nothing"
        );
        others.lacks(8 * SECOND);
        assert_eq!([5, 6].map(|at| late(&others, at)), [Some(0), None]);
        others.lacks(60 * SECOND);
        assert_eq!([11, 12].map(|at| late(&others, at)), [Some(0), None], "four times as long at most");
    }

    #[test]
    fn a_rank_asks_often_at_first() {
        let mut others = Others::default();
        let of = |others: &Others, now, threshold| others.asks_again_in(now, threshold);
        assert_eq!(of(&others, 0, 30 * SECOND), ASKS_SOON);
        others.ask(SECOND);
        assert_eq!(
            [SECOND / 10, 3 * SECOND].map(|threshold| of(&others, SECOND, threshold)),
            [SECOND / 4, 3 * SECOND / 4]
        );
        assert_eq!([10, 11].map(|now| of(&others, now * SECOND, 30 * SECOND)), [ASKS_SOON, 5 * SECOND]);
    }

    #[test]
    fn a_statement_of_a_process_that_has_ended_is_known() {
        let (source, host) = (Source::machine(), "node7");
        let own = Statement::of(&source, "1".to_owned(), host.to_owned(), std::process::id());
        assert!(own.began != 0 && own.namespace.starts_with("pid:["), "{own:?}");
        assert!(!own.is_of_a_former_process(&source, host));
        let another = Statement { began: own.began + 1, ..own.clone() };
        assert!(another.is_of_a_former_process(&source, host));
        let elsewhere = [
            Statement { host: "node8".to_owned(), ..another.clone() },
            Statement { namespace: "pid:[1]".to_owned(), ..another.clone() },
            Statement { namespace: String::new(), ..another.clone() },
            Statement { began: 0, ..another },
        ];
        assert!(elsewhere.iter().all(|says| !says.is_of_a_former_process(&source, host)));
    }

    #[test]
    fn submitting_and_the_lack_of_a_processor_are_moves() {
        let moved = |class: Class, moves: bool, submitted: bool| {
            let mut says = Statement::default();
            says.looked(&evidence(class, moves), submitted, SECOND);
            (says.moved, says.sentence)
        };
        assert_eq!(moved(Class::File, false, false), (0, "is seen: file".to_owned()));
        assert_eq!(moved(Class::Waits, false, true), (1, "submits work".to_owned()));
        assert_eq!(moved(Class::Starved, false, false), (1, "is seen: starved".to_owned()));
        assert_eq!(moved(Class::File, true, true), (1, "is seen: file".to_owned()));
    }

    #[test]
    fn looks_follow_each_other_at_a_quarter_of_the_threshold_within_limits() {
        assert_eq!([0, 2 * SECOND, 30 * SECOND].map(|threshold| pause(threshold, 0)), [SECOND / 5, SECOND / 2, SECOND]);
        assert_eq!(pause(2 * SECOND, SECOND / 16), 5 * SECOND / 8, "a look takes a tenth of the time");
        assert_eq!(pause(2 * SECOND, SECOND), SECOND, "and each move is heard of before it counts as none");
        assert_eq!([SECOND, 30 * SECOND].map(asked_for), [10 * SECOND, 60 * SECOND]);
    }
}
