//! The gate: while functions are preloaded in a context, other threads' submissions into it wait.
//!
//! Protocol. A submitting thread marks its slot, then looks at the gate; the loading thread closes the gate, then looks at the slots. One of the two
//! sees the other, by a full fence on both sides: the loading side makes both with `membarrier`, where the kernel has it.
//!
//! A thread that finds the gate closed takes its mark off, waits, marks again and looks again, for [`PATIENCE`] at most. By then work may have got into
//! the context through an unhooked function, and the load may wait for the submission: the gate opens, and the guard loads nothing more.

use crate::runtime::hot::{FENCE, HOT};
use crate::runtime::{door, pass_through};
use lazyguard_core::api::Class;
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::{CallStep, OpenRecord, ThreadSlot};
use std::sync::atomic::{compiler_fence, fence, AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a submission waits for a loading that does not end.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an unload waits: the loading thread may be using what the unload removes.
const PATIENCE_OF_UNLOADS: Duration = Duration::from_secs(60);
/// In the gate's word: the context that it is closed for; 0 while it is open.
const CONTEXT: u64 = u32::MAX as u64;
const OPEN: u64 = 0;
/// A submission has passed the closed gate: the loading must stop.
static BREACHED: AtomicBool = AtomicBool::new(false);

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

#[inline(always)]
fn membarrier(command: i32) -> bool {
    // SAFETY: takes integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers the barrier while the process has one thread: with more, the kernel waits 5 to 15 ms.
#[link_section = ".text.lazyguard_start"]
pub fn register() {
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

pub fn prepare() {
    let has = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    HOT.gate.store(if has { OPEN } else { FENCE }, Ordering::SeqCst);
}

/// Marks the slot, and returns when the gate lets the call into the context.
#[inline(always)]
pub fn pass(slot: &ThreadSlot, open: OpenRecord, class: Class, context: u32) {
    slot.mark(&open);
    CallStep::Mark.taken();
    if class.waits_at_gate() && !is_open() {
        let (context, patience) = match class.concerns_every_context() {
            true => (0, PATIENCE_OF_UNLOADS),
            false => (context, PATIENCE),
        };
        wait(slot, open, context, patience);
    }
    CallStep::Gate.taken();
}

/// Asked after the thread's mark has been set.
#[inline(always)]
pub fn is_open() -> bool {
    compiler_fence(Ordering::SeqCst);
    HOT.gate.load(Ordering::Relaxed) == OPEN || is_open_behind_a_fence()
}

/// The same behind the submission's own fence, where it has to make one.
#[cold]
#[inline(never)]
fn is_open_behind_a_fence() -> bool {
    fence(Ordering::SeqCst);
    HOT.gate.load(Ordering::Relaxed) & CONTEXT == OPEN
}

fn closed_for(context: u32) -> bool {
    let closed = HOT.gate.load(Ordering::Acquire) & CONTEXT;
    closed != OPEN && (context == 0 || u64::from(context) == closed)
}

#[cold]
fn wait(slot: &ThreadSlot, open: OpenRecord, context: u32, patience: Duration) {
    let since = Instant::now();
    if patience == PATIENCE_OF_UNLOADS {
        // The loading thread stops after its call.
        BREACHED.store(true, Ordering::Release);
    }
    while closed_for(context) {
        slot.unmark();
        if since.elapsed() > patience {
            // Release: partner of the Acquire in `breached`.
            BREACHED.store(true, Ordering::Release);
            pass_through::note(PassThrough::GatePatience);
            // No other thread waits for a load that makes no progress.
            HOT.gate.fetch_and(FENCE, Ordering::SeqCst);
            slot.mark(&open);
            return;
        }
        door::pause(Duration::from_micros(50));
        slot.mark(&open);
        fence(Ordering::SeqCst);
    }
}

pub struct Closed {
    context: u64,
}

impl Closed {
    /// `None` if another thread has it closed.
    pub fn close(context: u32) -> Option<Self> {
        let context = u64::from(context);
        let close = |word: u64| (word & CONTEXT == OPEN).then_some(word | context);
        let before = HOT.gate.fetch_update(Ordering::SeqCst, Ordering::Relaxed, close).ok()?;
        BREACHED.store(false, Ordering::Relaxed);
        let closed = Self { context };
        if before & FENCE == 0 && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            // Without the barrier, other threads' marks may not be visible.
            HOT.gate.fetch_or(FENCE, Ordering::SeqCst);
            return None;
        }
        fence(Ordering::SeqCst);
        Some(closed)
    }

    /// Whether a submission has passed.
    pub fn breached(&self) -> bool {
        BREACHED.load(Ordering::Acquire)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `closed_for`.
        let open = |word: u64| (word & CONTEXT == self.context).then_some(word & FENCE);
        let _ = HOT.gate.fetch_update(Ordering::Release, Ordering::Relaxed, open);
    }
}
