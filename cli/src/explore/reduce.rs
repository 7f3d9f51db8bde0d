//! From a schedule that hangs to the call that has to come late: the fewest holds that still hang, by delta debugging (Zeller, Hildebrandt
//! 2002), and of each the last call of its thread that may be held, until the first one for which that suffices.

use super::schedule::{CallName, Hold, Point, Points, Schedule};
use super::{Explorer, Found};
use crate::words::Failure;

/// The most runs by which a schedule is made small.
const MOST_RUNS: u64 = 64;
/// The most runs for a hold's call, and for the one that it waits for.
const MOST_TRIES: usize = 8;

impl Explorer {
    /// The same hang by the fewest holds.
    pub fn made_small(&mut self, found: &Found, bare: &[Points]) -> Result<Found, Failure> {
        let budget = found.schedule.budget;
        let (runner, progress) = (&self.runner, &mut self.progress);
        let mut last = None;
        let mut tries = 0;
        let mut hangs = |holds: &[Hold]| {
            if tries == MOST_RUNS {
                return Ok(false);
            }
            tries += 1;
            progress.tell(format!("found in run {}: making the schedule small, try {tries}", found.run));
            let schedule = Schedule { budget, holds: holds.to_vec() };
            let ran = runner.run("small", &schedule, &[])?;
            runner.forget("small");
            let hung = ran.hung.is_some();
            if hung {
                last = Some(Found { schedule, ran, run: found.run, ..Found::default() });
            }
            Ok(hung)
        };
        let carried_out = found.schedule.carried_out(&found.ran.ranks);
        let all = match carried_out.len() {
            0 | 1 => carried_out,
            _ if hangs(&carried_out)? => carried_out,
            _ if hangs(&found.schedule.holds)? => found.schedule.holds.clone(),
            _ => return Ok(found.clone()),
        };
        let holds = match hangs(&[])? && hangs(&[])? {
            // It hangs now and then by its ordinary timing.
            true => Vec::new(),
            false => sharpen(reduce(all, &mut hangs)?, [bare, &found.ran.ranks], &mut hangs)?,
        };
        let last = last.filter(|last| last.schedule.holds == holds);
        Ok(last.unwrap_or_else(|| Found { schedule: Schedule { budget, holds }, ..found.clone() }))
    }
}

/// `bare` is a run that was held nowhere, `hung` the one that hung.
fn sharpen(
    mut holds: Vec<Hold>,
    [bare, hung]: [&[Points]; 2],
    hangs: &mut impl FnMut(&[Hold]) -> Result<bool, Failure>,
) -> Result<Vec<Hold>, Failure> {
    for n in 0..holds.len() {
        let first = holds[n].clone();
        let comes_later = |held: &Point, point: &Point| point.thread == held.thread && point.at > held.at;
        for call in calls_near(&first, bare, comes_later) {
            let until = first.until.clone().filter(|until| *until != call);
            if !hangs_with(&mut holds, n, Hold { call, until, ..first.clone() }, hangs)? {
                break;
            }
        }
        let last = holds[n].clone();
        let came_meanwhile =
            |held: &Point, point: &Point| point.thread != held.thread && (held.came..held.at).contains(&point.at);
        for until in calls_near(&first, hung, came_meanwhile) {
            let is_known = last.until.as_ref() == Some(&until);
            if is_known || hangs_with(&mut holds, n, Hold { until: Some(until), ..last.clone() }, hangs)? {
                break;
            }
        }
    }
    Ok(holds)
}

/// No hold of the result can be left out; `hangs` makes a run.
fn reduce(all: Vec<Hold>, mut hangs: impl FnMut(&[Hold]) -> Result<bool, Failure>) -> Result<Vec<Hold>, Failure> {
    let (mut holds, mut parts) = (all, 2);
    while holds.len() > 1 {
        let chunks: Vec<Vec<Hold>> = holds.chunks(holds.len().div_ceil(parts)).map(<[Hold]>::to_vec).collect();
        let without = |n: usize| [&chunks[..n], &chunks[n + 1..]].concat().concat();
        let rests = (0..chunks.len()).filter(|_| chunks.len() > 2).map(without);
        let mut smaller = None;
        for (part, is_rest) in chunks.iter().cloned().map(|part| (part, false)).chain(rests.map(|rest| (rest, true))) {
            if hangs(&part)? {
                smaller = Some((part, is_rest));
                break;
            }
        }
        match smaller {
            Some((part, is_rest)) => (holds, parts) = (part, if is_rest { (parts - 1).max(2) } else { 2 }),
            None if parts >= holds.len() => break,
            None => parts = (parts * 2).min(holds.len()),
        }
    }
    Ok(holds)
}

