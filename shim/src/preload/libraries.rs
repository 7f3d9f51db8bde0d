//! Libraries that are loaded ahead of the CUDA runtime's own load, and handed over to it.
//!
//! A CUDA runtime gives the fat binary of a translation unit to the driver at the first use of one of its kernels, or of its variables. The
//! profile of earlier runs knows which fat binaries of which objects that were, and which of their kernels. The loader loads these once a
//! context is idle. When the runtime then loads the same fat binary, the hook gives it the library that is there, and does not call the
//! driver. A runtime loads each fat binary once in a process, and a library is given to one load only. Where the runtime comes first, its
//! library is used: the kernels of the profile are loaded from that.
//!
//! The driver makes a copy of what it needs of a fat binary (no `CU_LIBRARY_BINARY_IS_PRESERVED`): an object whose fat binary was never asked
//! for may be unloaded at any time.
//!
//! Must not: give out a library for another fat binary than the one it was made of, or hold the lock across a driver call.

use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::objects::{self, Loaded};
use lazyguard_core::preload::Skip;
use lazyguard_core::profile::{fat_binary_of, size_of, Head, ImageId, Place, HEAD_BYTES, REFERENCE_BYTES};
use lazyguard_core::sync::lock;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;

/// A library that is to be loaded ahead.
pub struct Wanted {
    /// Where its fat binary is.
    pub place: Place,
    /// The kernels that the program uses.
    pub kernels: Vec<CString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its object is not loaded.
    Absent,
    /// A reference to its fat binary is at this address.
    Found(u64),
    /// The guard has loaded it.
    Ready { reference: u64, library: u64 },
    /// It is the runtime's.
    Given(u64),
    /// The driver has refused it, or the program has unloaded it.
    Gone,
}

/// A library that is loaded.
pub struct There {
    /// Its handle.
    pub library: u64,
    /// Its kernels that the program uses.
    pub kernels: Vec<u64>,
    /// Whether it was loaded just now.
    pub is_new: bool,
}

/// See the module.
#[derive(Default)]
pub struct Libraries {
    wanted: Vec<Wanted>,
    states: Mutex<Vec<State>>,
    /// How many are absent.
    absent: AtomicUsize,
    /// How many objects had been loaded when they were looked for.
    looked_at: AtomicU64,
    loaded: AtomicU64,
    given: AtomicU64,
}

impl Libraries {
    /// Of these.
    pub fn new(wanted: Vec<Wanted>) -> Self {
        let absent = AtomicUsize::new(wanted.len());
        Self { states: Mutex::new(vec![State::Absent; wanted.len()]), wanted, absent, ..Self::default() }
    }

    /// Libraries that were loaded ahead, and how many of them a runtime has got.
    pub fn counts(&self) -> (u64, u64) {
        (self.loaded.load(Ordering::Relaxed), self.given.load(Ordering::Relaxed))
    }

    /// Looks for those whose objects have come since it last looked. Returns the numbers of those that were found now.
    #[inline]
    pub fn look(&self) -> Vec<u32> {
        if self.absent.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        self.look_again()
    }

    fn look_again(&self) -> Vec<u32> {
        let count = objects::count_of_loads();
        if self.looked_at.swap(count, Ordering::Relaxed) == count {
            return Vec::new();
        }
        let mut states = lock(&self.states).clone();
        let mut found = Vec::new();
        objects::each(&mut |object| {
            for (number, (wanted, state)) in (0..).zip(self.wanted.iter().zip(&mut states)) {
                let may_be = *state == State::Absent && wanted.place.object.as_bytes() == object.file_name();
                if let Some(reference) = Some(object).filter(|_| may_be).and_then(|o| reference_of(o, &wanted.place)) {
                    *state = State::Found(reference);
                    found.push((number, *state));
                }
            }
            true
        });
        let mut states = lock(&self.states);
        // Meanwhile a runtime may have loaded one.
        found.retain(|(number, now)| {
            let state = states.get_mut(*number as usize).filter(|state| **state == State::Absent);
            state.map(|state| *state = *now).is_some()
        });
        self.absent.fetch_sub(found.len(), Ordering::Relaxed);
        found.into_iter().map(|(number, _): (u32, _)| number).collect()
    }

    /// The numbers of those that can be loaded into a context that has just come.
    pub fn all(&self) -> Vec<u32> {
        let states = lock(&self.states);
        let there = (0..).zip(&*states).filter(|(_, state)| !matches!(state, State::Absent | State::Gone));
        there.map(|(number, _)| number).collect()
    }

