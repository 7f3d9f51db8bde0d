//! Libraries of fat binaries. A CUDA runtime gives the fat binary of a translation unit to the driver at the first use of one of its kernels or
//! variables. The profile knows those fat binaries and kernels, and the loader loads them once a context is idle. When the runtime then loads the same fat
//! binary, the hook gives it that library, once. If the runtime comes first, the kernels are loaded from its library.
//!
//! An object may be unloaded at any time. So its memory is read only while the dynamic loader's list is locked, into pages that are there before: nothing
//! is allocated under that lock. The copied address identifies a library where no object has been unloaded since and the bytes are constant; else all
//! bytes are compared.
//!
//! Must not: give out a library for another fat binary; hold its lock across a driver call; or call `dladdr`, which waits for other threads'
//! constructors: one that registers a kernel takes a lock which the CUDA runtime holds when it loads a library.

use super::handover::{Counted, There};
use crate::lookup::driver;
use crate::lookup::objects::{self, Loaded};
use crate::runtime::memory;
use lazyguard_core::image::{fat_binary_of, length_of, Length, Prints, Start, REFERENCE_BYTES};
use lazyguard_core::map::HashMap;
use lazyguard_core::preload::Skip;
use lazyguard_core::profile::{ImageId, Place, Samples, MOST_LIBRARY_BYTES};
use lazyguard_core::state::FunctionKind;
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

pub struct Wanted {
    pub place: Place,
    pub kernels: Vec<CString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Found,
    Ready(Ready),
    Given(u64),
    /// Refused, replaced, or unloaded by the program.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ready {
    library: u64,
    reference: u64,
    /// The fat binary's address, if its segment is constant.
    constant: Option<u64>,
    content: &'static [u8],
    unloads: u64,
}

#[derive(Default)]
#[repr(C)]
pub struct Libraries {
    absent: AtomicUsize,
    wanted: Vec<Wanted>,
    states: Mutex<Vec<State>>,
    /// Objects loaded at the last look, when that number changed, and the time of the look.
    loads: AtomicU64,
    changed: AtomicU64,
    looked: AtomicU64,
    pub counted: Counted,
}

impl Libraries {
    pub fn new(wanted: Vec<Wanted>) -> Self {
        let absent = AtomicUsize::new(wanted.len());
        Self { states: Mutex::new(vec![State::Absent; wanted.len()]), wanted, absent, ..Self::default() }
    }

    pub fn are_expected(&self) -> bool {
        self.absent.load(Ordering::Relaxed) != 0
    }

    /// The numbers of those whose objects have come since the last look.
    #[inline]
    pub fn look(&self, now: Nanos) -> Vec<u32> {
        let looked = self.looked.load(Ordering::Relaxed);
        if !self.are_expected() || looked > 0 && now < looked + PAUSE_NANOS {
            return Vec::new();
        }
        self.look_again(now)
    }

    fn look_again(&self, now: Nanos) -> Vec<u32> {
        self.looked.store(now.max(1), Ordering::Relaxed);
        let (loads, _) = objects::counts();
        if self.loads.swap(loads, Ordering::Relaxed) != loads {
            self.changed.store(now, Ordering::Relaxed);
        }
        // An object is in the list before its addresses are right.
        if now > self.changed.load(Ordering::Relaxed) + SETTLES_NANOS {
            return Vec::new();
        }
        let mut by_object: HashMap<&[u8], Vec<(u32, &Place)>> = HashMap::default();
        for ((number, wanted), state) in (0..).zip(&self.wanted).zip(&*lock(&self.states)) {
            if *state == State::Absent {
                by_object.entry(wanted.place.object.as_bytes()).or_default().push((number, &wanted.place));
            }
        }
        let mut found = Vec::with_capacity(self.wanted.len());
        objects::each(&mut |object| {
            let here = by_object.get(object.file_name()).into_iter().flatten();
            for (number, _) in here.filter(|(_, place)| seems_to_be(object, place)) {
                // Once each, so the list does not grow here.
                if !found.contains(number) {
                    found.push(*number);
                }
            }
            true
        });
        let mut states = lock(&self.states);
        found.retain(|number| {
            let state = states.get_mut(*number as usize).filter(|state| **state == State::Absent);
            state.map(|state| *state = State::Found).is_some()
        });
        self.absent.fetch_sub(found.len(), Ordering::Relaxed);
        found
    }

    pub fn all(&self) -> Vec<u32> {
        let states = lock(&self.states);
        let there = (0..).zip(&*states).filter(|(_, state)| !matches!(state, State::Absent | State::Gone));
        there.map(|(number, _)| number).collect()
    }

