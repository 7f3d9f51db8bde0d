//! The local memory of a context: how many bytes a thread the driver has set aside there, as far as is known, and the stack limit that the
//! guard has raised.
//!
//! The driver sets aside what the stack limit says (`CU_LIMIT_STACK_SIZE`), and more when a kernel is launched that needs more; for either it
//! waits until the context is idle, and the limit is what it has set aside from then on (measured). The guard raises the limit while nothing is in
//! flight, and the program does not notice: asked for the limit, the hook says what it was before, or what the program's launches have made of it
//! since, until the program sets it itself. From then on the limit is the program's.
//!
//! A function's first launch in a context takes the slow path, which notes here what it needs. So what launches have made of the limit is known
//! without a fold. A graph does the same as it becomes executable, and its launch does not (measured).
//!
//! Protocol: one word has the whole state of the limit. It says that the limit is being raised before the driver is asked to do it: a thread that
//! asks meanwhile gets the limit of before, and not the driver's answer. The program's own calls that set a limit wait at the gate, which is
//! closed while the guard raises one.
//!
//! Must not: raise a limit twice, or one that the program has set.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Default)]
pub struct LocalMemory {
    /// What is known to be set aside.
    set_aside: AtomicU64,
    /// What would be without the guard, beyond what every context has: the most that the program's launches have needed.
    without: AtomicU64,
    /// [`UNTOUCHED`], [`PROGRAMS`], or a [`Raised`].
    limit: AtomicU64,
}

/// Neither the guard nor the program has set the limit.
const UNTOUCHED: u64 = 0;
/// The program has set it.
const PROGRAMS: u64 = u64::MAX;

/// A limit that the guard has raised, or is about to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Raised {
    /// As the program knows it.
    shown: u32,
    /// As the driver has it: above the other, so that the word is none of the two above.
    to: u32,
}

/// In the place of the driver's limit, while the guard asks the driver to raise it or to set it back.
const RAISING: u32 = u32::MAX;

impl Raised {
    fn new(shown: u64, to: u64) -> Option<Self> {
        let (shown, to) = (u32::try_from(shown).ok()?, u32::try_from(to).ok()?);
        (shown < to).then_some(Self { shown, to })
    }

    fn word(self) -> u64 {
        (u64::from(self.to) << 32) + u64::from(self.shown)
    }

    fn of(word: u64) -> Option<Self> {
        let known = Self { shown: word as u32, to: (word >> 32) as u32 };
        (word != UNTOUCHED && word != PROGRAMS).then_some(known)
    }
}

/// What the driver makes of a stack limit of so many bytes, as was measured.
fn as_limit(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(16).unwrap_or(bytes)
}

/// What a context had set aside before a launch, in bytes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// As far as is known.
    pub known: u64,
    /// Without what the guard has set aside.
    pub without_guard: u64,
}

impl LocalMemory {
    /// Of a context that has just come.
    pub(super) fn begin(&self) {
        for word in [&self.set_aside, &self.without, &self.limit] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The program launches a kernel that needs so many bytes a thread. Returns what was set aside before.
    pub fn is_launched(&self, needs: u64) -> SetAside {
        SetAside {
            known: self.set_aside.fetch_max(needs, Ordering::Relaxed),
            without_guard: self.without.fetch_max(needs, Ordering::Relaxed),
        }
    }

    /// What is known to be set aside, in bytes a thread: less than there is where a launch was not seen.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    fn raised(&self) -> Option<Raised> {
        // Acquire, as the changes are: partner of their Release. Nothing else is read by what the word says.
        Raised::of(self.limit.load(Ordering::Acquire))
    }

    /// A raised limit, as the program knows it: what it was before, or what a launch has made of it since.
    fn known(&self, raised: Raised) -> u64 {
        as_limit(self.without.load(Ordering::Relaxed)).max(raised.shown.into())
    }

    /// The guard is about to raise the limit, which is this by now. Returns whether it may.
    pub fn raises(&self, limit: u64) -> bool {
        let raising = Raised::new(limit, RAISING.into()).map(Raised::word);
        let change = |word| self.limit.compare_exchange(UNTOUCHED, word, Ordering::AcqRel, Ordering::Acquire);
        raising.is_some_and(|word| change(word).is_ok())
    }

    /// The driver has been asked to raise it, or to set it back, and the limit is this now: the driver may have refused, or have rounded it. Returns
    /// whether it is raised.
    pub fn is_now(&self, limit: u64) -> bool {
        let now = |word| {
            let raising = Raised::of(word).filter(|raised| raised.to == RAISING)?;
            Some(
                Raised::new(raising.shown.into(), limit)
                    .filter(|now| now.to != RAISING)
                    .map_or(UNTOUCHED, Raised::word),
            )
        };
        if self.limit.fetch_update(Ordering::AcqRel, Ordering::Acquire, now).is_err() {
            return false;
        }
        let is_raised = self.raised().is_some();
        let by_guard = if is_raised { limit } else { 0 };
        self.set_aside.store(by_guard.max(self.without.load(Ordering::Relaxed)), Ordering::Relaxed);
        is_raised
    }

