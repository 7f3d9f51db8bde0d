//! The time, in nanoseconds since the guard was armed, at the cost of reading a register.
//!
//! Where the processor's time stamp counter runs at one rate whatever the clock and power states, it is read directly and
//! scaled by a factor measured once against the system's monotonic clock; elsewhere the system's clock is asked. Both are
//! monotonic across cores to well below the time a driver call takes.
//!
//! Must not: enter the kernel in [`now`] where the counter is steady.

use super::hot::HOT;
use lazyguard_core::Nanos;
use std::sync::atomic::Ordering;

/// Starts the clock at 0 and, if need be, measures the counter for a millisecond.
pub fn start() {
    let scale = measure().unwrap_or(0);
    let base = if scale == 0 { system_nanos() } else { ticks() };
    HOT.clock_base.store(base, Ordering::Relaxed);
    HOT.clock_scale.store(scale, Ordering::Relaxed);
}

/// Nanoseconds since [`start`].
#[inline(always)]
pub fn now() -> Nanos {
    let scale = HOT.clock_scale.load(Ordering::Relaxed);
    let base = HOT.clock_base.load(Ordering::Relaxed);
    if scale == 0 {
        return system_since(base);
    }
    ((u128::from(ticks().saturating_sub(base)) * u128::from(scale)) >> 32) as u64
}

#[cold]
#[inline(never)]
fn system_since(base: u64) -> Nanos {
    system_nanos().saturating_sub(base)
}

/// The system's monotonic clock at the moment that [`now`] calls 0.
pub fn monotonic_nanos() -> u64 {
    system_nanos().saturating_sub(now())
}

/// The wall-clock time of that moment, in nanoseconds since 1970-01-01 UTC.
pub fn unix_nanos() -> u64 {
    read(libc::CLOCK_REALTIME).saturating_sub(now())
}

/// The system's monotonic clock, also before [`start`].
pub fn system_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// A number of the system's clock ticks since the machine started as a moment of its monotonic clock, which does not count the
/// time that the machine slept.
pub fn of_ticks(ticks: u64) -> u64 {
    // SAFETY: asks for a number.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let since_start = u128::from(ticks) * 1_000_000_000 / u128::try_from(a_second.max(1)).unwrap_or(1);
    let slept = read(libc::CLOCK_BOOTTIME).saturating_sub(system_nanos());
    u64::try_from(since_start).unwrap_or(u64::MAX).saturating_sub(slept)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for writing, and both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user code read the virtual counter.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    use std::arch::x86_64::__cpuid;
    // Leaf 0x80000007, EDX bit 8: the counter's rate does not depend on power states.
    let steady = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    // The kernel has checked whether the counters of all processors agree, and goes by another clock if they do not.
    let trusted = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    steady && trusted.is_ok_and(|clock| clock.trim_ascii() == b"tsc")
}

#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

fn measure() -> Option<u64> {
    if !counter_is_steady() {
        return None;
    }
    let pair = || {
        // The reading of the system clock that took the fewest ticks is the one that was not interrupted.
        (0..5)
            .map(|_| {
                let before = ticks();
                let nanos = system_nanos();
                (ticks() - before, before, nanos)
            })
            .min()
            .map(|(took, before, nanos)| (before + took / 2, nanos))
    };
    let (ticks_0, nanos_0) = pair()?;
    while system_nanos() - nanos_0 < 1_000_000 {
        std::hint::spin_loop();
    }
    let (ticks_1, nanos_1) = pair()?;
    let ticks = ticks_1.checked_sub(ticks_0).filter(|&t| t > 1000)?;
    u64::try_from((u128::from(nanos_1 - nanos_0) << 32) / u128::from(ticks)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_keeps_time_with_the_system() {
        start();
        let (a, sys_a) = (now(), system_nanos());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (b, sys_b) = (now(), system_nanos());
        let (ours, theirs) = ((b - a) as f64, (sys_b - sys_a) as f64);
        assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} {theirs}");
    }
}
