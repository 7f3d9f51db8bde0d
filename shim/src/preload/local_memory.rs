//! Local memory that is set aside before a kernel needs it.
//!
//! A launch of a kernel that needs more local memory a thread than its context has set aside waits until the context is idle: LG107, and LG204
//! where it never is. The profile of earlier runs knows the most that a kernel needed. While the context is fresh and idle, the guard raises its
//! stack limit to that, and the driver sets as much aside at once, as was measured. To lower it again would take that away: this is done where the
//! driver has no memory left for a call of the program's, which without the guard it may have.
//!
//! What a program may notice: the free device memory is less from the start, as it is without the guard from that launch on. Asked for the
//! limit, the hook says what the program would be told without the guard ([`lazyguard_core::state::LocalMemory`]).
//!
//! A limit as large as what a kernel needs is enough for its launch, as was measured.
//!
//! Must not: raise a limit in a context that the guard has not seen come, that is in use, or while something may be captured, which the call
//! would end.

use super::idle;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::runtime::process::Process;
use lazyguard_core::preload::{local_memory, Skip};
use lazyguard_core::report::PreloadSummary;
use lazyguard_core::state::{Context, Function};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `CU_LIMIT_STACK_SIZE`.
pub const STACK_SIZE: i32 = 0;

/// See the module.
#[derive(Default)]
pub struct LocalAhead {
    /// What a kernel of earlier runs needed at most, in bytes a thread; 0 for no more than every context has.
    needs: u64,
    /// Whether a limit has been raised, or is about to be, in any context.
    raises: AtomicBool,
    most: AtomicU64,
    contexts: AtomicU64,
    bytes: AtomicU64,
}

impl LocalAhead {
    /// For a program of which a kernel needs so many bytes a thread.
    pub fn new(needs: u64) -> Self {
        Self { needs, ..Self::default() }
    }

    /// Whether there is anything to set aside.
    pub fn is_wanted(&self) -> bool {
        self.needs > 0
    }

    /// Raises the stack limit of the current context, which has this number and is idle, if that is less than what is needed.
    pub fn set_aside(&self, process: &Process, context: u32) -> Result<(), Skip> {
        let of_the_context = process.tracker.context_entry(context).filter(|context| context.device() >= 0);
        // Where first launches are not told, what launches make of the limit is not known.
        let entry = of_the_context.filter(|_| Function::knows_of(context)).ok_or(Skip::LocalMemoryInUse)?;
        let memory = entry.local_memory();
        let limit = limit().ok_or(Skip::LocalMemoryRefused)?;
        let in_use = entry.has_launched()
            || !process.tracker.fold()
            || process.tracker.submitted_elsewhere(context, 0)
            || idle::may_capture(process);
        let Some(needs) = local_memory(self.needs, limit, memory.set_aside(), in_use)? else { return Ok(()) };
        // Before the state says so: the hooks look here first.
        self.raises.store(true, Ordering::Release);
        if !memory.raises(limit) {
            return Err(Skip::StackLimitSet);
        }
        let before = free_memory();
        let raised = driver::ctx_set_limit(STACK_SIZE, needs as usize) == Some(SUCCESS);
        let now = self::limit().unwrap_or(if raised { needs } else { limit });
        if !memory.is_now(now) {
            return Err(Skip::LocalMemoryRefused);
        }
        self.most.fetch_max(now, Ordering::Relaxed);
        self.contexts.fetch_add(1, Ordering::Relaxed);
        let took = before.zip(free_memory()).map_or(0, |(before, after)| before.saturating_sub(after));
        self.bytes.fetch_add(took as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether something may have been set aside.
    pub fn has_raised(&self) -> bool {
        self.raises.load(Ordering::Acquire)
    }

    /// Gives back what was set aside in the current context, which is idle. Returns whether the driver has done it: it may have left the limit as it was.
    pub fn give_back(&self, context: &Context) -> bool {
        let memory = context.local_memory();
        let Some(wanted) = memory.gives_back() else { return false };
        let given_back = driver::ctx_set_limit(STACK_SIZE, wanted as usize) == Some(SUCCESS);
        let is_raised = memory.is_now(limit().unwrap_or(wanted));
        given_back && !is_raised
    }

    /// The calling thread's context, if the limit of any may have been raised.
    pub fn current<'a>(&self, process: &'a Process) -> Option<&'a Context> {
        if !self.has_raised() {
            return None;
        }
        process.tracker.context_entry(process.tracker.known_context(driver::current_context() as u64)?)
    }

    /// In the summary.
    pub fn account(&self, summary: PreloadSummary) -> PreloadSummary {
        PreloadSummary {
            local_bytes_ahead: self.most.load(Ordering::Relaxed),
            local_memory_contexts: self.contexts.load(Ordering::Relaxed),
            local_memory_bytes: self.bytes.load(Ordering::Relaxed),
            ..summary
        }
    }
}

/// The stack limit of the current context.
fn limit() -> Option<u64> {
    let mut limit = 0;
    (driver::ctx_get_limit(&mut limit, STACK_SIZE)? == SUCCESS).then_some(limit as u64)
}

/// The program asks for the stack limit, and the driver has said here what it is: the answer is made what it would be without the guard.
pub fn hide(context: &Context, told: Handle) {
    let told = told.cast::<usize>();
    // SAFETY: the driver has just filled it in.
    let limit = unsafe { told.read() };
    let shown = context.local_memory().shown(limit as u64) as usize;
    if shown != limit {
        // SAFETY: as above.
        unsafe { told.write(shown) };
    }
}

/// Free device memory, in bytes.
pub fn free_memory() -> Option<usize> {
    memory().map(|memory| memory.free)
}

/// Bytes of the current context's device.
pub struct Memory {
    /// Not in use.
    pub free: usize,
    /// All of them.
    pub total: usize,
}

/// What the driver says of the current context's device.
pub fn memory() -> Option<Memory> {
    let (mut free, mut total) = (0, 0);
    (driver::memory_info(&mut free, &mut total)? == SUCCESS).then_some(Memory { free, total })
}
