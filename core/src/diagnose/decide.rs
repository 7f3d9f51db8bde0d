//! The patterns that a snapshot shows, the operation or call to blame, and the change.
//!
//! Each thread that waits gives a finding: the wait-for path to what does not end ([`super::paths`]). The first wait on it that the program
//! did not ask for gives the code. A call (a load, a release) that blocks the context explains the other threads blocked in that context.
//! The table of the parent module says when a finding counts as a hang.

use super::finding::{submits, Finding};
use super::late_rank::LateSeen;
use super::needs::{is_legacy, may_have_passed, Decision};
use super::operation::BusyStream;
use super::path::End;
use super::snapshot::{BlockedCall, Snapshot};
use super::unwatched::all_wait;
use super::verdict::{Confidence, Diagnosis, ShownRecord, Status, Verdict};
use super::{chain, messages};
use crate::api::{Class, Code, ThreadActivity};
use crate::{order, Nanos};

/// To make a context, the driver may wait for those that it makes for other processes of the machine, however short the threshold is.
const LEAST_TO_BEGIN: Nanos = 30_000_000_000;

pub fn diagnose(snapshot: &Snapshot) -> Diagnosis {
    Decision::new(snapshot).decide()
}

impl<'a> Decision<'a> {
    fn decide(&self) -> Diagnosis {
        let (stuck, slow): (Vec<_>, Vec<_>) = self.findings().into_iter().partition(|finding| self.counts(finding));
        if stuck.is_empty() {
            let slow: Vec<_> = slow.first().map(|finding| self.excuse(finding)).unwrap_or_default();
            let status = if slow.is_empty() { Status::Well } else { Status::Slow };
            return Diagnosis { status, verdicts: Vec::new(), slow };
        }
        let verdicts = stuck.into_iter().map(|finding| self.verdict(finding)).collect();
        Diagnosis { status: Status::Hang, verdicts, slow: Vec::new() }
    }

