//! How the calls that a report named ended: they returned, failed, or were left. The record of the call says which.
//!
//! Must not: conclude that a call returned because it is not in progress.

use super::snapshot::BlockedCall;
use crate::api::result::{error_name, loses_work, NOT_READY};
use crate::api::Call;
use crate::trace::layout::flag;
use crate::trace::read::{Recording, Source, ThreadSeen};
use crate::trace::{Kind, Record};
use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::io;

/// A call's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowEnded {
    /// Success; for queries, a final "ready".
    Returned,
    /// It returned an error.
    Failed,
    /// An exception, a jump or a cancellation left it.
    Left,
    /// The thread stopped asking after "not ready".
    AsksNoMore,
    /// The recording lacks its return.
    Unknown,
}

/// The end of a reported call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// The thread's id.
    pub thread: u32,
    /// The driver call.
    pub call: Call,
    /// When the call was entered; of repeated queries, the first.
    pub entered: Nanos,
    /// How it ended.
    pub how: HowEnded,
    /// When it returned or was left.
    pub at: Option<Nanos>,
    /// The error that it returned.
    pub result: Option<i32>,
    /// That error's name.
    pub error: Option<String>,
}

impl CallEnd {
    fn of(call: &BlockedCall, how: HowEnded, at: Option<Nanos>) -> Self {
        let (thread, entered) = (call.thread, call.entered);
        Self { thread, call: call.call.clone(), entered, how, at, result: None, error: None }
    }

    fn returned(call: &BlockedCall, record: &Record) -> Self {
        let end = |how| Self::of(call, how, Some(record.returned));
        match record.result {
            _ if record.flags & flag::LEFT != 0 => end(HowEnded::Left),
            0 => end(HowEnded::Returned),
            result => {
                let error = error_name(result).map(str::to_owned);
                Self { result: Some(result), error, ..end(HowEnded::Failed) }
            }
        }
    }

    pub fn lost_work(&self) -> bool {
        self.result.is_some_and(loses_work)
    }
}

pub fn ends_of<'a, S: Source>(
    recording: &Recording<S>,
    calls: impl Iterator<Item = &'a BlockedCall>,
) -> io::Result<Vec<CallEnd>> {
    let in_progress = |call: &BlockedCall| {
        let same = |thread: &ThreadSeen| thread.call_in_progress.is_some_and(|record| record.entered == call.entered);
        recording.threads().iter().any(|thread| thread.thread == call.thread && same(thread))
    };
    let mut open: Vec<Open> = calls.filter(|call| !in_progress(call)).map(Open::new).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let mut records = recording.records();
    for entry in records.by_ref() {
        open.iter_mut().filter(|open| open.call.thread == entry.thread).for_each(|open| open.see(&entry.record));
    }
    records.finish()?;
    Ok(open.into_iter().map(|open| open.end(recording)).collect())
}

struct Open<'a> {
    call: &'a BlockedCall,
    asks: Option<Record>,
    end: Option<CallEnd>,
}

impl<'a> Open<'a> {
    fn new(call: &'a BlockedCall) -> Self {
        Self { call, asks: None, end: None }
    }

    fn see(&mut self, record: &Record) {
        if self.end.is_some() {
            return;
        }
        let is_query = record.kind == Kind::Queries;
        if record.entered == self.call.entered && is_query == self.call.queries.is_some() && record.kind.is_call() {
            match is_query {
                true => self.asks = Some(*record),
                false => self.end = Some(CallEnd::returned(self.call, record)),
            }
            return;
        }
        let same = |asks: &Record| {
            asks.entry_point == record.entry_point && (asks.stream, asks.event()) == (record.stream, record.event())
        };
        if is_query && record.result != NOT_READY && self.asks.as_ref().is_some_and(same) {
            self.end = Some(CallEnd::returned(self.call, record));
        }
    }

    fn end<S: Source>(self, recording: &Recording<S>) -> CallEnd {
        let call = self.call;
        if let Some(end) = self.end {
            return end;
        }
        if call.queries.is_some() {
            // Another call may have proven the end.
            let stream = call.stream.as_ref().and_then(|stream| recording.stream(stream.number));
            let complete = stream.map_or(0, |stream| recording.complete_until(stream));
            let how = if complete >= call.entered { HowEnded::Returned } else { HowEnded::AsksNoMore };
            return CallEnd::of(call, how, None);
        }
        CallEnd::of(call, HowEnded::Unknown, None)
    }
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