    /// Loads it, unless it is there, and looks its kernels up.
    pub fn load(&self, number: u32) -> Result<There, Skip> {
        let at = number as usize;
        let state = lock(&self.states).get(at).copied();
        let (Some(wanted), Some(state)) = (self.wanted.get(at), state) else { return Err(Skip::Gone) };
        let (library, new) = match state {
            State::Absent | State::Gone => return Err(Skip::Gone),
            State::Ready(Ready { library, .. }) | State::Given(library) => (library, None),
            State::Found => {
                // Without the lock: a runtime that loads another library need not wait.
                let loaded = load_library(&wanted.place).map(|ready| (ready, Prints::of(ready.content)));
                let mut states = lock(&self.states);
                // A library that a runtime has loaded meanwhile counts.
                let state = states.get_mut(at).filter(|state| **state == State::Found).ok_or(Skip::Gone)?;
                *state = match loaded {
                    Ok((ready, _)) => State::Ready(ready),
                    // It may come back.
                    Err(Skip::Gone) => State::Absent,
                    Err(_) => State::Gone,
                };
                self.absent.fetch_add(usize::from(*state == State::Absent), Ordering::Relaxed);
                let (ready, prints) = loaded?;
                self.counted.loaded.fetch_add(1, Ordering::Relaxed);
                (ready.library, Some(prints))
            }
        };
        Ok(There::of(library, FunctionKind::Kernel, &wanted.kernels, new))
    }

    pub fn library(&self, number: u32) -> Option<u64> {
        match lock(&self.states).get(number as usize)? {
            State::Ready(Ready { library, .. }) | State::Given(library) => Some(*library),
            State::Absent | State::Found | State::Gone => None,
        }
    }

    pub fn id(&self, number: u32) -> Option<ImageId> {
        Some(self.wanted.get(number as usize)?.place.image)
    }

    pub fn number_of(&self, place: &Place) -> Option<u32> {
        u32::try_from(self.wanted.iter().position(|wanted| wanted.place == *place)?).ok()
    }

    /// The library of the fat binary that this reference is to; it becomes the caller's.
    pub fn take(&self, number: u32, reference: u64) -> Option<u64> {
        let Some(State::Ready(ready)) = lock(&self.states).get(number as usize).copied() else { return None };
        if ready.reference != reference || !self.is_still_there(number, &ready) {
            return None;
        }
        let mut states = lock(&self.states);
        *states.get_mut(number as usize).filter(|state| **state == State::Ready(ready))? = State::Given(ready.library);
        self.counted.given.fetch_add(1, Ordering::Relaxed);
        Some(ready.library)
    }

    fn is_still_there(&self, number: u32, ready: &Ready) -> bool {
        let (_, unloads) = objects::counts();
        // SAFETY: a reference that the program gives to the driver.
        let reference = unsafe { (ready.reference as *const [u8; REFERENCE_BYTES]).read_unaligned() };
        if unloads == ready.unloads && ready.constant.is_some() && ready.constant == fat_binary_of(&reference) {
            return true;
        }
        let Some(wanted) = self.wanted.get(number as usize) else { return false };
        let same = |now: &Copied| now.reference == ready.reference && now.content == ready.content;
        Copied::of(&wanted.place).is_ok_and(|now| same(&now))
    }

    /// A runtime has loaded the fat binary itself; whether the guard loads kernels of that library.
    pub fn is_the_runtimes(&self, number: u32, library: u64) -> bool {
        let mut states = lock(&self.states);
        let Some(state) = states.get_mut(number as usize) else { return false };
        match *state {
            State::Given(_) | State::Gone => return false,
            State::Absent => drop(self.absent.fetch_sub(1, Ordering::Relaxed)),
            // The guard's library came too late, or is of an unloaded object.
            State::Found | State::Ready(_) => {}
        }
        *state = State::Given(library);
        true
    }

    pub fn gone(&self, library: u64) {
        let is_it = |state: &&mut State| matches!(**state, State::Given(known) if known == library);
        lock(&self.states).iter_mut().filter(is_it).for_each(|state| *state = State::Gone);
    }
}

const PAUSE_NANOS: Nanos = 10_000_000;
/// How long after its load an object is looked at.
const SETTLES_NANOS: Nanos = 1_000_000_000;
/// No linked library has a longer name.
const MOST_NAME_BYTES: usize = 255;

