//! NCCL: communicators, and the collectives on them. A call is published around the driver calls that NCCL makes in it, so that a thread
//! which waits for its peers in NCCL's own code is seen. A collective is recorded when it is called: inside a group NCCL submits it at the
//! group's end.
//!
//! A communicator's id is equal on all ranks: a hash of the unique id; of a split, of the parent's id, which of its splits, and the color.
//! Rank and size come from the arguments, or from NCCL once the program has used the communicator.
//!
//! Must not: call NCCL on a communicator that the program has not used successfully; or change what the program gets.

use super::call::{armed, begin, Call, Entry, Real};
use crate::lookup::driver::{Handle, NOT_READY};
use crate::lookup::nccl::{begun, rank_and_count, IN_PROGRESS, SUCCESS};
use crate::record::{guard, Guard};
use crate::runtime::results::{self, REVOKED};
use crate::runtime::{door, thread};
use crate::watch::{revoke, revoke_phase, revoked};
use lazyguard_core::api::{identity_of, Class};
use lazyguard_core::state::Communicator;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Communication, Kind, Lane, RawPayload, Record};
use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr};

/// `ncclUniqueId`, which NCCL takes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

/// In place of an operator or a root: the function has none.
pub const NONE: i32 = -1;

#[derive(Clone, Copy)]
pub struct Arguments {
    pub count: usize,
    /// `ncclDataType_t`.
    pub data_type: i32,
    /// `ncclRedOp_t`.
    pub operator: i32,
    /// The root, or the peer.
    pub root: i32,
}

impl Call {
    fn push_communication(&self, communicator: Option<Communicator>, about: Communication, result: i32) {
        self.slot.push(&self.communication(communicator, about, result), Lane::Work);
    }

    /// The record of what the call has communicated by now.
    #[inline(always)]
    fn communication(&self, communicator: Option<Communicator>, about: Communication, result: i32) -> Record {
        let about = Communication { communicator: communicator.map_or(0, |one| one.number), ..about };
        Record {
            kind: Kind::Communication,
            result,
            entered: self.entered,
            returned: self.returned.max(self.entered),
            flags: self.about.flags,
            stream: self.about.stream,
            context: self.about.context.min(0xffff) as u16,
            caller: self.caller.address as u64,
            raw: RawPayload::communication(about),
            ..Record::of(self.entry_point)
        }
    }

    fn enters(&self, communicator: Option<Communicator>) -> bool {
        self.slot.enter_outer(self.entry_point, communicator.map_or(0, |one| one.number), self.caller, self.entered)
    }

    fn communicator(&self, handle: Handle) -> Option<Communicator> {
        self.guard.tracker.communicators().find(handle as u64)
    }

    fn begin(&self, id: u64, rank: Option<(u32, u32)>) -> Option<Communicator> {
        let one = self.guard.tracker.communicators().begin(id, self.entered)?;
        if let Some((rank, ranks)) = rank {
            one.set_rank(rank, ranks);
        }
        Some(one)
    }

    /// NCCL has returned from the call that makes the communicator to which `new` points, if it has made one.
    fn made(&self, one: Communicator, new: *const Handle, result: i32) {
        let handle = match begun(result) {
            // SAFETY: NCCL has accepted the pointer, and stored there.
            true => unsafe { new.as_ref().copied() }.filter(|handle| !handle.is_null()),
            false => None,
        };
        match handle {
            Some(handle) => {
                self.guard.tracker.communicators().made(one, handle as u64, self.returned);
                // Only NCCL knows the rank in a communicator that is split off, once that is complete.
                if result == SUCCESS && !one.has_rank() {
                    learn_rank(one, handle);
                }
            }
            None => one.end(self.returned),
        }
    }
}

/// NCCL says the process's rank in a communicator, and how many ranks there are.
fn learn_rank(one: Communicator, handle: Handle) {
    if let Some((rank, ranks)) = rank_and_count(handle) {
        one.set_rank(rank, ranks);
    }
}

/// The beginning of `ncclConfig_t`, as of NCCL 2.27.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    cga_cluster_size: i32,
    min_ctas: i32,
    max_ctas: i32,
    net_name: *const c_char,
    split_share: i32,
    traffic_class: i32,
    comm_name: *const c_char,
}

const MAGIC: u32 = 0xcafe_beef;