/// Puts this hold in the place of another, if two of three runs still hang so: on a busy machine the other call may come too late once.
fn hangs_with(
    holds: &mut Vec<Hold>,
    n: usize,
    hold: Hold,
    hangs: &mut impl FnMut(&[Hold]) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let mut tried = holds.clone();
    tried[n] = hold;
    let hung = hangs(&tried)? || hangs(&tried)? && hangs(&tried)?;
    if hung {
        *holds = tried;
    }
    Ok(hung)
}

/// The first calls of the held call's process that are so, seen from that call.
fn calls_near(hold: &Hold, run: &[Points], is_wanted: impl Fn(&Point, &Point) -> bool) -> Vec<CallName> {
    let held = hold.of(run).find_map(|points| Some((points, points.find(&hold.call)?)));
    let near = held.map(|(points, held)| points.calls.iter().filter(move |point| is_wanted(held, point)));
    near.into_iter().flatten().map(|point| point.call.clone()).take(MOST_TRIES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_of_the_last_call_that_matters_until_the_first() {
        let name = |thread: u32, call: &str| CallName(format!("{call}@000%{thread}#1"));
        let point =
            |came, at, thread, call: &str| Point { came, at, thread, call: name(thread, call), held: came != at };
        let points = |calls| [Points { calls, ..Points::default() }];
        let bare = points(vec![
            point(1, 1, 2, "begin"),
            point(2, 2, 2, "free"),
            point(3, 3, 2, "end"),
            point(9, 9, 1, "sync"),
        ]);
        let hung = points(vec![
            point(4, 4, 1, "other"),
            point(5, 5, 1, "wait"),
            point(6, 6, 1, "sync"),
            point(1, 7, 2, "begin"),
        ]);
        let hold =
            |call, until| Hold { rank: String::new(), call: name(2, call), until: Some(name(1, until)), most: 5 };
        // The free has to come after the wait.
        let mut hangs = |holds: &[Hold]| {
            let is_late = ["wait", "sync"].iter().any(|call| holds[0].until == Some(name(1, call)));
            Ok(is_late && holds[0].call != name(2, "end"))
        };
        let sharp = sharpen(vec![hold("begin", "sync")], [&bare, &hung], &mut hangs).unwrap();
        assert_eq!(sharp, [hold("free", "wait")]);
        // The machine is busy in every third run; or it hangs in every third alone.
        let mut runs = 0;
        let mut busy = |holds: &[Hold]| {
            runs += 1;
            Ok(runs % 3 != 1 && hangs(holds)?)
        };
        let sharp = sharpen(vec![hold("begin", "sync")], [&bare, &hung], &mut busy).unwrap();
        assert_eq!(sharp, [hold("free", "wait")]);
        let mut seldom = |holds: &[Hold]| {
            runs += 1;
            Ok(runs % 3 == 1 && hangs(holds)?)
        };
        let hardly = sharpen(vec![hold("begin", "sync")], [&bare, &hung], &mut seldom).unwrap();
        assert_ne!(hardly, [hold("free", "wait")]);
    }

    #[test]
    fn what_remains_is_what_the_hang_needs() {
        let hold = |n: usize| Hold { rank: n.to_string(), call: CallName(String::new()), until: None, most: 0 };
        let all: Vec<_> = (0..13).map(hold).collect();
        for needed in [&[4][..], &[0, 12], &[2, 3, 9], &[]] {
            let mut runs = 0;
            let hangs = |holds: &[Hold]| {
                runs += 1;
                Ok(needed.iter().all(|n| holds.contains(&hold(*n))))
            };
            let left = reduce(all.clone(), hangs).unwrap();
            let expect: Vec<_> = needed.iter().copied().map(hold).collect();
            assert!(left == expect || needed.is_empty() && left.len() == 1, "{left:?}");
            assert!(runs < 60, "{runs}");
        }
    }
}
