//! The profile of a program: what its runs have loaded, so that the next run loads it ahead.
//!
//! A profile is a folder that any number of processes share. Each process that learns something new writes a part of its own (`text`); no
//! process changes the part of another. [`Profile::merge`] is commutative, associative and idempotent. The bytes of images lie beside, by
//! content ([`ImageId`]).
//!
//! | file of the folder | holds |
//! |---|---|
//! | `NAME.profile` | a part |
//! | `images/ID` | the bytes of an image that the program loads itself |
//!
//! Must not: read or write files, or believe a part whose end is missing.

#[cfg(test)]
mod folder_tests;
mod image;
mod text;

pub use image::{ImageId, Samples};
pub use text::Damage;

use crate::order;
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

pub const PART: &str = ".profile";

/// Whether a file is a part, by its name. A hidden one is still being written.
pub fn is_part(name: &str) -> bool {
    name.ends_with(PART) && !name.starts_with('.')
}

pub const IMAGES: &str = "images";

/// The largest image that is kept: kernels compiled at run time have some hundred kilobytes at most.
pub const MOST_IMAGE_BYTES: u64 = 32 << 20;

pub const MOST_BYTES: u64 = 512 << 20;

/// The largest fat binary of a library loaded ahead, the most bytes of all, and the most libraries: the driver keeps a copy of each.
pub const MOST_LIBRARY_BYTES: u64 = 64 << 20;
pub const MOST_BYTES_OF_LIBRARIES: u64 = 256 << 20;
pub const MOST_LIBRARIES: usize = 1024;

/// The most libraries that are noted by their samples alone.
pub const MOST_SEEN: usize = 1024;

/// Days that an unused library is kept while others are used.
pub const MOST_DAYS: u32 = 90;

/// The most modules of one image that are loaded ahead into a context.
pub const MOST_AHEAD: u32 = 8;

/// The options (`CUjit_option`) with their values, in order, and whether it is loaded as a module or as a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadOptions {
    is_library: bool,
    options: Vec<(i32, u64)>,
}

impl LoadOptions {
    /// `None` where an option makes the driver write to the program's memory, is unknown, or is given twice.
    pub fn new(options: impl IntoIterator<Item = (i32, u64)>) -> Option<Self> {
        let mut all: Vec<_> = options.into_iter().collect();
        order::sort_by_key(&mut all, |option| *option);
        let differ = all.windows(2).all(|two| two[0].0 != two[1].0);
        let are_plain = differ && all.iter().all(|(option, _)| is_plain(*option));
        are_plain.then_some(Self { is_library: false, options: all })
    }

    pub fn all(&self) -> &[(i32, u64)] {
        &self.options
    }

    pub fn of_library(self) -> Self {
        Self { is_library: true, ..self }
    }

    pub fn is_library(&self) -> bool {
        self.is_library
    }

    /// A library belongs to no context, and stays when a context goes.
    pub fn home(&self, context: u32) -> u32 {
        [context, u32::MAX][usize::from(self.is_library)]
    }
}

impl fmt::Display for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.options.iter().map(|(option, value)| format!("{option}={value}")).collect();
        f.write_str(if all.is_empty() { "-".to_owned() } else { all.join(",") }.as_str())
    }
}

/// Whether an option is a number that the driver only reads. The others are buffers, their sizes, and places for results.
fn is_plain(option: i32) -> bool {
    // MAX_REGISTERS, OPTIMIZATION_LEVEL, TARGET_FROM_CUCONTEXT, TARGET, FALLBACK_STRATEGY, GENERATE_DEBUG_INFO, GENERATE_LINE_INFO, CACHE_MODE.
    matches!(option, 0 | 7..=11 | 13 | 14)
}

/// The uses that the runs have made of an image, or of a library that a CUDA runtime loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The last day of use, from 1970.
    pub day: u32,
    /// By options, the most loads in one context of one run, or in one run of an image that is loaded as a library. Empty of a runtime's library.
    pub loads: BTreeMap<LoadOptions, u32>,
    pub kernels: BTreeSet<String>,
}