/// The place of the runtime's fat binary; `None` outside of objects.
pub fn place_of(reference: u64) -> Option<Place> {
    let mut name = Vec::with_capacity(MOST_NAME_BYTES);
    let mut samples = Samples::with_room();
    let offset = objects::find(|object| {
        let here = object.offset_of(reference)?;
        let content = fat_binary_at(object, reference).filter(|_| object.file_name().len() <= MOST_NAME_BYTES);
        Some(content.map(|content| {
            name.extend_from_slice(object.file_name());
            samples.take(content);
            here
        }))
    })??;
    Some(Place { object: String::from_utf8(name).ok()?, offset, image: samples.id() })
}

/// Compares the fat binary by its beginning and its length.
fn seems_to_be(object: &Loaded<'_>, place: &Place) -> bool {
    let reference = object.address(place.offset);
    let content = reference.and_then(|reference| fat_binary_at(object, reference));
    content.is_some_and(|content| content.len() as u64 == place.image.bytes)
}

fn fat_binary_at<'a>(object: &'a Loaded<'_>, reference: u64) -> Option<&'a [u8]> {
    let begin = fat_binary_of(object.bytes(reference, REFERENCE_BYTES)?.try_into().ok()?)?;
    let Length::Bytes(length) = length_of(object.bytes(begin, Start::FatBinary.head_bytes())?)? else { return None };
    object.bytes(begin, usize::try_from(length).ok()?)
}

struct Copied {
    content: Vec<u8>,
    reference: u64,
    /// The fat binary's address, if its segment is constant.
    constant: Option<u64>,
    unloads: u64,
}

impl Copied {
    /// `Err` where the profile means another one.
    fn of(place: &Place) -> Result<Self, Skip> {
        let bytes = usize::try_from(place.image.bytes.min(MOST_LIBRARY_BYTES)).unwrap_or(0);
        // The driver needs a copy. The visit below allocates nothing.
        let content = memory::room_for(bytes).ok_or(Skip::DriverRefused)?;
        let mut copy = Self { content, reference: 0, constant: None, unloads: 0 };
        objects::each(&mut |object| {
            if object.file_name() != place.object.as_bytes() || !seems_to_be(object, place) {
                return true;
            }
            copy.reference = object.address(place.offset).unwrap_or(0);
            (_, copy.unloads) = object.counts();
            if let Some(content) = fat_binary_at(object, copy.reference).filter(|content| content.len() == bytes) {
                copy.content.extend_from_slice(content);
                let address = content.as_ptr() as u64;
                copy.constant = (!object.is_writable(address)).then_some(address);
            }
            false
        });
        if copy.reference == 0 {
            return Err(Skip::Gone);
        }
        let is_it = ImageId::of_samples(&copy.content) == place.image;
        is_it.then_some(copy).ok_or(Skip::NotTheSame)
    }
}

