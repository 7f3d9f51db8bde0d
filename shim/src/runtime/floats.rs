//! A thread's floating-point state: rounding, traps and raised flags. They are the program's: one with traps enabled would end by an inexact division of
//! the guard's.
//!
//! Must not: reach anything outside this file. The door needs it where no landing pad may be.

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Floats([u64; 2]);

impl Floats {
    /// Round to nearest, no traps, no flags.
    #[cfg(target_arch = "x86_64")]
    const DEFAULT: Self = Self([0x1f80, 0]);
    #[cfg(not(target_arch = "x86_64"))]
    const DEFAULT: Self = Self([0, 0]);

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn present() -> Self {
        let mut word = 0u32;
        // SAFETY: writes the word.
        unsafe { std::arch::asm!("stmxcsr [{word}]", word = in(reg) &raw mut word, options(nostack, preserves_flags)) };
        Self([word.into(), 0])
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn set(self) {
        let word = self.0[0] as u32;
        // SAFETY: reads the word, which is the default or was read from the register.
        unsafe {
            std::arch::asm!("ldmxcsr [{word}]", word = in(reg) &raw const word, options(nostack, preserves_flags));
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn present() -> Self {
        let (control, status): (u64, u64);
        // SAFETY: reads two registers.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack));
        }
        Self([control, status])
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn set(self) {
        // SAFETY: writes two registers, with the default or with what was read from them.
        unsafe {
            std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.0[0], in(reg) self.0[1], options(nostack));
        }
    }

    /// Sets the default; returns the former state.
    #[inline(always)]
    pub fn take() -> Self {
        let before = Self::present();
        if before != Self::DEFAULT {
            Self::DEFAULT.set();
        }
        before
    }

    #[inline(always)]
    pub fn give_back(self) {
        if Self::present() != self {
            self.set();
        }
    }
}