impl Uses {
    fn merge(&mut self, other: &Self) {
        self.day = self.day.max(other.day);
        for (options, &most) in &other.loads {
            let known = self.loads.entry(options.clone()).or_default();
            *known = most.max(*known);
        }
        self.kernels.extend(other.kernels.iter().cloned());
    }

    fn takes(&mut self, kernel: &str) -> bool {
        !self.kernels.contains(kernel) && self.kernels.insert(kernel.to_owned())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file name of the object; empty for the program itself.
    pub object: String,
    /// Bytes from the object's load address to the reference in `.nvFatBinSegment`.
    pub offset: u64,
    /// By samples ([`ImageId::of_samples`]).
    pub image: ImageId,
}

/// A library that the program loads itself, whose bytes are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The last day on which it was loaded, from 1970.
    pub day: u32,
    /// Whether anything brought it into a context.
    pub is_used: bool,
}

impl Seen {
    fn merge(&mut self, other: Self) {
        *self = Self { day: self.day.max(other.day), is_used: self.is_used || other.is_used };
    }
}

/// How the newest load that took long has gone, of an image or a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fate {
    /// In seconds from 1970.
    pub at: u64,
    pub course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Course {
    /// It has not ended, or the program has not asked for it.
    Bad,
    /// The guard's own has hung. That the program's end says nothing of the next one ahead.
    Stood,
    Good,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub images: BTreeMap<ImageId, Uses>,
    pub libraries: BTreeMap<Place, Uses>,
    /// Libraries that it loads itself, by samples ([`ImageId::of_samples`]).
    pub seen: BTreeMap<ImageId, Seen>,
    /// The newest, by content or by samples.
    pub fates: BTreeMap<ImageId, Fate>,
}

impl Profile {
    pub fn merge(&mut self, other: &Self) {
        other.images.iter().for_each(|(id, image)| self.images.entry(*id).or_default().merge(image));
        for (place, library) in &other.libraries {
            self.libraries.entry(place.clone()).or_default().merge(library);
        }
        other.seen.iter().for_each(|(id, seen)| self.seen.entry(*id).or_default().merge(*seen));
        other.fates.iter().for_each(|(id, fate)| _ = self.fares(*id, *fate));
    }

