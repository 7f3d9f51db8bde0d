//! Releases that are put off (`LAZYGUARD_DEFER`).
//!
//! Must not: put off anything unless the user has asked for it.

use super::call::{succeeds, Call, Entry, Real};
use crate::lookup::driver::{self, SUCCESS};
use crate::lookup::driver_queries;
use crate::preload::idle;
use crate::preload::releases::Release;
use crate::record::guard;
use crate::runtime::door;
use std::cell::Cell;

impl Call {
    /// The result that the program gets at once where `LAZYGUARD_DEFER` puts off its release of memory, a module or a library.
    pub(super) fn puts_off(&self, of: u64) -> Option<i32> {
        let (guard, context) = (self.guard, self.about.context);
        if !guard.settings.defers_releases || context == 0 {
            return None;
        }
        let release = Release::of_call(self.entry_point, of)?;
        if guard.loader.releases.waits(release) {
            return Some(release.repeated());
        }
        let captures = guard.tracker.contexts().any(|(_, context)| context.capturing());
        if captures || !release.concerns(guard, context, driver::current_context()) {
            return None;
        }
        let busy = idle::in_flight_beside_others(guard, context, self.slot.thread(), 0, self.entered);
        (!busy.is_empty() && guard.loader.releases.put_off(context, release)).then_some(SUCCESS)
    }
}

/// A release whose hook gives the result, where it puts the release off; `then` is for one that has succeeded.
pub(super) fn unless_put_off(
    entry: Entry,
    real: impl Real,
    before: impl FnOnce(&mut Call) -> Option<i32>,
    then: impl FnOnce(&Call),
) -> i32 {
    let put_off = Cell::new(None);
    succeeds(entry, |call| put_off.set(before(call)), || put_off.get().unwrap_or_else(real), then)
}

/// Makes the releases that were put off in the current context, which wait as the program's own calls would have; `false` without any.
#[cold]
pub(super) fn releases_now() -> bool {
    let Some(guard) = guard().filter(|guard| guard.settings.defers_releases) else { return false };
    let context = door::inside(|| guard.tracker.known_context(driver::current_context() as u64)).flatten();
    let Some(context) = context else { return false };
    let mut any = false;
    while door::inside(|| guard.loader.releases.make_next(context)) == Some(true) {
        any = true;
    }
    any
}

/// Before a copy from or to these addresses, each 0 or maybe the host's; `None` if unknown. While the end of a registration waits, the driver
/// takes other pages there for page-locked: so the releases are made first.
#[inline]
pub(super) fn before_copy(entry: Entry, addresses: Option<[u64; 2]>) {
    if guard().filter(|guard| guard.settings.defers_releases && guard.loader.releases.any()).is_some() {
        before_copy_beside_what_waits(entry, addresses);
    }
}

#[cold]
fn before_copy_beside_what_waits(entry: Entry, addresses: Option<[u64; 2]>) {
    let Some(guard) = guard() else { return };
    let must_end = || {
        let copies = entry.entry_point.info().base().starts_with("cuMemcpy");
        let captures = guard.tracker.contexts().any(|(_, context)| context.capturing());
        let is_of_one = |at: u64, begin| at >= begin && driver_queries::is_page_locked(at);
        let may_be_of_one = |begin: u64| addresses.is_none_or(|all| all.iter().any(|&at| is_of_one(at, begin)));
        copies && !captures && guard.loader.releases.registrations().into_iter().any(may_be_of_one)
    };
    if door::inside(must_end) == Some(true) {
        releases_now();
    }
}
