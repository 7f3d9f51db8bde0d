//! The time since arming, at the cost of reading a register: the processor's time stamp counter where that is steady, scaled by a factor; else the
//! system's clock. The factor is measured from the load of the library to the start of the clock; a measurement of microseconds has to agree, else one
//! of a millisecond counts.
//!
//! Must not: enter the kernel in [`now`] where the counter is steady.

use super::hot::HOT;
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counter and the system's clock, in nanoseconds, when the library was loaded.
#[link_section = ".data.lazyguard_start"]
static LOADED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Reads both clocks when the library is loaded. Returns the system's time.
#[inline(always)]
pub fn first_look() -> u64 {
    let (ticks, nanos) = pair();
    LOADED[0].store(ticks, Ordering::Relaxed);
    LOADED[1].store(nanos, Ordering::Relaxed);
    nanos
}

/// Starts the guard's clock at 0; measures for a millisecond at most.
pub fn start() {
    let scale = measure((LOADED[0].load(Ordering::Relaxed), LOADED[1].load(Ordering::Relaxed))).unwrap_or(0);
    let base = if scale == 0 { system_nanos() } else { ticks() };
    HOT.clock_base.store(base, Ordering::Relaxed);
    HOT.clock_scale.store(scale, Ordering::Relaxed);
}

#[inline(always)]
pub fn now() -> Nanos {
    now_by(u64::saturating_sub)
}

/// In an armed process the counter is past its start on every processor.
#[inline(always)]
pub fn now_when_armed() -> Nanos {
    now_by(u64::wrapping_sub)
}

/// The time by the counter; `difference` subtracts its start.
#[inline(always)]
fn now_by(difference: impl Fn(u64, u64) -> u64) -> Nanos {
    let scale = HOT.clock_scale.load(Ordering::Relaxed);
    let base = HOT.clock_base.load(Ordering::Relaxed);
    if scale == 0 {
        return system_since(base);
    }
    scaled(difference(ticks(), base), scale)
}

/// 2^32 ticks take `scale` nanoseconds.
#[inline(always)]
fn scaled(ticks: u64, scale: u64) -> Nanos {
    ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

#[cold]
#[inline(never)]
fn system_since(base: u64) -> Nanos {
    system_nanos().saturating_sub(base)
}

pub fn monotonic_nanos() -> u64 {
    system_nanos().saturating_sub(now())
}

/// Since 1970.
pub fn unix_nanos() -> u64 {
    read(libc::CLOCK_REALTIME).saturating_sub(now())
}

pub fn system_nanos() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// A time in clock ticks since the machine started, on its monotonic clock.
pub fn of_ticks(ticks: u64) -> u64 {
    // SAFETY: asks for a number.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let since_start = u128::from(ticks) * 1_000_000_000 / u128::try_from(a_second.max(1)).unwrap_or(1);
    let slept = read(libc::CLOCK_BOOTTIME).saturating_sub(system_nanos());
    u64::try_from(since_start).unwrap_or(u64::MAX).saturating_sub(slept)
}

#[inline(always)]
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
    let (last_leaf, power) = (__cpuid(0x8000_0000).eax, __cpuid(POWER_LEAF).edx);
    let clock_source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    clock_source.is_ok_and(|clock_source| is_steady(last_leaf, power, &clock_source))
}

#[cfg(target_arch = "x86_64")]
const POWER_LEAF: u32 = 0x8000_0007;

/// Whether the counter is steady, by the processor's last leaf, EDX of [`POWER_LEAF`], and the kernel's clock source.
#[cfg(target_arch = "x86_64")]
fn is_steady(last_leaf: u32, power: u32, clock_source: &[u8]) -> bool {
    // Bit 8: the rate does not depend on power states.
    let is_invariant = last_leaf >= POWER_LEAF && power & (1 << 8) != 0;
    // The kernel has compared the counters of all processors.
    is_invariant && clock_source.trim_ascii() == b"tsc"
}

#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

#[link_section = ".text.lazyguard_start"]
fn pair() -> (u64, u64) {
    least_interrupted([(); 5].map(|()| {
        let before = ticks();
        let nanos = system_nanos();
        (ticks().saturating_sub(before), before, nanos)
    }))
}

/// The reading (ticks taken, counter, clock) with the fewest ticks; the counter at its middle.
#[inline(always)]
fn least_interrupted(readings: [(u64, u64, u64); 5]) -> (u64, u64) {
    let (took, before, nanos) = readings.into_iter().fold(readings[0], Ord::min);
    (before + took / 2, nanos)
}

/// Nanoseconds of 2^32 ticks; `None` where the readings are too near.
fn scale_of((ticks_0, nanos_0): (u64, u64), (ticks_1, nanos_1): (u64, u64)) -> Option<u64> {
    let ticks = ticks_1.checked_sub(ticks_0).filter(|&t| t > 1000)?;
    u64::try_from((u128::from(nanos_1.checked_sub(nanos_0)?) << 32) / u128::from(ticks)).ok()
}