    /// Loads a library, unless it is there, and looks its kernels up; why it cannot.
    pub fn load(&self, number: u32) -> Result<There, Skip> {
        let at = number as usize;
        let state = lock(&self.states).get(at).copied();
        let (Some(wanted), Some(state)) = (self.wanted.get(at), state) else { return Err(Skip::Gone) };
        let (library, is_new) = match state {
            State::Absent | State::Gone => return Err(Skip::Gone),
            State::Ready { library, .. } | State::Given(library) => (library, false),
            State::Found(reference) => {
                let library = load_library(reference);
                let mut states = lock(&self.states);
                // Meanwhile a runtime may have loaded it itself: then that one counts.
                let state = states.get_mut(at).filter(|state| **state == State::Found(reference)).ok_or(Skip::Gone)?;
                *state = library.map_or(State::Gone, |library| State::Ready { reference, library });
                self.loaded.fetch_add(u64::from(library.is_some()), Ordering::Relaxed);
                (library.ok_or(Skip::DriverRefused)?, true)
            }
        };
        let kernels = wanted.kernels.iter().filter_map(|name| {
            let mut kernel = null_mut();
            let found = driver::library_kernel(&mut kernel, library as Handle, name.as_ptr()) == Some(SUCCESS);
            found.then_some(kernel as u64)
        });
        Ok(There { library, kernels: kernels.collect(), is_new })
    }

    /// The number of the one whose fat binary is there.
    pub fn number_of(&self, place: &Place) -> Option<u32> {
        let at = self.wanted.iter().position(|wanted| wanted.place == *place)?;
        u32::try_from(at).ok()
    }

    /// The library that is there of the fat binary to which the reference at this address is, and which is the caller's from now on.
    pub fn take(&self, number: u32, reference: u64) -> Option<u64> {
        let mut states = lock(&self.states);
        let state = states.get_mut(number as usize)?;
        match *state {
            State::Ready { reference: known, library } if known == reference => {
                *state = State::Given(library);
                self.given.fetch_add(1, Ordering::Relaxed);
                Some(library)
            }
            _ => None,
        }
    }

    /// A runtime has loaded the fat binary itself. Returns whether kernels are to be loaded from that library.
    pub fn is_the_runtimes(&self, number: u32, library: u64) -> bool {
        let mut states = lock(&self.states);
        let Some(state) = states.get_mut(number as usize) else { return false };
        match *state {
            State::Given(_) | State::Gone | State::Ready { .. } => return false,
            State::Absent => drop(self.absent.fetch_sub(1, Ordering::Relaxed)),
            State::Found(_) => {}
        }
        *state = State::Given(library);
        true
    }

    /// A library is about to be unloaded.
    pub fn gone(&self, library: u64) {
        let is_it = |state: &&mut State| matches!(**state, State::Given(known) if known == library);
        lock(&self.states).iter_mut().filter(is_it).for_each(|state| *state = State::Gone);
    }
}

/// Where the fat binary is that the runtime is about to load; `None` where that is not in an object, or cannot be told.
pub fn place_of(reference: u64) -> Option<Place> {
    let map = objects::object_of(reference as *const _)?;
    let (object, offset) = (map.file_name(), reference.checked_sub(map.base as u64)?);
    let mut place = None;
    objects::each(&mut |loaded| {
        let is_it = loaded.address(0) == Some(map.base as u64) && loaded.file_name() == object;
        if is_it {
            place = image_at(loaded, reference).map(|image| Place {
                object: String::from_utf8_lossy(object).into_owned(),
                offset,
                image,
            });
        }
        !is_it
    });
    place
}

/// The address of the reference in an object, where the fat binary is that of the profile.
fn reference_of(object: &Loaded<'_>, place: &Place) -> Option<u64> {
    let reference = object.address(place.offset)?;
    (image_at(object, reference)? == place.image).then_some(reference)
}

/// What fat binary the reference at this address is to.
fn image_at(object: &Loaded<'_>, reference: u64) -> Option<ImageId> {
    let begin = fat_binary_of(object.bytes(reference, REFERENCE_BYTES)?.try_into().ok()?)?;
    let Head::Whole(length) = size_of(object.bytes(begin, HEAD_BYTES)?)? else { return None };
    Some(ImageId::of_samples(object.bytes(begin, usize::try_from(length).ok()?)?))
}

