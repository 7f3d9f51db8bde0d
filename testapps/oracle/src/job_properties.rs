//! The properties that hold between the truth of a job and what `lazyguard run` did and said.

use crate::job::Job;
use crate::joined::Joined;
use crate::play::{Mode, THRESHOLD};
use crate::play_jobs::{Played, Stage, ENDED_FOR_HANG};
use crate::properties::{ends_otherwise, says_more, Found, AGAIN};
use lazyguard_e2e::{Json, Work};
use std::collections::BTreeSet;

/// Plays a job bare and in a mode.
///
/// # Panics
///
/// If something is not built, or the command cannot read the folder of the run.
pub fn check(name: &str, job: &Job, mode: Mode) -> Found {
    let work = Work::new(name);
    let stage = Stage::new(&work, job);
    let bare = stage.bare();
    if bare.moved || bare.stuck.is_none() && bare.completed.is_none() {
        return Found::Bad("oracle", format!("bare it neither ended nor stayed as it was: {}", bare.outcome));
    }
    let played = stage.guarded(mode);
    match (&played.stuck, played.completed) {
        (Some(stuck), _) => judge_stuck(&stage, mode, &bare, (stuck, &played)),
        (None, Some(longest)) => judge_completed(&stage, mode, &bare, (longest, &played)),
        (None, None) if played.outcome.code == Some(ENDED_FOR_HANG) => {
            Found::Bad("no false hang", format!("it was ended, and not stuck: {}", played.outcome))
        }
        (None, None) => Found::Bad("harm", format!("guarded it neither ended nor was stuck: {}", played.outcome)),
    }
}

/// Whether guarded runs are so each time, and bare ones never.
fn only_guarded(stage: &Stage<'_>, mode: Mode, so: impl Fn(&Played<'_>) -> bool) -> bool {
    (0..AGAIN).all(|_| !so(&stage.bare()) && so(&stage.guarded(mode)))
}

fn judge_completed(stage: &Stage<'_>, mode: Mode, bare: &Played<'_>, (longest, played): (u64, &Played<'_>)) -> Found {
    if bare.completed.is_some() && bare.end() != played.end() {
        let as_bare = bare.end();
        if only_guarded(stage, mode, |played| played.end() != as_bare) {
            return ends_otherwise(&played.outcome, &bare.outcome);
        }
    }
    if let Some(more) = says_more(&played.outcome) {
        return more;
    }
    let is_short = u128::from(longest) < THRESHOLD.as_millis();
    if is_short && played.outcome.stderr.contains("lazyguard: HANG") {
        return Found::Bad("no false hang", format!("its longest call took {longest} ms: {}", played.outcome));
    }
    Found::Good(if is_short { "completed" } else { "slow" })
}

fn judge_stuck(stage: &Stage<'_>, mode: Mode, bare: &Played<'_>, (stuck, played): (&Joined<'_>, &Played<'_>)) -> Found {
    if played.moved {
        return Found::Bad("oracle", format!("guarded it was stuck, and moved: {}", stuck.in_words()));
    }
    if bare.completed.is_some() && only_guarded(stage, mode, |played| played.stuck.is_some()) {
        return Found::Bad("harm", format!("it completes bare and is stuck guarded: {}", stuck.in_words()));
    }
    if !stuck.in_a_call() {
        return Found::Good("stuck outside the driver");
    }
    let facts = || format!("{}\n{}\n{}", played.report["ranks"]["sentence"], stuck.in_words(), played.outcome);
    if !["HANG", "SLOW"].iter().any(|word| played.outcome.stderr.contains(&format!("lazyguard: {word}"))) {
        return Found::Bad("silence", facts());
    }
    if played.outcome.code != Some(ENDED_FOR_HANG) {
        return Found::Bad("silence", format!("it was not ended: {}", facts()));
    }
    if !stuck.waits_across() {
        return Found::Good("stuck in one rank");
    }
    // The simulated NCCL loses none.
    if played.report["ranks"]["sentence"]
        .as_str()
        .is_some_and(|sentence| sentence.contains("a signal between them was lost"))
    {
        return Found::Bad("truth", facts());
    }
    let named = named(&played.report["ranks"]);
    if named.is_empty() {
        return Found::Good("stuck, with no rank named");
    }
    match named.is_subset(&stuck.blamed()) {
        true => Found::Good("stuck"),
        false => Found::Bad("truth", format!("named: {named:?}; {}", facts())),
    }
}

/// The ranks that a report names: in the first words of its sentence, as those that differ, as blocked by themselves, or as that where the cause is.
fn named(ranks: &Json) -> BTreeSet<usize> {
    let sentence = ranks["sentence"].as_str().unwrap_or_default();
    let of = |key: &str| {
        let all = ranks[key].as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter_map(|one| one["rank"].as_u64()).map(|rank| rank as usize).collect::<BTreeSet<_>>()
    };
    if let Some(first) = sentence.split_once(" ha").and_then(|(who, _)| numbers(who)) {
        let different = of("different");
        return if different.is_empty() { first } else { different };
    }
    let odd: BTreeSet<_> = of("behind").union(&of("different")).copied().collect();
    let cause = || {
        let (_, rest) = sentence.split_once(": on rank ").or_else(|| sentence.split_once(", and rank "))?;
        numbers(&format!("rank {}", rest.split(' ').next()?))
    };
    if odd.is_empty() {
        cause().unwrap_or_default()
    } else {
        odd
    }
}

/// `rank 3` or `ranks 0, 2-4`.
fn numbers(words: &str) -> Option<BTreeSet<usize>> {
    let list = words.strip_prefix("ranks ").or_else(|| words.strip_prefix("rank "))?;
    let mut found = BTreeSet::new();
    for part in list.split(", ") {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        found.extend(first..=last);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_named_ranks_are_those_of_the_sentence_or_those_that_differ() {
        let said = |sentence: &str| {
            named(&json!({ "sentence": sentence, "behind": [{"rank": 1}], "different": [], "blocked": [] }))
        };
        assert_eq!(
            said("rank 3 has called collective 1 and is blocked behind it; rank 1 has not called it."),
            [3].into()
        );
        assert_eq!(said("ranks 0, 2-3 have not called collective 1."), [0, 2, 3].into());
        assert_eq!(said("ranks wait for each other: rank 1 waits."), [1].into());
        let blocked = json!({ "sentence": "every rank has called it, and rank 2 is blocked by itself: LG203." });
        assert_eq!(named(&blocked), [2].into());
        assert_eq!(
            named(&json!({ "sentence": "every rank has called it: on rank 1 stream 2 waits (LG203)." })),
            [1].into()
        );
        assert!(named(&Json::Null).is_empty());
    }
}