/// The scale from the first reading to the last, unless a short measurement contradicts.
fn confirmed(first: (u64, u64), begin: (u64, u64), end: (u64, u64)) -> Option<u64> {
    const LEAST_NANOS: u64 = 1_000_000;
    // As exact as a short measurement.
    const DIFFERS: u64 = 200;
    if first.0 == 0 || end.1.saturating_sub(first.1) < LEAST_NANOS {
        return None;
    }
    let (long, short) = (scale_of(first, end)?, scale_of(begin, end)?);
    (long.abs_diff(short) <= short / DIFFERS).then_some(long)
}

/// `first` is the reading at the load.
fn measure(first: (u64, u64)) -> Option<u64> {
    const SHORT_NANOS: u64 = 50_000;
    const LONG_NANOS: u64 = 1_000_000;
    if !counter_is_steady() {
        return None;
    }
    // A clock that stands still, as under libfaketime, measures nothing: after so many readings a clock that runs has passed the longer time.
    const MOST_READINGS: usize = 200_000;
    let begin = pair();
    let after = |nanos: u64| {
        (0..MOST_READINGS).find(|_| {
            std::hint::spin_loop();
            system_nanos().saturating_sub(begin.1) >= nanos
        })?;
        Some(pair())
    };
    confirmed(first, begin, after(SHORT_NANOS)?).or_else(|| scale_of(begin, after(LONG_NANOS)?))
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
        assert_eq!((scale_of(at(2_000), at(2_500)), scale_of(at(2_000), at(1_000))), (None, None));
        assert_eq!(confirmed(at(1_000), at(950_000), at(1_000_999)), None, "a nanosecond too near");
        assert_eq!(confirmed(at(1_000), at(950_000), at(1_001_000)), Some(half));
    }

    #[test]
    fn a_short_measurement_agrees_that_differs_by_one_part_in_two_hundred() {
        // The short one says two ticks a nanosecond.
        let confirmed = |nanos: u64| {
            let end = (20_000_000_001, 20_000_000_000);
            let begin = (end.0 - 100_000, end.1 - 50_000);
            confirmed((1, end.1 - nanos), begin, end)
        };
        assert_eq!([10_050_000_000, 10_050_000_010].map(|nanos| confirmed(nanos).is_some()), [true, false]);
    }

    #[test]
    fn ticks_are_scaled_to_nanoseconds() {
        assert_eq!((scaled(10, 1 << 31), scaled(u64::MAX, 1 << 31)), (5, u64::MAX / 2));
    }

    #[test]
    fn the_reading_that_took_the_fewest_ticks_counts() {
        let readings = [(9, 100, 1), (8, 200, 2), (4, 300, 3), (5, 400, 4), (9, 500, 5)];
        assert_eq!(least_interrupted(readings), (302, 3));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_counter_is_steady_if_the_processor_and_the_kernel_say_so() {
        const INVARIANT: u32 = 1 << 8;
        assert!(is_steady(POWER_LEAF, INVARIANT, b"tsc\n") && is_steady(POWER_LEAF + 1, u32::MAX, b"tsc\n"));
        assert!(!is_steady(POWER_LEAF - 1, INVARIANT, b"tsc\n"), "the processor has no such leaf");
        assert!(!is_steady(POWER_LEAF, !INVARIANT, b"tsc\n"), "it depends on power states");
        assert!(!is_steady(POWER_LEAF, INVARIANT, b"hpet\n"), "the kernel does not trust it");
    }

    #[test]
    fn where_the_load_was_not_seen_a_steady_counter_is_measured_for_a_millisecond() {
        let before = system_nanos();
        let scale = measure((0, 0));
        assert_eq!(scale.is_some_and(|scale| scale > 1), counter_is_steady());
        assert!(scale.is_none() || system_nanos() - before >= 1_000_000);
    }

    #[test]
    fn a_second_of_the_systems_ticks_is_a_second() {
        // SAFETY: asks for a number.
        let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
        let [early, late] = [1 << 32, (1 << 32) + a_second].map(of_ticks);
        // The clocks are not read at one moment.
        assert!((late - early).abs_diff(1_000_000_000) < 500_000_000, "{early} {late}");
    }

    #[test]
    fn the_clock_keeps_time_with_the_system() {
        let (before, wall) = (system_nanos(), std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
        let loaded = first_look();
        start();
        assert!((before..=system_nanos()).contains(&loaded));
        // This thread may have to wait for a processor.
        let is_near = |one: u64, other: u64| one.abs_diff(other) < 5_000_000_000;
        assert!(is_near(monotonic_nanos(), before) && is_near(unix_nanos(), wall));
        assert!(system_since(before) >= loaded - before && is_near(system_since(before), 0));
        let (a, sys_a) = (now(), system_nanos());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (b, sys_b) = (now(), system_nanos());
        let (ours, theirs) = ((b - a) as f64, (sys_b - sys_a) as f64);
        assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} {theirs}");
    }
}