fn name_of(config: Handle) -> Option<String> {
    let config = config.cast::<Config>().cast_const();
    if config.is_null() {
        return None;
    }
    // SAFETY: NCCL reads the same from the program's pointer. No reference is made, because an earlier release's is smaller: its size is
    // read before anything that may lie behind it.
    unsafe {
        let is_one = (&raw const (*config).magic).read_unaligned() == MAGIC;
        if !is_one || (&raw const (*config).size).read_unaligned() < size_of::<Config>() {
            return None;
        }
        let name = (&raw const (*config).comm_name).read_unaligned();
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

fn always(_: i32) -> bool {
    true
}

/// Makes a call of NCCL with the guard around it. The driver calls that NCCL makes in it are observed as any other. `before` says
/// whether to publish the call; one that NCCL makes in another is not published. `at_hand` publishes it where that leaves the library for nothing,
/// and is no visit behind the door. `after` runs where `wanted` says so of the result.
#[inline(always)]
fn around(
    entry: Entry,
    (at_hand, before): (Option<impl FnOnce(&mut Call) -> bool>, impl FnOnce(&mut Call) -> bool),
    real: impl Real,
    wanted: impl FnOnce(i32) -> bool,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    if results::is_set(REVOKED) {
        door::inside(revoke_phase::wait_until_over);
    }
    let mut call = None;
    let armed = armed();
    let all_at_hand = armed.zip(at_hand).and_then(|(guard, at_hand)| {
        door::leaf(|| {
            let slot = thread::slot_if_any(guard).filter(|slot| slot.enter(entry.caller()))?;
            let call = call.insert(Call::new(guard, slot, entry, guard.now()));
            let published = at_hand(call);
            slot.leave();
            published.then_some(true)
        })
    });
    let published = all_at_hand.flatten().or_else(|| {
        let guard = armed?;
        door::inside(|| {
            begin(guard, entry, &mut call).is_some_and(|call| {
                let published = before(call);
                call.slot.leave();
                published
            })
        })
    });
    let result = real();
    if let (Some(true), Some(call)) = (published, &call) {
        if call.guard.is_armed() {
            call.slot.leave_outer();
        }
    }
    if published == Some(false) || !wanted(result) {
        return result;
    }
    door::inside(|| {
        let inside = match &mut call {
            Some(call) => (call.guard.is_armed() && call.slot.enter(entry.caller())).then_some(call),
            // NCCL itself has initialised the driver, and so armed the guard.
            None if armed.is_none() => guard().and_then(|guard| begin(guard, entry, &mut call)),
            None => None,
        };
        if let Some(call) = inside {
            call.returned = call.guard.now();
            after(call, result);
            call.slot.leave();
        }
    });
    result
}

/// For a call that is so rare that each one visits the guard behind the door.
const NOT_AT_HAND: Option<fn(&mut Call) -> bool> = None;

/// A call that makes a communicator. `begin` takes an entry for it, so that a rank that waits in the call is seen to have come.
fn makes(
    entry: Entry,
    new: *mut c_void,
    config: Handle,
    begin: impl Fn(&Call) -> Option<Communicator>,
    real: impl Real,
) -> i32 {
    let of: Cell<Option<Communicator>> = Cell::new(None);
    let before = |call: &mut Call| {
        if !call.enters(None) {
            return false;
        }
        of.set(begin(call));
        if let Some(one) = of.get() {
            call.slot.enter_outer(call.entry_point, one.number, call.caller, call.entered);
            if let Some(name) = name_of(config) {
                call.guard.tracker.recorder().add_communicator(call.entered, one.number, &name);
            }
        }
        true
    };
    around(entry, (NOT_AT_HAND, before), real, always, |call, result| {
        // If the call itself has initialised the driver, the guard is armed only now.
        let communicator = of.get().or_else(|| begin(call));
        if let Some(one) = communicator {
            call.made(one, new.cast(), result);
        }
        call.push_communication(communicator, Communication::default(), result);
    })
}

pub(super) fn create(
    entry: Entry,
    new: *mut c_void,
    ranks: i32,
    id: *const UniqueId,
    rank: i32,
    config: Handle,
    real: impl Real,
) -> i32 {
    let begin = |call: &Call| {
        // SAFETY: the program's id, which NCCL reads as well; of several the first.
        let id = unsafe { id.as_ref() }.map_or(0, |id| identity_of(id.0));
        call.begin(id, u32::try_from(rank).ok().zip(u32::try_from(ranks).ok()))
    };
    makes(entry, new, config, begin, real)
}

pub(super) fn create_all(entry: Entry, new: *mut c_void, devices: i32, real: impl Real) -> i32 {
    around(entry, (NOT_AT_HAND, |call: &mut Call| call.enters(None)), real, always, |call, result| {
        let id = identity_of(u64::from(std::process::id()).to_le_bytes().into_iter().chain(call.entered.to_le_bytes()));
        let devices = u32::try_from(devices).unwrap_or(0);
        for device in (0..devices).filter(|_| begun(result)) {
            let Some(one) = call.begin(id, Some((device, devices))) else { break };
            // SAFETY: NCCL has stored one handle for each device.
            call.made(one, unsafe { new.cast::<Handle>().add(device as usize) }, result);
        }
        call.push_communication(None, Communication::default(), result);
    })
}

/// A communicator is split; a rank of no color gets none.
pub(super) fn split(
    entry: Entry,
    parent: Handle,
    color: i32,
    new: *mut c_void,
    config: Handle,
    real: impl Real,
) -> i32 {
    let begin = |call: &Call| {
        let parent = call.communicator(parent)?;
        let (split, color) = (parent.count_split().to_le_bytes(), color.to_le_bytes());
        call.begin(identity_of(parent.id().to_le_bytes().into_iter().chain(split).chain(color)), None)
    };
    makes(entry, new, config, begin, real)
}

pub(super) fn published(entry: Entry, communicator: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| call.enters(call.communicator(communicator));
    around(entry, (NOT_AT_HAND, before), real, |_| false, |_, _| {})
}

/// Whether this thread's newest record is of such a question. A look at records may panic, and so is made inside the door.
#[inline(never)]
fn has_asked(guard: &'static Guard) -> bool {
    door::inside(|| thread::slot_if_any(guard).is_some_and(|slot| slot.asking().is_some())).unwrap_or(false)
}

/// The program asks whether a communicator that does not block is ready. "In progress" is a query that is not ready, which others like it join; another
/// answer leaves a record only behind those.
pub(super) fn asks(entry: Entry, communicator: Handle, error: *mut c_void, real: impl Real) -> i32 {
    let result = real();
    // SAFETY: NCCL has accepted the pointer, and stored there.
    let state = (result == SUCCESS).then(|| unsafe { error.cast::<i32>().as_ref() }.copied()).flatten();
    let is_in_progress = state == Some(IN_PROGRESS);
    let Some(guard) = armed().filter(|guard| is_in_progress || has_asked(guard)) else { return result };
    door::inside(|| {
        let mut call = None;
        let Some(call) = begin(guard, entry, &mut call) else { return };
        let (class, number) = (entry.entry_point.class(), call.communicator(communicator).map_or(0, |one| one.number));
        let (kind, queries) = Kind::of_call(class);
        let (caller, raw) = (call.caller.address as u64, RawPayload::about(number.into()).with_queries(queries));
        let record = Record { kind, caller, raw, entered: call.entered, ..Record::of(entry.entry_point) };
        let open = call.slot.open(&record, class);
        call.slot.close(open, class, call.entered, if is_in_progress { NOT_READY } else { SUCCESS });
        call.slot.leave();
    });
    result
}

pub(super) fn end(entry: Entry, communicator: Handle, real: impl Real) -> i32 {
    let ending: Cell<Option<Communicator>> = Cell::new(None);
    let before = |call: &mut Call| {
        ending.set(call.communicator(communicator));
        let enters = call.enters(ending.get());
        ending.get().iter().filter(|_| enters).for_each(revoke::before_the_end);
        enters
    };
    around(entry, (NOT_AT_HAND, before), real, always, |call, result| {
        if let (Some(one), true) = (ending.get(), begun(result)) {
            one.end(call.returned);
            revoked::communicator_ended(one.number, call.returned);
        }
        ending.get().iter().for_each(revoke::after_the_end);
        call.push_communication(ending.get(), Communication::default(), result);
    })
}

#[inline(always)]
pub(super) fn operation(entry: Entry, handle: Handle, stream: Handle, about: Arguments, real: impl Real) -> i32 {
    let is_collective = entry.entry_point.class() == Class::Collective;
    let count = |one: Communicator, at| if is_collective { one.count_collective(at) } else { one.count_send() };
    let of: Cell<Option<Communicator>> = Cell::new(None);
    let record = |call: &Call| {
        let communicator = of.get();
        communicator.iter().for_each(|one| revoke::submits_to(one, call.about.stream));
        // A captured call runs with the graph, which ranks may capture at different times and as often as they like.
        let is_captured = call.about.flags & flag::CAPTURED != 0;
        let counted = communicator.filter(|_| !is_captured);
        let short = |number: i32| u16::try_from(number).ok();
        let about = Communication {
            number: counted.map_or(0, |one| count(one, call.entered)),
            count: about.count as u64,
            data_type: short(about.data_type).unwrap_or(u16::MAX),
            operator: short(about.operator),
            root: short(about.root),
            ..Communication::default()
        };
        call.communication(communicator, about, SUCCESS)
    };
    let before = |call: &mut Call| {
        of.set(call.communicator(handle));
        if !call.enters(of.get()) {
            return false;
        }
        call.submits_to(stream);
        call.slot.push(&record(call), Lane::Work);
        true
    };
    let at_hand = |call: &mut Call| {
        of.set(call.communicator(handle).filter(Communicator::has_rank));
        let is_ready = of.get().is_some() && call.is_on_known_stream(stream) && call.slot.has_room(Lane::Work);
        let enters = is_ready && call.enters(of.get());
        if enters {
            call.slot.push_at_hand(&record(call), Lane::Work);
        }
        enters
    };
    // After a success there is something to do only once for each communicator.
    let wanted = |result: i32| result != SUCCESS || of.get().is_none_or(|one| !one.has_rank());
    around(entry, (Some(at_hand), before), real, wanted, |call, result| {
        if begun(result) {
            // A communicator that was made where the guard did not see it cannot be compared with those of other ranks.
            let unseen = || {
                let one = call.begin(0, None)?;
                call.guard.tracker.communicators().made(one, handle as u64, call.returned);
                Some(one)
            };
            let one = of.get().or_else(unseen);
            if let Some(one) = one {
                learn_rank(one, handle);
            }
            return;
        }
        if let (Some(one), true) = (of.get().filter(|_| call.about.flags & flag::CAPTURED == 0), is_collective) {
            one.refused_collective();
        }
        call.push_communication(of.get(), Communication::default(), result);
    })
}
