//! The gate: while functions are loaded ahead of use in a context, other threads' submissions into it wait.
//!
//! Protocol. A submitting thread first marks its slot, then looks at the gate; the loading thread first closes the gate,
//! then looks at the slots. One of the two sees the other. That needs a full fence on both sides; the submitting side is
//! on the path of every launch, so the loading side makes both with `membarrier`, and the submitting side only keeps the
//! compiler from reordering. Where the kernel has no `membarrier`, the submitting side pays for its own fence.
//!
//! A thread that finds the gate closed takes its mark off, waits, marks again and looks again. It waits at most
//! [`PATIENCE`]: loading waits for nothing and stops well before, and if it does not, because something got into the context
//! by a way that is not hooked, the submission may be what it is waiting for. From then on nothing more is loaded.

use lazyguard_core::api::{Class, Form};
use lazyguard_core::state::ThreadSlot;
use std::sync::atomic::{compiler_fence, fence, AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a submission waits for a loading that does not end.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an unload waits: what it takes away may be in the loading thread's hands.
const PATIENCE_OF_UNLOADS: Duration = Duration::from_secs(60);

const OPEN: u32 = 0;
/// The number of the context that is closed.
static GATE: AtomicU32 = AtomicU32::new(OPEN);
static FENCE_NEEDED: AtomicBool = AtomicBool::new(true);
static IMPATIENT: AtomicU64 = AtomicU64::new(0);
/// A submission has been let through while the gate is closed: the context may be busy now, so the loading must stop.
static BREACHED: AtomicBool = AtomicBool::new(false);

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> bool {
    // SAFETY: takes integers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Finds out whether the cheap protocol can be had.
pub fn prepare() {
    GATE.store(OPEN, Ordering::SeqCst);
    FENCE_NEEDED.store(!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), Ordering::SeqCst);
}

/// How often a submission lost its patience.
pub fn impatient() -> u64 {
    IMPATIENT.load(Ordering::Relaxed)
}

/// Marks the slot with the call, and returns when the gate lets it into the context.
#[inline]
pub fn pass(slot: &ThreadSlot, form: Form, class: Class, context: u32) {
    slot.mark(form);
    if !class.waits_at_gate() {
        return;
    }
    if FENCE_NEEDED.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
    if GATE.load(Ordering::Relaxed) != OPEN {
        let (context, patience) = match class.concerns_every_context() {
            true => (0, PATIENCE_OF_UNLOADS),
            false => (context, PATIENCE),
        };
        wait(slot, form, context, patience);
    }
}

fn closed_for(context: u32) -> bool {
    let closed = GATE.load(Ordering::Acquire);
    closed != OPEN && (context == 0 || closed == context)
}

#[cold]
fn wait(slot: &ThreadSlot, form: Form, context: u32, patience: Duration) {
    let _uncancelled = super::fault::Uncancelled::new();
    let since = Instant::now();
    if patience == PATIENCE_OF_UNLOADS {
        // Asks the loading thread to stop after the call that it is in.
        BREACHED.store(true, Ordering::Release);
    }
    while closed_for(context) {
        slot.unmark();
        if since.elapsed() > patience {
            // Release: partner of the Acquire in `breached`; it is set before the submission is made.
            BREACHED.store(true, Ordering::Release);
            IMPATIENT.fetch_add(1, Ordering::Relaxed);
            // Nobody else has to lose patience with a loading that does not get on.
            GATE.store(OPEN, Ordering::SeqCst);
            slot.mark(form);
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
        slot.mark(form);
        fence(Ordering::SeqCst);
    }
}

/// The gate, closed by this thread.
pub struct Closed(u32);

impl Closed {
    /// Closes the gate of a context; `None` if another thread has it closed.
    pub fn close(context: u32) -> Option<Self> {
        GATE.compare_exchange(OPEN, context, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        BREACHED.store(false, Ordering::Relaxed);
        let closed = Self(context);
        if !FENCE_NEEDED.load(Ordering::Relaxed) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            // It was there when it was registered for; without it, who is inside cannot be known.
            FENCE_NEEDED.store(true, Ordering::SeqCst);
            return None;
        }
        fence(Ordering::SeqCst);
        Some(closed)
    }
}

impl Closed {
    /// Whether a submission has lost its patience and gone through.
    pub fn breached(&self) -> bool {
        BREACHED.load(Ordering::Acquire)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `closed_for`; what was loaded is visible to those who are let in.
        let _ = GATE.compare_exchange(self.0, OPEN, Ordering::Release, Ordering::Relaxed);
    }
}
