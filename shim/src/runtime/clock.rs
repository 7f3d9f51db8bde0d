//! The time, in nanoseconds since the guard was armed, at the cost of reading a register.
//!
//! Where the processor's time stamp counter runs at one rate whatever the clock and power states, it is read directly and
//! scaled by a factor measured once against the system's monotonic clock; elsewhere the system's clock is asked. Both are
//! monotonic across cores to well below the time a driver call takes. The factor is measured from the load of the library to the start of
//! the clock, which costs nothing; a measurement of some microseconds has to agree with it, else one of a millisecond counts.
//!
//! Must not: enter the kernel in [`now`] where the counter is steady.

use super::hot::HOT;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reading of both clocks when the library was loaded: the counter, and nanoseconds of the system's.
static LOADED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Reads both clocks; called when the library is loaded. Returns the system's.
pub fn first_look() -> u64 {
    let (ticks, nanos) = pair();
    LOADED[0].store(ticks, Ordering::Relaxed);
    LOADED[1].store(nanos, Ordering::Relaxed);
    nanos
}

/// Starts the clock at 0 and measures the counter, for a millisecond at most.
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

/// The counter, and nanoseconds of the system's clock, at one moment.
fn pair() -> (u64, u64) {
    // The reading of the system clock that took the fewest ticks is the one that was not interrupted.
    let read = || {
        let before = ticks();
        let nanos = system_nanos();
        (ticks().saturating_sub(before), before, nanos)
    };
    let (took, before, nanos) = (1..5).map(|_| read()).fold(read(), Ord::min);
    (before + took / 2, nanos)
}

/// How many nanoseconds 2^32 ticks take, from one reading to another; `None` where these are too near to each other.
fn scale_of((ticks_0, nanos_0): (u64, u64), (ticks_1, nanos_1): (u64, u64)) -> Option<u64> {
    let ticks = ticks_1.checked_sub(ticks_0).filter(|&t| t > 1000)?;
    u64::try_from((u128::from(nanos_1.checked_sub(nanos_0)?) << 32) / u128::from(ticks)).ok()
}

/// The scale from the first reading to the last, where both are far enough apart and a short measurement does not contradict it.
fn confirmed(first: (u64, u64), begin: (u64, u64), end: (u64, u64)) -> Option<u64> {
    const LEAST_NANOS: u64 = 1_000_000;
    // One part in so many: a short measurement tells no less.
    const DIFFERS: u64 = 200;
    if first.0 == 0 || end.1.saturating_sub(first.1) < LEAST_NANOS {
        return None;
    }
    let (long, short) = (scale_of(first, end)?, scale_of(begin, end)?);
    (long.abs_diff(short) <= short / DIFFERS).then_some(long)
}

fn measure() -> Option<u64> {
    const SHORT_NANOS: u64 = 50_000;
    const LONG_NANOS: u64 = 1_000_000;
    if !counter_is_steady() {
        return None;
    }
    let first = (LOADED[0].load(Ordering::Relaxed), LOADED[1].load(Ordering::Relaxed));
    let begin = pair();
    let after = |nanos: u64| {
        while system_nanos() - begin.1 < nanos {
            std::hint::spin_loop();
        }
        pair()
    };
    confirmed(first, begin, after(SHORT_NANOS)).or_else(|| scale_of(begin, after(LONG_NANOS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_at_the_load_counts_where_a_short_measurement_agrees() {
        // A counter of 2 GHz: two ticks a nanosecond.
        let at = |nanos: u64| (nanos * 2, nanos);
        let half = 1 << 31;
        assert_eq!(confirmed(at(1_000), at(5_000_000), at(5_050_000)), Some(half));
        assert_eq!(confirmed((0, 0), at(5_000_000), at(5_050_000)), None, "the library was not loaded by the linker");
        assert_eq!(confirmed(at(4_900_000), at(5_000_000), at(5_050_000)), None, "it was loaded just now");
        // The machine slept, and the counter went on.
        assert_eq!(confirmed((1_000, 1_000), (70_000_000, 5_000_000), (70_100_000, 5_050_000)), None);
        assert_eq!(scale_of(at(1_000_000), at(2_000_000)), Some(half));
        assert_eq!((scale_of(at(2_000), at(2_100)), scale_of(at(2_000), at(1_000))), (None, None));
    }

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
