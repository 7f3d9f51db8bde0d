//! From where a driver call was made. An export finds its caller by its own frame: the return address lies above the saved frame pointer.
//! `scripts/build` has the library's functions keep one, together with `--cfg lazyguard_frames`; a build without it records no caller. The
//! frame is read where it is needed: a launch has no register to spare for it.
//!
//! Must not: be made anywhere but in an export's own body.

use lazyguard_core::state::Caller;
use std::marker::PhantomData;

/// The address of an export's frame. The lifetime stands for the run of the export, which the frame lasts for.
#[derive(Clone, Copy)]
pub struct Frame<'f>(*const usize, PhantomData<&'f usize>);

impl<'f> Frame<'f> {
    /// The frame of the export whose body contains this and has the variable.
    #[inline(always)]
    pub fn of(within: &'f usize) -> Self {
        #[cfg(lazyguard_frames)]
        let frame = frame_pointer();
        #[cfg(not(lazyguard_frames))]
        let frame = within;
        let _ = within;
        Self(frame, PhantomData)
    }

    /// The same, for a path that is hardly taken: the export's own body, which this is inlined into, need not keep the address for it.
    #[inline(always)]
    pub fn again(self) -> Self {
        #[cfg(all(lazyguard_frames, target_arch = "x86_64"))]
        {
            let frame: *const usize;
            // SAFETY: reads a register. Not pure, so that it stays where it is needed.
            unsafe { std::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
            Self(frame, PhantomData)
        }
        #[cfg(not(all(lazyguard_frames, target_arch = "x86_64")))]
        self
    }

    #[inline(always)]
    pub fn caller(self) -> Caller {
        let frame = self.0;
        // SAFETY: the frame pointer of a function that keeps one leads to the caller's, and the return address beside it.
        #[cfg(lazyguard_frames)]
        unsafe {
            Caller { address: *frame.add(1), stack: frame.add(2) as usize, frame: *frame }
        }
        #[cfg(not(lazyguard_frames))]
        Caller { address: 0, stack: frame as usize, frame: 0 }
    }
}

/// The frame pointer of the function that this is inlined into.
#[cfg(lazyguard_frames)]
#[inline(always)]
fn frame_pointer() -> *const usize {
    let frame: *const usize;
    // Pure, so that the compiler drops it where the value is unused: a trivial export may set up no frame.
    // `scripts/check-library` verifies that every export that reads the register has set up a frame.
    // SAFETY: reads a register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) frame, options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) frame, options(pure, nomem, nostack, preserves_flags));
    }
    frame
}
