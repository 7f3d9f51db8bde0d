//! From where a driver call was made.
//!
//! An export knows its caller by its own frame: the return address lies above the saved frame pointer. That the library's
//! functions keep one is an option of the build, which `scripts/build` sets together with `--cfg lazyguard_frames`; a build
//! without it records no caller.
//!
//! Must not: be called anywhere but in an export's own body.

use lazyguard_core::state::Caller;

/// The caller of the export whose body contains this.
#[inline(always)]
pub fn caller() -> Caller {
    #[cfg(lazyguard_frames)]
    {
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
        // SAFETY: the frame pointer of a function that keeps one leads to the caller's, and the return address beside it.
        unsafe { Caller { address: *frame.add(1), stack: frame.add(2) as usize, frame: *frame } }
    }
    #[cfg(not(lazyguard_frames))]
    {
        let here = 0u8;
        Caller { address: 0, stack: std::ptr::from_ref(&here) as usize, frame: 0 }
    }
}