    /// The guard is about to give back what it has set aside. Returns the limit that is to be set for that: the one that the program knows, which its
    /// launches may need again.
    pub fn gives_back(&self) -> Option<u64> {
        let raised = self.raised().filter(|raised| raised.to != RAISING)?;
        let limit = self.known(raised);
        let raising = Raised { to: RAISING, ..raised }.word();
        let change = || self.limit.compare_exchange(raised.word(), raising, Ordering::AcqRel, Ordering::Acquire);
        (limit < raised.to.into() && change().is_ok()).then_some(limit)
    }

    /// The limit that the program gets when it asks for it and the driver answers this one.
    pub fn shown(&self, limit: u64) -> u64 {
        let is_guards = |raised: &Raised| raised.to == RAISING || u64::from(raised.to) == limit;
        self.raised().filter(is_guards).map_or(limit, |raised| self.known(raised))
    }

    /// The program sets the limit to what it is as far as the program knows: without the guard, the driver would have nothing to do, and wait for
    /// nothing. Returns the limit of which that is true.
    pub fn unchanged(&self, value: u64) -> Option<u64> {
        let raised = self.raised().filter(|raised| raised.to != RAISING)?;
        let known = self.known(raised);
        // A launch that needs more than the guard has set aside has made it more.
        (as_limit(value) == known).then(|| known.max(raised.to.into()))
    }