    /// The root cause first; whether or not they count as hangs by now.
    pub(super) fn findings(&self) -> Vec<Finding<'a>> {
        let mut past: Vec<_> = self.snapshot.blocked.iter().filter(|c| c.past_threshold).collect();
        // A thread in a call says more than one that polls.
        order::sort_by_key(&mut past, |call| call.queries.is_some());
        let mut findings: Vec<_> = past.iter().filter_map(|call| self.finding(call)).collect();
        if past.is_empty() {
            findings.extend(self.without_a_call());
        }
        let mut findings = self.merged(findings);
        self.let_others_help(&mut findings);
        self.join_the_held_up(&mut findings, &past);
        self.add_the_unexplained(&mut findings, &past);
        findings.extend(self.of_streams(&findings));
        order::sort_by_key(&mut findings, |finding| order(finding.code));
        findings
    }

    fn merged(&self, findings: Vec<Finding<'a>>) -> Vec<Finding<'a>> {
        // A launch may wait behind a call that needs an idle context, whichever was entered first.
        let launches = |of: &Finding<'a>| of.calls.first().is_some_and(|call| call.call.class() == Some(Class::Launch));
        let mut merged: Vec<Finding<'a>> = Vec::new();
        for mut finding in findings {
            let same = |other: &&mut Finding<'a>| {
                // If several calls block the context, the first one is the cause.
                let same_end =
                    other.culprits.first() == finding.culprits.first() && is_unseen(other) == is_unseen(&finding);
                other.code == finding.code && (self.holds_up(other) || same_end)
            };
            match merged.iter_mut().find(same) {
                Some(other) => {
                    if finding.code == Code::LG204 && launches(other) && !launches(&finding) {
                        std::mem::swap(other, &mut finding);
                    }
                    other.calls.extend(finding.calls);
                    other.conclusive |= finding.conclusive;
                }
                None => merged.push(finding),
            }
        }
        merged
    }

    /// A thread in a call that may return by itself may then satisfy the waits of others.
    fn let_others_help(&self, findings: &mut [Finding<'a>]) {
        let stuck = findings.iter().filter(|finding| finding.conclusive || self.holds_up(finding));
        let stuck: Vec<u32> = stuck.flat_map(|finding| finding.calls.iter().map(|call| call.thread)).collect();
        for finding in findings.iter_mut().filter(|f| matches!(f.code, Code::LG203 | Code::LG207)) {
            let own = |thread: u32| finding.calls.iter().any(|call| call.thread == thread);
            let may_help = |call: &BlockedCall| !own(call.thread) && !stuck.contains(&call.thread);
            if self.snapshot.blocked.iter().any(may_help) {
                finding.conclusive = false;
            }
        }
    }

    /// Adds threads that another thread's call blocks, in the context or by its next act.
    fn join_the_held_up(&self, findings: &mut Vec<Finding<'a>>, past: &[&'a BlockedCall]) {
        let Some(holder) = findings.iter().position(|finding| self.holds_up(finding)) else { return };
        let Some(first) = findings[holder].calls.first().copied() else { return };
        let context = first.context;
        let same = |call: &BlockedCall| call.context == 0 || context == 0 || call.context == context;
        let mut holder = findings.remove(holder);
        // The thread that blocks the context may be the one that would satisfy the other waits.
        let explained = |holder: &Finding<'a>, finding: &Finding<'a>| {
            let may_be = matches!(finding.code, Code::LG203 | Code::LG208 | Code::LG299 | Code::LG204)
                // It would block by itself as well, but the holder's call was there first.
                || self.holds_up(finding) && finding.culprits.first() == holder.culprits.first();
            may_be && !matches!(finding.path.end, End::Cycle(_)) && finding.calls.iter().all(|call| same(call))
        };
        findings.retain_mut(|finding| {
            let explained = explained(&holder, finding);
            if explained {
                if self.holds_up(finding) && finding.fix != holder.fix {
                    // Once the holder's call is gone, this one takes its place.
                    holder.fix = format!("{}; {}", holder.fix, finding.fix);
                }
                holder.conclusive |= self.holds_up(finding) && finding.conclusive;
                holder.calls.append(&mut finding.calls);
            }
            !explained
        });
        for call in past {
            let known = |finding: &Finding<'a>| finding.calls.iter().any(|c| std::ptr::eq(*c, *call));
            if same(call) && !known(&holder) && !findings.iter().any(known) {
                holder.calls.push(call);
            }
        }
        findings.insert(0, holder);
    }

    /// Adds the calls that have not returned and that nothing explains. A poll is none.
    fn add_the_unexplained(&self, findings: &mut Vec<Finding<'a>>, past: &[&'a BlockedCall]) {
        for call in past.iter().filter(|call| call.queries.is_none()) {
            if findings.iter().any(|finding| finding.calls.iter().any(|known| std::ptr::eq(*known, *call))) {
                continue;
            }
            let finding = self.unexplained(call);
            let same = |other: &&mut Finding<'a>| {
                let is_of_same = other.code == finding.code || !finding.culprits.is_empty();
                is_of_same && other.culprits.first() == finding.culprits.first() && is_unseen(other).is_none()
            };
            match findings.iter_mut().find(same) {
                Some(other) => other.calls.extend(finding.calls),
                None => findings.push(finding),
            }
        }
    }

    /// Whether other threads' calls in the context wait for this finding's first one.
    fn holds_up(&self, finding: &Finding<'a>) -> bool {
        let call = finding.calls.first();
        let class = call.and_then(|call| call.call.class());
        let is_full = || call.and_then(|call| call.stream.as_ref()).is_some_and(|stream| self.queue_is_full(stream));
        match finding.code {
            Code::LG202 | Code::LG205 => true,
            // A copy behind a kernel on its own stream holds up the threads that wait for the kernel.
            Code::LG204 if finding.culprits.first().is_some_and(|culprit| is_legacy(&culprit.stream)) => true,
            Code::LG204 => !matches!(class, Some(Class::Copy | Class::Set | Class::StreamSynchronize)),
            Code::LG208 => class.is_some_and(submits) && is_full(),
            _ => false,
        }
    }

    fn stood(&self, finding: &Finding<'a>) -> Nanos {
        let entered = finding.calls.iter().map(|call| call.entered).min();
        let since = entered.or(finding.at_rest).unwrap_or(self.snapshot.last_activity);
        let moved = match (&finding.path.end, asked_only(finding)) {
            // The progress of the streams is the reason that the call does not return.
            (End::Fed(..), _) => 0,
            // A failed context refuses what is submitted.
            (End::Failed(_), _) => 0,
            // Submissions to that stream are unknown: any call of the program may be one.
            (End::Unseen(_), true) => self.snapshot.last_activity,
            // A stream that is only polled, and submitted to meanwhile, is never idle but not stuck: a stuck one would fill its queue.
            (_, true) => self.on(finding).map_or(0, |s| s.moved.max(s.last_submitted)),
            (_, false) => self.on(finding).map_or(0, |s| s.moved),
        };
        self.snapshot.at.saturating_sub(since.max(moved).max(self.snapshot.awake_since))
    }

    fn on(&self, finding: &Finding<'a>) -> Option<&'a BusyStream> {
        finding.culprits.first().and_then(|culprit| self.snapshot.stream(culprit.stream.number))
    }

    /// The call that compiles, if it alone explains this finding's calls.
    fn waits_for_a_compiler(&self, finding: &Finding<'a>) -> Option<&'a BlockedCall> {
        let compiles = self.compiles().filter(|_| finding.code == Code::LG299 && !finding.calls.is_empty())?;
        let same = |call: &&BlockedCall| {
            std::ptr::eq(*call, compiles) || call.queries.is_none() && call.context == compiles.context
        };
        finding.calls.iter().all(same).then_some(compiles)
    }

    fn counts(&self, finding: &Finding<'a>) -> bool {
        if self.waits_for_a_compiler(finding).is_some() {
            return false;
        }
        let stood = self.stood(finding);
        let Snapshot { at, threshold_nanos, patience_nanos, last_activity, .. } = *self.snapshot;
        let acts = at.saturating_sub(last_activity) < threshold_nanos;
        let watched = finding.may_be_meant || asked_only(finding) && finding.path.may_be_meant() && acts;
        let least = match finding.path.end {
            _ if finding.conclusive => threshold_nanos,
            // No call shows that the kernel's end is waited for.
            _ if finding.is_awaited => patience_nanos.max(threshold_nanos).saturating_mul(2),
            End::Driver if finding.calls.iter().all(|call| begins_a_context(call)) => {
                patience_nanos.max(LEAST_TO_BEGIN)
            }
            _ => patience_nanos.max(threshold_nanos),
        };
        !watched && stood >= least && !self.is_late(finding, stood)
    }

    /// Whether it waits for a rank that moves, whatever in this process stands behind that wait.
    fn is_late(&self, finding: &Finding<'a>, stood: Nanos) -> bool {
        let late = self.snapshot.late.as_ref().filter(|_| finding.path.ends_at_ranks());
        late.is_some_and(|late| stood < late.most_nanos)
    }

    fn chain(&self, finding: &Finding<'a>) -> Vec<String> {
        let mut chain: Vec<_> = finding.calls.iter().take(1).map(|call| messages::blocked(call)).collect();
        chain.extend(finding.because.iter().cloned());
        chain.extend(chain::path(&finding.path));
        // A thread that polls many events waits once.
        let is_said = |call: &BlockedCall, before: &[&BlockedCall]| {
            call.queries.is_some() && before.iter().any(|said| said.thread == call.thread && said.queries.is_some())
        };
        let others = finding.calls.iter().enumerate().skip(1);
        let others = others.filter(|(at, call)| !is_said(call, &finding.calls[..*at]));
        chain.extend(others.map(|(_, call)| messages::waits_too(call)));
        chain
    }

    fn verdict(&self, finding: Finding<'a>) -> Verdict {
        let confidence = match (&finding.path.end, finding.code) {
            (_, Code::LG299)
                if finding.is_awaited || finding.calls.iter().any(|call| self.waits_for_its_kernel(call)) =>
            {
                Confidence::Likely
            }
            (_, Code::LG299) => Confidence::Possible,
            // A kernel of such a library hardly has another cause not to end.
            (_, Code::LG208) => Confidence::Likely,
            _ if !finding.conclusive => Confidence::Possible,
            (End::Cycle(_), _) => Confidence::Certain,
            _ => Confidence::Likely,
        };
        let calls = finding.calls.iter().map(|call| {
            let stream = call.stream.as_ref().map(|s| s.number);
            ShownRecord::new(format!("{} is entered", call.call), call.entered, Some(call.thread), stream)
        });
        let (title, fed) = match &finding.path.end {
            End::Fed(fed, _) => (messages::starved_title(finding.code), fed.iter().copied().cloned().collect()),
            _ => (finding.code.title(), Vec::new()),
        };
        Verdict {
            code: finding.code,
            title: title.to_owned(),
            confidence,
            sentence: format!("{}.", finding.sentence),
            held_back: finding.held_back.clone(),
            fed,
            threads: finding.calls.iter().map(|call| call.thread).collect(),
            chain: self.chain(&finding),
            evidence: calls.chain(chain::evidence(&finding.path)).collect(),
            culprits: finding.culprits,
            fix: finding.fix,
        }
    }

    /// Why a wait is not called a hang, then its path.
    fn excuse(&self, finding: &Finding<'a>) -> Vec<String> {
        if let Some(call) = self.waits_for_a_compiler(finding) {
            let end = chain::end(&finding.path);
            let chain = self.chain(finding).into_iter().filter(|line| !end.contains(line));
            return std::iter::once(format!("{}.", messages::compiles(call))).chain(chain).collect();
        }
        let waits = messages::waits_for(&finding.path);
        let mut lines = vec![format!("waits for {waits}: {}.", self.why_not_a_hang(finding))];
        lines.extend(self.chain(finding));
        lines
    }

    fn why_not_a_hang(&self, finding: &Finding<'a>) -> String {
        let stood = self.stood(finding);
        let moved = self.on(finding).map_or(0, |stream| stream.moved);
        if matches!(finding.path.end, End::Fed(..)) {
            return "a pause in what is submitted lets that call go on, so it may only be slow".to_owned();
        }
        if stood < self.snapshot.threshold_nanos && moved > 0 {
            return format!("it is still moving, and something ended there at {}", messages::time(moved));
        }
        match (&finding.path.end, messages::runnable(self.snapshot)) {
            (End::Driver, _) => "the driver may be at work in it, so it may only be slow".to_owned(),
            (End::Unseen(_), _) => "what that does is not known, so it may only be slow".to_owned(),
            (End::Runs(_), _) if finding.may_be_meant && all_wait(self.snapshot).is_some() => {
                "a signal's handler or another process may let a thread go on".to_owned()
            }
            (End::Runs(_), _) => "nothing known keeps it from ending, so it may only be slow".to_owned(),
            (End::Peers(..) | End::Meeting, _) => {
                self.snapshot.late.as_ref().map_or_else(|| "a rank may only be late".to_owned(), LateSeen::in_words)
            }
            (End::Host(host, _), _) if host.doing.is_some_and(ThreadActivity::goes_on) => {
                "the host function is under way, so it may only be slow".to_owned()
            }
            (End::Filled(..), _) => {
                "nothing known keeps what fills the device from ending, so it may only be slow".to_owned()
            }
            (_, Some(runnable)) => runnable,
            (End::Cycle(_), _) if finding.path.may_be_armed() => {
                "a store of the host to that memory lets the streams go on".to_owned()
            }
            (End::Unwritten(wait, _), _) if wait.holds.is_some() => {
                "that is memory of the host, which may still write there".to_owned()
            }
            (End::Unwritten(wait, _), _) if self.on(finding).is_some_and(|stream| may_have_passed(stream, wait)) => {
                "the stream may have passed that wait and be at what comes behind it, so it may only be slow".to_owned()
            }
            (End::Host(..), _) => "another thread's call may return and do what the function waits for".to_owned(),
            _ => "what is in flight elsewhere may still do what is waited for".to_owned(),
        }
    }
}

fn begins_a_context(call: &BlockedCall) -> bool {
    matches!(call.call.class(), Some(Class::Init | Class::ContextCreate))
}

fn asked_only(finding: &Finding<'_>) -> bool {
    !finding.calls.is_empty() && finding.calls.iter().all(|call| call.queries.is_some())
}

/// Whether the call waits for something unfollowed. Two such calls may wait for different things.
fn is_unseen(finding: &Finding<'_>) -> Option<u32> {
    let of = finding.calls.first().and_then(|call| call.stream.as_ref()).map_or(0, |stream| stream.number);
    matches!(finding.path.end, End::Unseen(_)).then_some(of)
}

/// Rank of the report: the call that blocks the others first. A code without a rank comes last.
fn order(code: Code) -> usize {
    use Code::{LG201, LG202, LG203, LG204, LG205, LG206, LG207, LG208, LG211, LG212};
    const RANKS: [Code; 10] = [LG212, LG202, LG201, LG206, LG207, LG203, LG205, LG204, LG208, LG211];
    RANKS.iter().position(|&ranked| ranked == code).unwrap_or(RANKS.len())
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