    /// `false` where the part is gone: a process has merged it.
    pub fn take_part(&mut self, read: io::Result<Vec<u8>>) -> io::Result<bool> {
        match read {
            Ok(bytes) => self.merge(&Self::parse(&bytes).map_err(|damage| io::Error::other(damage.to_string()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    pub fn adds_to(&self, known: &Self) -> bool {
        let mut all = known.clone();
        all.merge(self);
        all != *known
    }

    /// A program has loaded an image for the `time`th time in one context; whether that is new.
    pub fn loaded(&mut self, id: ImageId, options: LoadOptions, time: u32, day: u32) -> bool {
        let image = self.images.entry(id).or_default();
        let most = image.loads.entry(options).or_default();
        let is_new = time > *most || day > image.day;
        (*most, image.day) = (time.max(*most), day.max(image.day));
        is_new
    }

    /// A kernel of an image is used; whether that is new.
    pub fn used(&mut self, id: ImageId, kernel: &str) -> bool {
        self.images.get_mut(&id).is_some_and(|image| image.takes(kernel))
    }

    /// A runtime loads a library; whether that is new.
    pub fn library_loaded(&mut self, place: &Place, day: u32) -> bool {
        let is_new = self.libraries.get(place).is_none_or(|library| library.day < day);
        if is_new {
            self.libraries.entry(place.clone()).or_default().day = day;
        }
        is_new
    }

    /// A kernel of a library is used; whether that is new.
    pub fn library_used(&mut self, place: &Place, kernel: &str) -> bool {
        self.libraries.get_mut(place).is_some_and(|library| library.takes(kernel))
    }

    /// The program has loaded a library itself; whether that is new, and has room.
    pub fn sees(&mut self, id: ImageId, is_used: bool, day: u32) -> bool {
        let is_newer = |known: &Seen| day > known.day || is_used && !known.is_used;
        let is_new = self.seen.get(&id).map_or(self.seen.len() < MOST_SEEN, is_newer);
        if is_new {
            self.seen.entry(id).or_default().merge(Seen { day, is_used });
        }
        is_new
    }

    /// A load that took long has ended, or not; whether that is new, and has room.
    pub fn fares(&mut self, id: ImageId, fate: Fate) -> bool {
        let is_new = self.fates.get(&id).map_or(self.fates.len() < MOST_SEEN, |known| *known < fate);
        if is_new {
            self.fates.insert(id, fate);
        }
        is_new
    }

    /// Whether it is not to be loaded ahead: a load of it did not end, or took long ahead of a program that did not ask for it.
    pub fn is_to_be_avoided(&self, id: &ImageId) -> bool {
        self.fates.get(id).is_some_and(|fate| fate.course != Course::Good)
    }

    /// Whether runs have loaded it, and none has used it.
    pub fn has_seen_unused(&self, id: &ImageId) -> bool {
        self.seen.get(id).is_some_and(|seen| !seen.is_used)
    }

    /// The order in which they are kept, and loaded ahead.
    pub fn newest_first(&self) -> Vec<ImageId> {
        let mut all: Vec<_> = self.images.iter().map(|(id, image)| (std::cmp::Reverse(image.day), *id)).collect();
        order::sort_by_key(&mut all, |one| *one);
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Cuts off days to come, as a wrong clock leaves them.
    pub fn ends_on(&mut self, today: u32) {
        self.days_mut().for_each(|day| *day = today.min(*day));
        let tomorrow = (u64::from(today) + 1) * 86_400;
        self.fates.values_mut().for_each(|fate| fate.at = tomorrow.min(fate.at));
    }

    fn days_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        let of_libraries = self.libraries.values_mut().map(|library| &mut library.day);
        let of_seen = self.seen.values_mut().map(|seen| &mut seen.day);
        self.images.values_mut().map(|image| &mut image.day).chain(of_libraries).chain(of_seen)
    }

    /// The text of a part of limited size, without the entries that were used longest ago.
    pub fn text_within(&self, most_bytes: usize) -> String {
        let mut left = self.clone();
        loop {
            let text = left.text();
            let (oldest, newest) = (left.days_mut().map(|day| *day).min(), left.days_mut().map(|day| *day).max());
            if text.len() <= most_bytes || oldest.is_none() {
                return text;
            }
            if oldest < newest {
                left.images.retain(|_, image| Some(image.day) > oldest);
                left.libraries.retain(|_, library| Some(library.day) > oldest);
                left.seen.retain(|_, seen| Some(seen.day) > oldest);
            } else {
                // All of one day: half of it.
                let [images, libraries, seen] =
                    [left.images.len(), left.libraries.len(), left.seen.len()].map(|count| count / 2);
                left.images = left.images.into_iter().take(images).collect();
                left.libraries = left.libraries.into_iter().take(libraries).collect();
                left.seen = left.seen.into_iter().take(seen).collect();
            }
        }
    }

    /// Takes out, and returns, the images for which there is no room, used longest ago; and takes out libraries unused for [`MOST_DAYS`], and of
    /// those that the program loads itself all but the newest [`MOST_SEEN`].
    pub fn prune(&mut self, most_bytes: u64) -> Vec<ImageId> {
        let mut bytes = 0_u64;
        let has_room = |id: &ImageId| {
            bytes = bytes.saturating_add(id.bytes);
            bytes > most_bytes
        };
        let gone: Vec<_> = self.newest_first().into_iter().filter(has_room).collect();
        gone.iter().for_each(|id| drop(self.images.remove(id)));
        let newest = self.libraries.values().map(|library| library.day).max().unwrap_or(0);
        self.libraries.retain(|_, library| newest - library.day <= MOST_DAYS);
        let fat_binaries: BTreeSet<_> = self.libraries.keys().map(|place| place.image).collect();
        self.fates.retain(|id, _| self.images.contains_key(id) || fat_binaries.contains(id));
        let newest = self.seen.values().map(|seen| seen.day).max().unwrap_or(0);
        let mut seen: Vec<_> = self.seen.iter().filter(|(_, seen)| newest - seen.day <= MOST_DAYS).collect();
        order::sort_by_key(&mut seen, |(_, seen)| std::cmp::Reverse(seen.day));
        self.seen = seen.into_iter().take(MOST_SEEN).map(|(id, seen)| (*id, *seen)).collect();
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn id(content: &[u8]) -> ImageId {
        ImageId::of(content)
    }

    pub(super) fn place(object: &str, offset: u64) -> Place {
        Place { object: object.to_owned(), offset, image: id(object.as_bytes()) }
    }

    fn options(all: &[(i32, u64)]) -> LoadOptions {
        LoadOptions::new(all.iter().copied()).unwrap()
    }

    fn sample(seed: u32) -> Profile {
        let mut profile = Profile::default();
        for n in 0..3_u32 {
            let one = id(&(seed % 2 * 7 + n).to_le_bytes());
            profile.loaded(one, options(&[(0, u64::from(n % 2))]), 1 + (seed + n) % 4, 20_000 + (seed * 3 + n) % 5);
            profile.used(one, &format!("kernel_{}", (seed + n) % 3));
            let place = place("lib.so", u64::from(seed % 2 + n));
            profile.library_loaded(&place, 20_000 + (seed + n) % 4);
            profile.library_used(&place, &format!("kernel_{}", (seed * n) % 3));
            profile.sees(id(&[n as u8]), (seed + n).is_multiple_of(3), 20_000 + (seed * 2 + n) % 5);
            let course = [Course::Bad, Course::Stood, Course::Good][seed as usize % 3];
            profile.fares(one, Fate { at: u64::from((seed + n) % 2), course });
        }
        profile
    }

    #[test]
    fn the_order_and_the_number_of_merges_change_nothing() {
        let [a, b, c] = [1, 2, 3].map(sample);
        let merged = |parts: &[&Profile]| {
            let mut all = Profile::default();
            parts.iter().for_each(|part| all.merge(part));
            all
        };
        let all = merged(&[&a, &b, &c]);
        assert_eq!(all, merged(&[&c, &a, &b, &a, &all]));
        assert_ne!(all, merged(&[&a, &b]));
        for part in [&a, &b, &c] {
            assert!(!part.adds_to(&all) && all.adds_to(part));
        }
        assert!(!all.adds_to(&all));
    }

    #[test]
    fn the_newest_load_says_whether_the_next_run_avoids_it() {
        let (one, mut known) = (id(b"one"), Profile::default());
        assert!(!known.is_to_be_avoided(&one));
        use Course::{Bad, Good, Stood};
        for (at, course, is_new, avoided) in [
            (5, Bad, true, true),
            (5, Bad, false, true),
            (4, Good, false, true),
            (5, Stood, true, true),
            (5, Good, true, false),
            (5, Bad, false, false),
            (6, Bad, true, true),
        ] {
            assert_eq!(known.fares(one, Fate { at, course }), is_new, "{at} {course:?}");
            assert_eq!(known.is_to_be_avoided(&one), avoided, "{at} {course:?}");
            assert_eq!(Profile::parse(known.text().as_bytes()), Ok(known.clone()));
        }
        known.fares(one, Fate { at: u64::MAX, course: Good });
        known.ends_on(2);
        assert_eq!(known.fates[&one].at, 3 * 86_400, "a day to come");
        known.prune(0);
        assert!(known.fates.is_empty(), "of nothing that is known");
    }

    #[test]
    fn what_is_known_is_not_new() {
        let (one, mut known) = (id(b"one"), Profile::default());
        assert!(!known.used(one, "k"), "of no image");
        assert!(known.loaded(one, LoadOptions::default(), 2, 100));
        for (time, day, is_new) in [(2, 100, false), (1, 99, false), (3, 1, true), (1, 101, true), (3, 101, false)] {
            assert_eq!(known.loaded(one, LoadOptions::default(), time, day), is_new, "{time} {day}");
        }
        assert!(known.used(one, "k") && !known.used(one, "k") && known.used(one, "k2"));
    }

    #[test]
    fn what_is_known_of_a_library_is_not_new() {
        let (one, mut known) = (place("lib.so", 24), Profile::default());
        assert!(!known.library_used(&one, "k"), "of no library");
        for (day, is_new) in [(100, true), (100, false), (99, false), (101, true), (100, false)] {
            assert_eq!(known.library_loaded(&one, day), is_new, "{day}");
        }
        assert!(known.library_used(&one, "k") && !known.library_used(&one, "k") && known.library_used(&one, "k2"));
        let adds = |change: &dyn Fn(&mut Profile) -> bool| {
            let mut more = known.clone();
            change(&mut more);
            more.adds_to(&known)
        };
        assert!(adds(&|p| p.library_loaded(&one, 102)) && !adds(&|p| p.library_loaded(&one, 1)), "later");
        assert!(adds(&|p| p.library_used(&one, "k3")) && !adds(&|p| p.library_used(&one, "k")), "another kernel");
        for other in [place("lib.so", 48), place("lib2.so", 24), Place { image: id(b"other"), ..one.clone() }] {
            assert!(adds(&|p| p.library_loaded(&other, 1)), "{other:?}");
        }
    }

    #[test]
    fn a_library_that_has_not_been_used_for_long_is_pruned_and_time_without_runs_is_none() {
        let mut profile = Profile::default();
        for (offset, day) in [(0, 10), (24, 10 + MOST_DAYS), (48, 9)] {
            profile.library_loaded(&place("lib.so", offset), day);
        }
        assert_eq!(profile.prune(0), []);
        let left: Vec<_> = profile.libraries.keys().map(|place| place.offset).collect();
        assert_eq!(left, [0, 24]);
        assert_eq!(Profile::default().prune(0), []);
    }

    #[test]
    fn a_library_that_was_seen_is_unused_until_a_run_uses_it() {
        let (one, mut known) = (id(b"one"), Profile::default());
        assert!(!known.has_seen_unused(&one));
        for (is_used, day, is_new, is_unused) in [
            (false, 100, true, true),
            (false, 100, false, true),
            (false, 99, false, true),
            (false, 101, true, true),
            (true, 5, true, false),
            (true, 101, false, false),
            (false, 102, true, false),
        ] {
            let found = (known.sees(one, is_used, day), known.has_seen_unused(&one));
            assert_eq!(found, (is_new, is_unused), "{is_used} {day}");
        }
        assert_eq!(known.seen[&one], Seen { day: 102, is_used: true });
        let seen = |is_used, day| Profile { seen: [(one, Seen { day, is_used })].into(), ..Profile::default() };
        for (more, adds) in [
            (seen(false, 102), false),
            (seen(true, 102), false),
            (seen(true, 101), false),
            (seen(false, 103), true),
            (Profile { seen: [(id(b"two"), Seen::default())].into(), ..Profile::default() }, true),
        ] {
            assert_eq!(more.adds_to(&known), adds, "{more:?}");
        }
        assert!(seen(true, 1).adds_to(&seen(false, 102)), "it is used");
        let mut merged = seen(false, 102);
        merged.merge(&seen(true, 1));
        assert_eq!(merged, seen(true, 102));
    }

    #[test]
    fn so_many_libraries_are_seen_and_the_ones_that_were_loaded_last_stay() {
        let number = |n: usize| id(&n.to_le_bytes());
        let mut profile = Profile::default();
        assert!((0..MOST_SEEN).all(|n| profile.sees(number(n), false, 100)));
        assert!(!profile.sees(number(MOST_SEEN), false, 100), "there is no room");
        assert!(profile.sees(number(0), true, 100) && profile.seen.len() == MOST_SEEN, "one that is known");
        let mut other = Profile::default();
        assert!(other.sees(number(MOST_SEEN), false, 101) && other.sees(number(MOST_SEEN + 1), false, 99));
        profile.merge(&other);
        assert_eq!(profile.seen.len(), MOST_SEEN + 2);
        profile.prune(0);
        assert_eq!(profile.seen.len(), MOST_SEEN);
        assert!(profile.seen.contains_key(&number(MOST_SEEN)) && !profile.seen.contains_key(&number(MOST_SEEN + 1)));
        profile.sees(number(MOST_SEEN), false, 100 + MOST_DAYS);
        profile.prune(0);
        assert_eq!(profile.seen.len(), MOST_SEEN, "all within the time");
        profile.sees(number(MOST_SEEN), false, 101 + MOST_DAYS);
        profile.prune(0);
        assert_eq!(profile.seen.keys().collect::<Vec<_>>(), [&number(MOST_SEEN)]);
    }

    #[test]
    fn each_new_fact_adds_something() {
        let (one, plain) = (id(b"one"), LoadOptions::default());
        let mut known = Profile::default();
        known.loaded(one, plain.clone(), 2, 100);
        known.used(one, "k");
        let with = |change: fn(&mut Profile, ImageId) -> bool| {
            let mut more = known.clone();
            change(&mut more, one);
            more.adds_to(&known)
        };
        assert!(with(|p, one| p.loaded(one, LoadOptions::default(), 3, 0)), "more often");
        assert!(with(|p, one| p.loaded(one, LoadOptions::default(), 1, 101)), "later");
        assert!(with(|p, one| p.loaded(one, LoadOptions::new([(0, 32)]).unwrap(), 1, 0)), "with other options");
        assert!(with(|p, one| p.used(one, "k2")), "another kernel");
        assert!(with(|p, _| p.loaded(id(b"two"), LoadOptions::default(), 1, 0)), "another image");
        assert!(!with(|p, one| p.loaded(one, LoadOptions::default(), 1, 99)), "nothing");
        assert!(!with(|p, _| p.used(id(b"three"), "k")), "a kernel of no image");
    }

    #[test]
    fn options_that_are_written_to_or_not_known_are_the_programs_own() {
        assert_eq!(LoadOptions::new([(9, 90), (0, 32)]), LoadOptions::new([(0, 32), (9, 90)]));
        // The log buffers and their sizes, the time, the verbose log, a place for symbols, one that is to come.
        for option in [1, 2, 3, 4, 5, 6, 12, 17, 18, 19, 1000, -1] {
            assert_eq!(LoadOptions::new([(0, 32), (option, 1)]), None, "{option}");
        }
        assert_eq!(LoadOptions::new([(0, 32), (0, 33)]), None);
        for option in [0, 7, 8, 9, 10, 11, 13, 14] {
            assert_eq!(LoadOptions::new([(option, 1)]).unwrap().all(), [(option, 1)]);
        }
    }

    #[test]
    fn a_load_as_a_library_is_another_than_that_of_a_module_and_belongs_to_no_context() {
        let module = LoadOptions::new([(0, 32)]).unwrap();
        let library = module.clone().of_library();
        assert!(library.is_library() && !module.is_library() && library != module);
        assert_eq!((library.all(), library.to_string()), (module.all(), "0=32".to_owned()));
        assert_eq!([0, 1, 7].map(|context| module.home(context)), [0, 1, 7]);
        let [home, other] = [1, 7].map(|context| library.home(context));
        assert!(home == other && ![0, 1, 7].contains(&home), "0 stands for a context that is not known");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut profile = Profile::default();
        let [old, new, newest] = [[1_u8; 100], [2; 100], [3; 100]].map(|content| id(&content));
        for (image, day) in [(new, 20), (old, 10), (newest, 30)] {
            profile.loaded(image, LoadOptions::default(), 1, day);
        }
        assert_eq!(profile.newest_first(), [newest, new, old]);
        assert_eq!(profile.prune(300), []);
        assert_eq!(profile.prune(299), [old]);
        assert_eq!(profile.newest_first(), [newest, new]);
        assert_eq!(profile.prune(0), [newest, new]);
    }
}