fn load_library(reference: u64) -> Option<u64> {
    let mut library = null_mut();
    let (none, nowhere) = (null_mut(), null_mut());
    let loaded = driver::library_load_data(&mut library, reference as *const _, none, nowhere, 0, none, nowhere, 0);
    (loaded == Some(SUCCESS)).then_some(library as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a compiler leaves them in an object.
    #[repr(C, align(8))]
    struct FatBinary([u8; 100]);

    #[repr(C)]
    struct Reference {
        magic: u32,
        version: u32,
        fat_binary: &'static FatBinary,
        unused: u64,
    }

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

    const fn reference(fat_binary: &'static FatBinary) -> Reference {
        Reference { magic: 0x4662_43b1, version: 1, fat_binary, unused: 0 }
    }

    static CODE: [FatBinary; 2] = [fat_binary(1), fat_binary(2)];
    static REFERENCES: [Reference; 2] = [reference(&CODE[0]), reference(&CODE[1])];

    fn address(number: usize) -> u64 {
        std::ptr::from_ref(&REFERENCES[number]) as u64
    }

    fn libraries() -> Libraries {
        let place = |number| place_of(address(number)).unwrap();
        let absent = Place { object: "liblater.so".to_owned(), ..place(0) };
        let changed = Place { image: ImageId::of(b"other code"), ..place(0) };
        let wanted = [place(1), absent, changed, place(0)];
        Libraries::new(wanted.map(|place| Wanted { place, kernels: Vec::new() }).into())
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
    fn what_is_there_with_the_same_content_is_found_once() {
        let libraries = libraries();
        assert!(libraries.all().is_empty());
        assert_eq!(libraries.look(), [0, 3]);
        assert!(libraries.look().is_empty());
        assert_eq!(libraries.all(), [0, 3]);
        assert_eq!(libraries.absent.load(Ordering::Relaxed), 2);
        // Another object is loaded, in which there is nothing.
        libraries.looked_at.store(0, Ordering::Relaxed);
        assert!(libraries.look().is_empty());
        assert!(Libraries::default().look().is_empty());
    }

    #[test]
    fn a_library_is_given_once_to_the_load_of_its_own_fat_binary() {
        let libraries = libraries();
        libraries.look();
        assert_eq!(libraries.take(0, address(1)), None, "not loaded yet");
        // As `load` leaves it.
        lock(&libraries.states)[0] = State::Ready { reference: address(1), library: 0xa };
        assert_eq!(libraries.take(0, address(0)), None, "at another address");
        assert_eq!([0; 2].map(|_| libraries.take(0, address(1))), [Some(0xa), None]);
        assert_eq!(libraries.counts(), (0, 1));
        assert_eq!((libraries.take(3, address(0)), libraries.take(9, address(0))), (None, None));
        libraries.gone(0xb);
        assert_eq!(libraries.all(), [0, 3]);
        libraries.gone(0xa);
        assert_eq!((libraries.all(), libraries.load(0).err()), (vec![3], Some(Skip::Gone)));
    }

    #[test]
    fn where_the_runtime_comes_first_its_library_is_used() {
        let libraries = libraries();
        let number = |of| libraries.number_of(&place_of(address(of)).unwrap());
        assert_eq!((number(0), number(1)), (Some(3), Some(0)));
        // Absent as far as was looked, and found.
        assert!(libraries.is_the_runtimes(3, 0xc));
        assert_eq!(libraries.absent.load(Ordering::Relaxed), 3);
        assert_eq!(libraries.look(), [0]);
        assert!(libraries.is_the_runtimes(0, 0xd) && !libraries.is_the_runtimes(0, 0xe));
        assert_eq!(libraries.take(0, address(1)), None);
        let there = libraries.load(0).unwrap_or_else(|_| panic!("it is there"));
        assert_eq!((there.library, there.is_new, there.kernels.len()), (0xd, false, 0));
        assert_eq!(libraries.counts(), (0, 0));
    }

    #[test]
    fn what_the_driver_refuses_is_not_tried_again() {
        let libraries = libraries();
        assert_eq!(libraries.load(1).err(), Some(Skip::Gone), "absent");
        libraries.look();
        // There is no driver here.
        assert_eq!(libraries.load(3).err(), Some(Skip::DriverRefused));
        assert_eq!((libraries.load(3).err(), libraries.all()), (Some(Skip::Gone), vec![0]));
    }
}
