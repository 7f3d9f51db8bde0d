//! Decides what to preload, and when to stop.
//!
//! The shim asks at the few moments at which something could be loaded, and carries the answer out at the gate.
//!
//! The pace: what exists when a device gets its first context is loaded at once. PyTorch registers its libraries one by one as it first uses
//! them; loading each as it comes costs 12 to 15 % of its cold start. So late arrivals are loaded within 5 ms and a share of the run's time, and
//! the rest waits until the context is idle. The first few dozen are in pace by their number: on a busy machine a small program would lose one
//! otherwise. If a profile names the kernels that the program uses of a library, the rest comes after the start, and so does a library that
//! earlier runs have not used.

use crate::image::Prints;
use crate::settings::{Policy, Settings};
use crate::Nanos;

/// Why code was not preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// Too many kernels.
    BudgetKernels,
    /// Too much time.
    BudgetTime,
    /// Too much device memory.
    BudgetMemory,
    /// Work was in flight; the guard tries again at idle.
    InFlight,
    /// Its module, library or context is gone.
    Gone,
    /// The driver cannot list functions (before 12.4).
    CannotEnumerate,
    /// The library differs from the profile's.
    NotTheSame,
    /// The driver refused.
    DriverRefused,
    /// `CUDA_MODULE_LOADING=EAGER`: the driver loaded it.
    AlreadyEager,
    /// Little device memory was free; the guard tries again.
    LittleMemoryFree,
}