    /// The program has set the limit, and it is the program's from now on. Returns whether that has taken away what the guard had set aside.
    pub fn is_set_by_program(&self, value: u64) -> bool {
        let value = as_limit(value);
        match Raised::of(self.limit.swap(PROGRAMS, Ordering::AcqRel)) {
            // It has changed, in the driver and without the guard: as much is set aside, be it less.
            Some(raised) => {
                self.set_aside.store(value, Ordering::Relaxed);
                self.without.store(value, Ordering::Relaxed);
                value < raised.to.into() && raised.to != RAISING
            }
            // If it was that before, what launches have set aside stays.
            None => {
                self.is_launched(value);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(shown: u64, to: u64) -> LocalMemory {
        let memory = LocalMemory::default();
        assert!(memory.raises(shown) && memory.is_now(to));
        memory
    }

    fn before(memory: &LocalMemory, needs: u64) -> (u64, u64) {
        let before = memory.is_launched(needs);
        (before.known, before.without_guard)
    }

    #[test]
    fn a_launch_finds_what_earlier_ones_and_the_guard_have_set_aside() {
        let memory = LocalMemory::default();
        assert_eq!([2048, 512, 4096].map(|needs| before(&memory, needs)), [(0, 0), (2048, 2048), (2048, 2048)]);
        assert_eq!(memory.set_aside(), 4096);
        let memory = raised(1024, 8192);
        assert_eq!(memory.set_aside(), 8192);
        assert_eq!([4096, 4096, 9000].map(|needs| before(&memory, needs)), [(8192, 0), (8192, 4096), (8192, 4096)]);
        assert_eq!(before(&memory, 1), (9000, 9000));
    }

    #[test]
    fn the_program_is_told_the_limit_of_before_from_the_moment_it_is_raised() {
        let memory = LocalMemory::default();
        assert_eq!((memory.shown(1024), memory.unchanged(1024)), (1024, None));
        assert!(memory.raises(1024));
        assert_eq!([1024, 8000, 8192].map(|limit| memory.shown(limit)), [1024; 3], "while the driver is asked");
        assert_eq!((memory.set_aside(), memory.unchanged(1024)), (0, None), "not yet");
        assert!(memory.is_now(8192), "it may be more than was asked for");
        assert_eq!([1024, 8192, 8000, 0].map(|limit| memory.shown(limit)), [1024, 1024, 8000, 0]);
        assert_eq!(memory.set_aside(), 8192);
        assert_eq!(raised(0, 1).shown(1), 0);
    }

    #[test]
    fn a_launch_raises_the_limit_that_the_program_is_told() {
        let memory = raised(1024, 8192);
        for (needs, shown) in [(512, 1024), (1024, 1024), (1025, 1040), (4096, 4096), (2048, 4096), (8192, 8192)] {
            memory.is_launched(needs);
            assert_eq!(memory.shown(8192), shown, "{needs}");
            assert_eq!(memory.unchanged(shown), Some(8192), "{needs}");
        }
        assert_eq!(memory.unchanged(1024), None, "without the guard, the driver would set it back");
        memory.is_launched(9000);
        assert_eq!(memory.shown(9008), 9008, "the driver has raised it further");
        assert_eq!([8192, 9000, 9008].map(|value| memory.unchanged(value)), [None, Some(9008), Some(9008)]);
        memory.is_set_by_program(1024);
        memory.is_launched(4096);
        assert_eq!([1024, 4096].map(|limit| memory.shown(limit)), [1024, 4096], "from now on the driver says it");

        let memory = raised(1024, 8192);
        memory.is_launched(4000);
        assert_eq!(memory.gives_back(), Some(4000));
        assert_eq!(memory.shown(8192), 4000, "while the driver is asked");
        assert!(memory.is_now(4000));
        assert_eq!(memory.shown(4000), 4000);
        memory.begin();
        assert_eq!((memory.shown(1024), memory.shown(4000)), (1024, 4000), "another context");
    }

    #[test]
    fn a_limit_is_raised_once() {
        let memory = raised(1024, 8192);
        assert!(!memory.raises(1024) && !memory.raises(8192) && !memory.is_now(9000));
        assert_eq!((memory.shown(8192), memory.set_aside()), (1024, 8192));
        let memory = LocalMemory::default();
        assert!(memory.raises(1024) && !memory.raises(1024), "by another thread meanwhile");
        for limit in [u64::from(RAISING), u64::MAX, 1 << 32] {
            assert!(!LocalMemory::default().raises(limit), "{limit}");
        }
        assert!(LocalMemory::default().raises(u64::from(RAISING) - 1));
    }

    #[test]
    fn a_limit_that_the_driver_has_not_raised_is_as_before() {
        for now in [1024, 512, 0, u64::from(RAISING), u64::MAX] {
            let memory = LocalMemory::default();
            assert!(memory.raises(1024) && !memory.is_now(now), "{now}");
            assert_eq!((memory.shown(8192), memory.unchanged(1024), memory.set_aside()), (8192, None, 0), "{now}");
            assert!(!memory.is_set_by_program(512), "{now}: nothing to take away");
        }
        assert!(!LocalMemory::default().is_now(8192), "the guard has not raised it");
    }

    #[test]
    fn a_limit_that_the_program_sets_to_what_it_knows_stays_raised() {
        let memory = raised(1024, 8192);
        assert_eq!(
            [1024, 1009, 8192, 1008, 0].map(|value| memory.unchanged(value)),
            [Some(8192), Some(8192), None, None, None]
        );
        assert_eq!(LocalMemory::default().unchanged(0), None);
    }

    #[test]
    fn a_limit_that_the_program_has_set_is_its_own() {
        for (value, is_lost) in [(512, true), (8176, true), (8192, false), (9008, false)] {
            let memory = raised(1024, 8192);
            assert_eq!(memory.is_set_by_program(value), is_lost, "{value}");
            assert_eq!(memory.shown(8192), 8192, "{value}: nothing is hidden");
            assert_eq!((memory.unchanged(1024), memory.raises(value)), (None, false), "{value}");
            assert_eq!(before(&memory, 0), (value, value));
            assert!(!memory.is_set_by_program(100), "nothing is left to take away");
        }
        let memory = LocalMemory::default();
        memory.is_launched(4096);
        assert!(!memory.is_set_by_program(1024));
        assert_eq!(before(&memory, 0), (4096, 4096), "it may have been that before");
        assert!(!memory.raises(1024));
    }

    #[test]
    fn a_program_that_sets_the_limit_while_it_is_raised_has_the_last_word() {
        let memory = LocalMemory::default();
        assert!(memory.raises(1024) && !memory.is_set_by_program(2048));
        assert!(!memory.is_now(8192));
        assert_eq!((memory.shown(8192), before(&memory, 0)), (8192, (2048, 2048)));
    }

    #[test]
    fn what_is_given_back_is_all_that_the_programs_launches_have_not_set_aside() {
        let memory = raised(1024, 8192);
        assert_eq!(memory.gives_back(), Some(1024));
        assert_eq!([1024, 8192].map(|limit| memory.shown(limit)), [1024; 2], "while the driver is asked");
        assert_eq!(memory.gives_back(), None, "another thread does");
        assert!(!memory.is_now(1024));
        assert_eq!((memory.gives_back(), memory.set_aside(), memory.shown(8192)), (None, 0, 8192));

        let memory = raised(1024, 8192);
        memory.is_launched(4096);
        assert_eq!(memory.gives_back(), Some(4096));
        assert!(memory.is_now(4096));
        assert_eq!((memory.set_aside(), memory.shown(4096)), (4096, 4096));
        assert_eq!([1024, 4096].map(|value| memory.unchanged(value)), [None, Some(4096)]);
        assert_eq!(memory.gives_back(), None, "the program needs it");

        let memory = raised(1024, 8192);
        assert!(memory.gives_back().is_some() && memory.is_now(8192), "the driver has refused");
        assert_eq!((memory.set_aside(), memory.shown(8192)), (8192, 1024));
        for needs in [8192, 9000] {
            let memory = raised(1024, 8192);
            memory.is_launched(needs);
            assert_eq!(memory.gives_back(), None, "{needs}");
        }
        assert_eq!(LocalMemory::default().gives_back(), None);
        let memory = raised(1024, 8192);
        memory.is_set_by_program(8192);
        assert_eq!(memory.gives_back(), None, "it is the program's");
    }

    #[test]
    fn a_context_that_comes_has_nothing_of_the_one_before() {
        let memory = raised(1024, 8192);
        memory.is_launched(9000);
        memory.begin();
        assert_eq!((memory.shown(8192), before(&memory, 0)), (8192, (0, 0)));
        assert!(memory.raises(1024));
    }
}
