//! The properties that hold between the truth of a run and what the guard did and said.

use crate::play::{Mode, Played, Stage, THRESHOLD};
use crate::play_jobs::ENDED_FOR_HANG;
use crate::program::Program;
use crate::sight::said_well;
use crate::truth::Stuck;
use lazyguard_e2e::{report_of, Json, Outcome, Work};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often what differs is played again, bare and guarded, before the guard is blamed: programs may end in more than one way.
pub(crate) const AGAIN: usize = 4;
/// The driver is asked right after a report; some drivers' answers are of no use.
const ASKED: Duration = Duration::from_secs(3);

/// The result of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Everything holds; how it ended.
    Good(&'static str),
    /// Everything holds of a program that is stuck and reported; how, and the size of its minimal set.
    Told(&'static str, usize),
    /// A property does not hold: its name, and the facts.
    Bad(&'static str, String),
}

/// Plays a program bare and in a mode.
///
/// # Panics
///
/// If something is not built, or the command cannot read the recording.
pub fn check(name: &str, program: &Program, mode: Mode) -> Found {
    let work = Work::new(name);
    let stage = Stage::new(&work, program);
    let bare = stage.bare();
    if bare.moved || bare.truth.is_none() {
        return Found::Bad("oracle", format!("bare it neither ended nor stayed as it was: {}", bare.outcome));
    }
    let agreed = Cell::new(Instant::now());
    let played = stage.guarded(mode, |stuck, hang, out| {
        is_complete(hang)
            && said_well(stuck, program, hang).is_ok()
            && (mode.acts() || is_due(&agreed) && the_recording_alone(&work, out, hang).is_none())
    });
    match (&played.truth, played.stuck()) {
        // Its truth takes a third of a second, and on a busy machine more.
        (None, _) if mode.acts() && played.outcome.code.is_some() && bare.stuck().is_some() => {
            Found::Good("stuck, and ended at once")
        }
        (None, _) => Found::Bad("harm", format!("guarded it neither ended nor was stuck: {}", played.outcome)),
        (_, Some(stuck)) if bare.completed().is_some() => {
            match only_guarded(&stage, mode, |played| played.stuck().is_some()) {
                true => Found::Bad("harm", format!("it completes bare and is stuck guarded: {stuck:#?}")),
                false => judge_stuck(&work, program, mode, stuck, &played),
            }
        }
        (_, Some(stuck)) => judge_stuck(&work, program, mode, stuck, &played),
        _ => judge_completed(&stage, mode, &bare, &played),
    }
}

/// Whether guarded runs are so each time, and bare ones never, nor those whose kernels are all loaded at the start: first uses take time and keep others
/// waiting, so that programs whose end is a matter of order may end otherwise without them.
fn only_guarded(stage: &Stage<'_>, mode: Mode, so: impl Fn(&Played) -> bool) -> bool {
    (0..AGAIN).all(|_| !so(&stage.bare()) && !so(&stage.bare_and_loaded()) && so(&stage.guarded(mode, |_, _, _| true)))
}

pub(crate) fn ends_otherwise(guarded: &Outcome, bare: &Outcome) -> Found {
    Found::Bad("harm", format!("it ends otherwise than bare: {guarded}\nbare: {bare}"))
}

/// A line of a run that is not the guard's, and that bare ones do not have.
pub(crate) fn says_more(guarded: &Outcome) -> Option<Found> {
    let line = guarded.stderr.lines().find(|line| !line.starts_with("lazyguard: "))?;
    Some(Found::Bad("harm", format!("a line that bare runs do not have: {line}")))
}

fn judge_completed(stage: &Stage<'_>, mode: Mode, bare: &Played, played: &Played) -> Found {
    let longest = played.completed().unwrap_or_default();
    // What has consequences has them for what takes long, too: that is what the setting says.
    let excused = mode.acts() && u128::from(longest) >= THRESHOLD.as_millis();
    if bare.completed().is_some() && bare.end() != played.end() && !excused {
        let as_bare = bare.end();
        if only_guarded(stage, mode, |played| played.end() != as_bare) {
            return ends_otherwise(&played.outcome, &bare.outcome);
        }
    }
    if let Some(more) = says_more(&played.outcome) {
        return more;
    }
    if let Some(hang) = played.hang.as_ref().filter(|hang| hang["status"] == "hang") {
        let certain = verdicts(hang).iter().any(|verdict| verdict["confidence"] == "certain");
        if certain || u128::from(longest) < THRESHOLD.as_millis() {
            return Found::Bad(
                "no false hang",
                format!("its longest call took {longest} ms, and the report is {}", in_short(hang)),
            );
        }
    }
    Found::Good(if longest as u128 >= THRESHOLD.as_millis() { "slow" } else { "completed" })
}

fn judge_stuck(work: &Work, program: &Program, mode: Mode, stuck: &Stuck, played: &Played) -> Found {
    if played.moved && !mode.acts() {
        return Found::Bad("oracle", format!("guarded it was stuck, and moved: {stuck:#?}"));
    }
    if !stuck.in_a_call() {
        return Found::Good("stuck outside the driver");
    }
    if mode == Mode::Kills && played.outcome.code != Some(ENDED_FOR_HANG) {
        return Found::Bad("silence", format!("the run did not end it: {}\n{stuck:#?}", played.outcome));
    }
    let told = |how| Found::Told(how, stuck.minimal().len());
    let Some(hang) = &played.hang else {
        return Found::Bad("silence", format!("nothing is said of it: {}\n{stuck:#?}", played.outcome));
    };
    if let Err(why) = said_well(stuck, program, hang) {
        let property = if hang["status"] == "hang" { "truth" } else { "silence" };
        return Found::Bad(property, format!("{why}\n{}\n{}", in_short(hang), played.outcome.stderr));
    }
    match the_recording_alone(work, &played.out, hang) {
        Some(other) if !mode.acts() => {
            Found::Bad("recording", format!("live: {}\nfrom the recording alone: {other}", in_short(hang)))
        }
        _ if verdicts(hang).iter().any(|verdict| verdict["code"] == "LG299") => told("stuck, by no known pattern"),
        _ => told("stuck"),
    }
}

pub(crate) fn verdicts(hang: &Json) -> &[Json] {
    hang["verdicts"].as_array().map_or(&[], Vec::as_slice)
}

/// Code, confidence and sentence of each verdict.
fn in_short(hang: &Json) -> String {
    let one = |verdict: &Json| format!("{} ({}) {}", verdict["code"], verdict["confidence"], verdict["sentence"]);
    format!("{}: {}", hang["status"], verdicts(hang).iter().map(one).collect::<Vec<_>>().join("; "))
}

/// Whether the recording is to be compared again: the verdicts that it has gained come into the report with the guard's next look.
fn is_due(compared: &Cell<Instant>) -> bool {
    let due = compared.get().elapsed() >= THRESHOLD;
    if due {
        compared.set(Instant::now());
    }
    due
}

/// Whether nothing is to be added to a report of a hang: the driver was asked, or has had the time to be.
fn is_complete(hang: &Json) -> bool {
    let at = |pointer: &str| hang[pointer].as_u64().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_nanos(at("armed_unix_nanos") + at("at")));
    hang["asked"] == true || age > ASKED
}

/// The command's words on the recording without the report, where that differs in code or culprits.
fn the_recording_alone(work: &Work, out: &Path, hang: &Json) -> Option<String> {
    let copy = work.folder("recording");
    for entry in fs::read_dir(out).unwrap_or_else(|error| panic!("{}: {error}", out.display())).flatten() {
        if entry.file_name() != "hang.json" && entry.path().is_file() {
            let _ = fs::copy(entry.path(), copy.join(entry.file_name()));
        }
    }
    let of_recording = &report_of(&copy)["recording"];
    let said = |report: &Json| -> BTreeSet<String> {
        let one = |verdict: &Json| format!("{} {}", verdict["code"], verdict["culprits"]);
        verdicts(report).iter().map(one).collect()
    };
    (said(hang) != said(of_recording)).then(|| in_short(of_recording))
}