impl Skip {
    pub fn text(self) -> &'static str {
        match self {
            Self::BudgetKernels => "the budget of kernels is spent (LAZYGUARD_PRELOAD_KERNELS)",
            Self::BudgetTime => "the budget of time is spent (LAZYGUARD_PRELOAD_TIME)",
            Self::BudgetMemory => "the budget of device memory is spent (LAZYGUARD_PRELOAD_MEMORY)",
            Self::InFlight => "work was in flight in the context, and loading would have waited for it",
            Self::Gone => "its module, library or context was gone before its turn came",
            Self::CannotEnumerate => "the driver cannot list kernels (before 12.4): only resolved ones are loaded",
            Self::NotTheSame => "the object has other code there than in the run that the profile is of",
            Self::DriverRefused => "the driver refused to load it",
            Self::AlreadyEager => "the driver loads eagerly already (CUDA_MODULE_LOADING=EAGER)",
            Self::LittleMemoryFree => "too little of the device's memory is free (LAZYGUARD_PRELOAD_FREE)",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub kernels: u64,
    pub nanos: Nanos,
    pub bytes: u64,
}

pub fn is_blanket(settings: &Settings) -> bool {
    settings.preload == Policy::Eager
}

pub fn within_budget(settings: &Settings, spent: &Spent) -> Result<(), Skip> {
    match () {
        () if spent.kernels >= settings.budget_kernels => Err(Skip::BudgetKernels),
        () if spent.nanos >= settings.budget_nanos => Err(Skip::BudgetTime),
        () if spent.bytes >= settings.budget_bytes => Err(Skip::BudgetMemory),
        () => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub free: u64,
    pub total: u64,
}

/// Whether a device has so much memory free that a profile may load something ahead. The program may never ask for that code, and must find memory
/// for each call that would find it without the guard.
pub fn leaves_enough_free(settings: &Settings, memory: Memory) -> bool {
    is_blanket(settings) || memory.free >= memory.total / 100 * settings.least_free_percent
}

const FREE_NANOS: Nanos = 5_000_000;

/// Kernels that are in pace whatever the clock says, within a time below the budget: a small program's kernels are there also on a busy machine.
const FREE_KERNELS: u64 = 64;
const FREE_KERNELS_NANOS: Nanos = 400_000_000;

/// How much time may have been spent by now on what turned up after a context was created.
pub fn pace(settings: &Settings, elapsed: Nanos) -> Nanos {
    FREE_NANOS.saturating_add(elapsed / 100 * settings.budget_share_percent)
}

pub fn within_pace(settings: &Settings, elapsed: Nanos, late: &Spent) -> bool {
    late.kernels < FREE_KERNELS && late.nanos < FREE_KERNELS_NANOS || late.nanos < pace(settings, elapsed)
}

/// The moment at which [`pace`] reaches that much time, if it does.
pub fn pace_reaches(settings: &Settings, spent: Nanos) -> Option<Nanos> {
    if spent < FREE_NANOS {
        return Some(0);
    }
    (spent - FREE_NANOS).checked_mul(100)?.checked_div(settings.budget_share_percent)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLaunch {
    ToCome,
    Now,
    Made,
}

/// Whether code waits for the first launch of a context, or until that was made.
///
/// If a module of the context prints, the driver holds its first launch back until everything in flight has ended, and the program may wait
/// for that launch. So code that prints, or may, comes right before the first launch, in an idle context. The driver may refuse that launch, and the
/// next one be made beside work: so a module that is seen to print comes after it. A library comes before: the program wants its kernels by then.
pub fn waits_for_first_launch(prints: Prints, is_module: bool, first: FirstLaunch) -> bool {
    match (first, prints) {
        (FirstLaunch::Made, _) | (_, Prints::No) => false,
        (FirstLaunch::Now, Prints::Yes) => is_module,
        (FirstLaunch::Now, Prints::Unknown) => false,
        (FirstLaunch::ToCome, _) => true,
    }
}

pub fn loads_libraries(policy: Policy) -> bool {
    matches!(policy, Policy::Auto | Policy::Eager)
}

/// When the rest of a late library that a profile knows is loaded: most programs' start is over.
const REST_AFTER_NANOS: Nanos = 10_000_000_000;

const FEW_KERNELS: u64 = 8;

/// Whether the kernels of a library are left for after the start. `is_known`: the profile has the kernels that the program uses of it, or that earlier
/// runs have not used it. `is_late`: there is a context already.
pub fn rest_waits(settings: &Settings, is_known: bool, is_late: bool, kernels: impl FnOnce() -> u64) -> bool {
    is_known && is_late && settings.preload != Policy::Eager && kernels() > FEW_KERNELS
}

pub fn rest_is_due(elapsed: Nanos) -> bool {
    elapsed >= REST_AFTER_NANOS
}

/// Also under policies that load whole libraries, where a library could not be listed.
pub fn loads_resolved(policy: Policy) -> bool {
    policy != Policy::Off
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeInstance {
    pub fat_binaries: u64,
    pub driver_eager: bool,
}

/// The guard's answer about lazy loading to a CUDA runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nudge {
    /// EAGER: the runtime registers all libraries now; the driver stays lazy.
    RegisterNow,
    /// The driver's answer, as the policy asks.
    PolicyLeavesAlone,
    /// The driver's answer: too many fat binaries.
    TooMany,
    /// The driver's answer: no fat binary found.
    NothingFound,
    /// The driver's answer: EAGER.
    AlreadyEager,
}

pub fn nudge(settings: &Settings, instance: &RuntimeInstance) -> Nudge {
    match settings.preload {
        _ if instance.driver_eager => Nudge::AlreadyEager,
        Policy::Eager => Nudge::RegisterNow,
        Policy::Auto if instance.fat_binaries == 0 => Nudge::NothingFound,
        Policy::Auto if instance.fat_binaries <= settings.nudge_fat_binaries => Nudge::RegisterNow,
        Policy::Auto => Nudge::TooMany,
        Policy::Off | Policy::Resolve => Nudge::PolicyLeavesAlone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::HashSet;
    use crate::settings::SETTINGS;

    #[test]
    fn only_small_instances_are_nudged_unless_everything_is() {
        let instance = |fat_binaries| RuntimeInstance { fat_binaries, driver_eager: false };
        for (policy, count, expect) in [
            (Policy::Auto, 1, Nudge::RegisterNow),
            (Policy::Auto, 32, Nudge::RegisterNow),
            (Policy::Auto, 33, Nudge::TooMany),
            (Policy::Auto, 0, Nudge::NothingFound),
            (Policy::Eager, 5000, Nudge::RegisterNow),
            (Policy::Resolve, 1, Nudge::PolicyLeavesAlone),
            (Policy::Off, 1, Nudge::PolicyLeavesAlone),
        ] {
            let settings = Settings { preload: policy, ..Settings::default() };
            assert_eq!(nudge(&settings, &instance(count)), expect, "{policy:?} {count}");
        }
        let eager = RuntimeInstance { fat_binaries: 1, driver_eager: true };
        assert_eq!(nudge(&Settings::default(), &eager), Nudge::AlreadyEager);
    }

    #[test]
    fn what_comes_late_is_loaded_at_a_pace_and_the_pace_is_met_again() {
        let settings = Settings { budget_share_percent: 4, ..Settings::default() };
        assert_eq!(pace(&settings, 0), FREE_NANOS);
        assert_eq!(pace(&settings, 1_000_000_000), FREE_NANOS + 40_000_000);
        for spent in [FREE_NANOS, FREE_NANOS + 40_000_000, FREE_NANOS + 7_000_000] {
            let when = pace_reaches(&settings, spent).unwrap();
            assert!(pace(&settings, when) >= spent, "{spent}");
        }
        assert_eq!(pace_reaches(&settings, 0), Some(0));
        assert_eq!(pace_reaches(&settings, FREE_NANOS + 40_000_000), Some(1_000_000_000), "no later than that");
        let never = Settings { budget_share_percent: 0, ..Settings::default() };
        assert_eq!(pace_reaches(&never, FREE_NANOS - 1), Some(0));
        assert_eq!(pace_reaches(&never, FREE_NANOS), None, "the free time is spent, and there is no other");
    }

    #[test]
    fn a_few_kernels_are_in_pace_however_slow_the_machine_is() {
        let settings = Settings { budget_share_percent: 0, ..Settings::default() };
        let within = |kernels, nanos| within_pace(&settings, 0, &Spent { kernels, nanos, bytes: 0 });
        assert!(within(3, FREE_NANOS * 10) && !within(FREE_KERNELS, FREE_NANOS), "by the kernel");
        assert!(!within(3, FREE_KERNELS_NANOS), "but not without end");
        assert!(within_budget(&Settings::default(), &Spent { nanos: FREE_KERNELS_NANOS, ..Spent::default() }).is_ok());
        assert!(within(1000, FREE_NANOS - 1), "by the clock");
    }

    #[test]
    fn the_rest_of_a_large_library_waits_until_the_start_is_over() {
        let auto = Settings::default();
        let eager = Settings { preload: Policy::Eager, ..Settings::default() };
        let waits = |kernels| rest_waits(&auto, true, true, || kernels);
        assert_eq!([1, FEW_KERNELS, FEW_KERNELS + 1].map(waits), [false, false, true]);
        assert!(!rest_waits(&auto, true, false, || u64::MAX), "with the first context all comes at once");
        assert!(!rest_waits(&eager, true, true, || u64::MAX), "it loads everything at once");
        assert!(!rest_waits(&auto, false, true, || panic!("the driver is asked in vain")));
        assert_eq!([0, 9_999_999_999, 10_000_000_000, Nanos::MAX].map(rest_is_due), [false, false, true, true]);
    }

    #[test]
    fn what_may_print_does_not_come_before_the_first_launch_and_a_module_that_prints_comes_after_it() {
        use FirstLaunch::*;
        for (prints, is_module, waits) in [
            (Prints::No, true, [false, false, false]),
            (Prints::No, false, [false, false, false]),
            (Prints::Yes, true, [true, true, false]),
            (Prints::Yes, false, [true, false, false]),
            (Prints::Unknown, true, [true, false, false]),
            (Prints::Unknown, false, [true, false, false]),
        ] {
            let found = [ToCome, Now, Made].map(|first| waits_for_first_launch(prints, is_module, first));
            assert_eq!(found, waits, "{prints:?}, a module: {is_module}");
        }
    }

    #[test]
    fn nothing_is_loaded_ahead_while_less_than_a_share_of_the_device_is_free() {
        let with = |least_free_percent, preload| Settings { least_free_percent, preload, ..Settings::default() };
        let enough = |settings: &Settings, free| leaves_enough_free(settings, Memory { free, total: 80_000 });
        let free = [0, 7_999, 8_000, 80_000];
        let default = Settings::default();
        assert_eq!(free.map(|free| enough(&default, free)), [false, false, true, true], "a tenth, unless it is set");
        for (percent, policy, expect) in [
            (0, Policy::Auto, [true; 4]),
            (100, Policy::Resolve, [false, false, false, true]),
            (10, Policy::Eager, [true; 4]),
        ] {
            let settings = with(percent, policy);
            assert_eq!(free.map(|free| enough(&settings, free)), expect, "{percent} {policy:?}");
        }
    }

    #[test]
    fn each_policy_loads_what_its_name_says() {
        for (policy, libraries, resolved) in [
            (Policy::Off, false, false),
            (Policy::Resolve, false, true),
            (Policy::Auto, true, true),
            (Policy::Eager, true, true),
        ] {
            assert_eq!((loads_libraries(policy), loads_resolved(policy)), (libraries, resolved), "{policy:?}");
        }
    }

    #[test]
    fn each_reason_differs_and_a_spent_budget_names_its_setting() {
        let spent = [
            (Skip::BudgetKernels, "LAZYGUARD_PRELOAD_KERNELS"),
            (Skip::BudgetTime, "LAZYGUARD_PRELOAD_TIME"),
            (Skip::BudgetMemory, "LAZYGUARD_PRELOAD_MEMORY"),
            (Skip::LittleMemoryFree, "LAZYGUARD_PRELOAD_FREE"),
        ];
        for (budget, setting) in spent {
            assert!(
                budget.text().contains(setting) && SETTINGS.iter().any(|known| known.name == setting),
                "{budget:?}"
            );
        }
        let others = [Skip::InFlight, Skip::Gone, Skip::CannotEnumerate, Skip::DriverRefused, Skip::AlreadyEager];
        let texts: HashSet<_> = spent.map(|(budget, _)| budget).iter().chain(&others).map(|skip| skip.text()).collect();
        assert_eq!(texts.len(), spent.len() + others.len());
    }

    #[test]
    fn each_budget_stops_the_loading_and_says_which() {
        let settings = Settings { budget_kernels: 10, budget_nanos: 100, budget_bytes: 1000, ..Settings::default() };
        let spent = |kernels, nanos, bytes| Spent { kernels, nanos, bytes };
        assert_eq!(within_budget(&settings, &spent(9, 99, 999)), Ok(()));
        assert_eq!(within_budget(&settings, &spent(10, 0, 0)), Err(Skip::BudgetKernels));
        assert_eq!(within_budget(&settings, &spent(0, 100, 0)), Err(Skip::BudgetTime));
        assert_eq!(within_budget(&settings, &spent(0, 0, 1000)), Err(Skip::BudgetMemory));
    }

    #[test]
    fn one_policy_knows_no_budget() {
        for (preload, blanket) in
            [(Policy::Off, false), (Policy::Resolve, false), (Policy::Auto, false), (Policy::Eager, true)]
        {
            assert_eq!(is_blanket(&Settings { preload, ..Settings::default() }), blanket, "{preload:?}");
        }
    }
}