fn load_library(place: &Place) -> Result<Ready, Skip> {
    let copy = Copied::of(place)?;
    let (mut options, mut values) = ([driver::BINARY_IS_PRESERVED], [1u64]);
    let (code, none, nowhere) = (copy.content.as_ptr().cast(), null_mut(), null_mut());
    let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr().cast());
    let load = |library: &mut _| driver::library_load_data(library, code, none, nowhere, 0, options, values, 1);
    let library = driver::told(null_mut(), load).ok_or(Skip::DriverRefused)?;
    // CUDA's runtimes unload at the exit, and the driver does not say when it no longer reads the bytes.
    let Copied { content, reference, constant, unloads } = copy;
    Ok(Ready { library: library as u64, reference, constant, content: content.leak(), unloads })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    /// As a compiler leaves them in an object.
    #[repr(C, align(8))]
    struct FatBinary([u8; 100]);

    #[repr(C)]
    struct Reference {
        magic: u32,
        version: u32,
        fat_binary: *const FatBinary,
        unused: u64,
    }

    // SAFETY: one test alone changes one of the fat binaries.
    unsafe impl Sync for Reference {}

    struct Changing(UnsafeCell<FatBinary>);

    // SAFETY: as above.
    unsafe impl Sync for Changing {}

    const fn fat_binary(content: u8) -> FatBinary {
        let mut bytes = [content; 100];
        let head = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 84, 0, 0, 0, 0, 0, 0, 0];
        let mut at = 0;
        while at < head.len() {
            bytes[at] = head[at];
            at += 1;
        }
        FatBinary(bytes)
    }

    const fn reference(fat_binary: *const FatBinary) -> Reference {
        Reference { magic: 0x4662_43b1, version: 1, fat_binary, unused: 0 }
    }

    static CODE: [FatBinary; 2] = [fat_binary(1), fat_binary(2)];
    static CHANGING: Changing = Changing(UnsafeCell::new(fat_binary(3)));
    static REFERENCES: [Reference; 3] = [reference(&CODE[0]), reference(&CODE[1]), reference(CHANGING.0.get())];

    fn address(number: usize) -> u64 {
        std::ptr::from_ref(&REFERENCES[number]) as u64
    }

    fn libraries() -> Libraries {
        let place = |number| place_of(address(number)).unwrap();
        let absent = Place { object: "liblater.so".to_owned(), ..place(0) };
        let longer = Place { image: ImageId { bytes: 101, ..place(0).image }, ..place(0) };
        let wanted = [place(1), absent, longer, place(0)];
        Libraries::new(wanted.map(|place| Wanted { place, kernels: Vec::new() }).into())
    }

    /// As `load` leaves it.
    fn ready(libraries: &Libraries, number: u32, library: u64, of: usize) {
        let copy = Copied::of(&libraries.wanted[number as usize].place).ok().unwrap();
        let Copied { content, constant, unloads, .. } = copy;
        let ready = Ready { library, reference: address(of), constant, content: content.leak(), unloads };
        lock(&libraries.states)[number as usize] = State::Ready(ready);
    }

    #[test]
    fn a_place_is_told_by_the_object_the_offset_and_the_content() {
        let [one, other] = [0, 1].map(|number| place_of(address(number)).unwrap());
        assert_eq!((one.object.as_str(), one.image), ("", ImageId::of(&CODE[0].0)));
        assert_eq!(other.offset - one.offset, REFERENCE_BYTES as u64);
        assert_ne!(one.image, other.image);
        let on_the_stack = reference(&CODE[0]);
        assert_eq!(place_of(std::ptr::from_ref(&on_the_stack) as u64), None, "in no object");
        assert_eq!(place_of(std::ptr::from_ref(&CODE[0]) as u64), None, "no reference");
        assert_eq!(place_of(0), None);
    }

    #[test]
    fn what_is_copied_is_what_the_profile_means() {
        let place = place_of(address(1)).unwrap();
        let copy = Copied::of(&place).ok().unwrap();
        assert_eq!((&copy.content[..], copy.reference), (&CODE[1].0[..], address(1)));
        for (other, why) in [
            (Place { image: ImageId { hash: 1, ..place.image }, ..place.clone() }, Skip::NotTheSame),
            (Place { offset: place.offset - REFERENCE_BYTES as u64, ..place.clone() }, Skip::NotTheSame),
            (Place { image: ImageId { bytes: 101, ..place.image }, ..place.clone() }, Skip::Gone),
            (Place { image: ImageId { bytes: u64::MAX, ..place.image }, ..place.clone() }, Skip::Gone),
            (Place { offset: u64::MAX, ..place.clone() }, Skip::Gone),
            (Place { object: "libother.so".to_owned(), ..place.clone() }, Skip::Gone),
        ] {
            assert_eq!(Copied::of(&other).err(), Some(why), "{other:?}");
        }
    }

    #[test]
    fn what_is_there_is_found_once_and_not_looked_for_all_the_time() {
        let libraries = libraries();
        assert!(libraries.all().is_empty());
        assert_eq!(libraries.look(0), [0, 3]);
        assert_eq!(libraries.all(), [0, 3]);
        assert_eq!(libraries.absent.load(Ordering::Relaxed), 2);
        // One that is found is not found again, whenever that is.
        for now in [1, PAUSE_NANOS + 1, SETTLES_NANOS / 2, 2 * SETTLES_NANOS] {
            assert!(libraries.look(now).is_empty(), "{now}");
        }
        assert!(Libraries::default().look(0).is_empty());
        let later = self::libraries();
        later.looked.store(5, Ordering::Relaxed);
        assert!(later.look(PAUSE_NANOS).is_empty(), "a moment ago");
        later.loads.store(objects::counts().0, Ordering::Relaxed);
        assert!(later.look(2 * SETTLES_NANOS).is_empty(), "no object has come for long");
        later.loads.store(0, Ordering::Relaxed);
        assert_eq!(later.look(4 * SETTLES_NANOS), [0, 3], "an object has come");
    }

    #[test]
    fn it_looks_again_when_the_pause_is_over() {
        let libraries = libraries();
        libraries.looked.store(5, Ordering::Relaxed);
        assert!(libraries.look(PAUSE_NANOS + 4).is_empty());
        assert_eq!(libraries.look(PAUSE_NANOS + 5), [0, 3]);
    }

    #[test]
    fn an_object_is_looked_at_until_it_has_settled() {
        let found = |now: Nanos| {
            let libraries = libraries();
            libraries.loads.store(objects::counts().0, Ordering::Relaxed);
            libraries.changed.store(5, Ordering::Relaxed);
            libraries.look(now).len()
        };
        assert_eq!([SETTLES_NANOS + 5, SETTLES_NANOS + 6].map(found), [2, 0]);
    }

    #[test]
    fn a_library_is_given_once_to_the_load_of_its_own_fat_binary() {
        let libraries = libraries();
        libraries.look(0);
        assert_eq!(libraries.take(0, address(1)), None, "not loaded yet");
        ready(&libraries, 0, 0xa, 1);
        assert_eq!(libraries.take(0, address(0)), None, "at another address");
        assert_eq!([0, 1, 3, 9].map(|number| libraries.library(number)), [Some(0xa), None, None, None]);
        assert_eq!([0; 2].map(|_| libraries.take(0, address(1))), [Some(0xa), None]);
        assert_eq!((libraries.counted.both(), libraries.library(0)), ((0, 1), Some(0xa)));
        assert_eq!((libraries.take(3, address(0)), libraries.take(9, address(0))), (None, None));
        libraries.gone(0xb);
        assert_eq!(libraries.all(), [0, 3]);
        libraries.gone(0xa);
        assert_eq!((libraries.all(), libraries.load(0).err()), (vec![3], Some(Skip::Gone)));
    }

    #[test]
    fn where_an_object_has_been_unloaded_since_a_library_is_given_for_the_same_content_only() {
        let libraries = libraries();
        let change = |change: fn(&mut Ready)| {
            ready(&libraries, 0, 0xa, 1);
            if let State::Ready(ready) = &mut lock(&libraries.states)[0] {
                ready.unloads += 1;
                change(ready);
            }
        };
        change(|ready| ready.content = &CODE[0].0);
        assert_eq!(libraries.take(0, address(1)), None);
        // The runtime loads its own library then, and the guard's is given to no load.
        assert!(libraries.is_the_runtimes(0, 0xb));
        assert_eq!((libraries.take(0, address(1)), libraries.counted.both()), (None, (0, 0)));
        change(|_| ());
        assert_eq!(libraries.take(0, address(1)), Some(0xa));
    }

    #[test]
    fn a_library_of_a_fat_binary_that_can_be_written_to_is_given_while_that_has_the_same_content() {
        let libraries = Libraries::new(vec![Wanted { place: place_of(address(2)).unwrap(), kernels: Vec::new() }]);
        ready(&libraries, 0, 0xa, 2);
        assert_eq!(libraries.take(0, address(2)), Some(0xa));
        ready(&libraries, 0, 0xb, 2);
        // SAFETY: no other test reads or writes it.
        unsafe { (*CHANGING.0.get()).0[50] = 4 };
        assert_eq!(libraries.take(0, address(2)), None);
    }

    #[test]
    fn where_the_runtime_comes_first_its_library_is_used() {
        let mut libraries = libraries();
        libraries.wanted[3].kernels.push(c"kernel".to_owned());
        let number = |of| libraries.number_of(&place_of(address(of)).unwrap());
        assert_eq!((number(0), number(1)), (Some(3), Some(0)));
        // Absent as far as was looked, and found.
        assert!(libraries.is_the_runtimes(3, 0xc));
        assert_eq!(libraries.absent.load(Ordering::Relaxed), 3);
        assert_eq!(libraries.look(0), [0]);
        assert!(libraries.is_the_runtimes(0, 0xd) && !libraries.is_the_runtimes(0, 0xe));
        assert_eq!(libraries.take(0, address(1)), None);
        let there = libraries.load(0).unwrap_or_else(|_| panic!("it is there"));
        assert_eq!((there.owner, there.is_new, there.functions), (0xd, false, None));
        let with_kernels = libraries.load(3).unwrap_or_else(|_| panic!("it is there"));
        // There is no driver here that has one.
        assert_eq!((with_kernels.owner, with_kernels.functions), (0xc, Some(vec![])));
        assert_eq!(libraries.counted.both(), (0, 0));
    }

    #[test]
    fn what_the_driver_refuses_is_not_tried_again() {
        let libraries = libraries();
        assert_eq!(libraries.load(1).err(), Some(Skip::Gone), "absent");
        libraries.look(0);
        // Its object has gone meanwhile; it is looked for again.
        lock(&libraries.states)[1] = State::Found;
        libraries.absent.store(1, Ordering::Relaxed);
        assert_eq!((libraries.load(1).err(), libraries.absent.load(Ordering::Relaxed)), (Some(Skip::Gone), 2));
        // There is no driver here.
        assert_eq!(libraries.load(3).err(), Some(Skip::DriverRefused));
        assert_eq!((libraries.load(3).err(), libraries.all()), (Some(Skip::Gone), vec![0]));
    }
}
