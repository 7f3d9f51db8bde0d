//! The profile: what this run loads, for the next one, and what earlier runs have loaded ([`lazyguard_core::profile`]).
//!
//! Protocol: the folder is read once, at arming. Hooks note what the program loads before the driver is called: the load that hangs is in it. The log's
//! thread writes the notes, and the exiting thread the last ones, in a part of its own; where there are many parts, in one that replaces them.
//!
//! Must not: believe a file or folder that another user can write, write on a thread of the program's but at its exit, or complain of a folder that
//! `lazyguard run` has chosen.

use super::profile_folder::{has_room, images_are_usable, is_own_folder, make, parts_in, read};
use crate::preload::loader::{Looked, UnderWay, LONG_NANOS};
use crate::preload::{ahead, libraries};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::process::Process;
use crate::runtime::{environment, files, memory, standard_error, thread};
use lazyguard_core::api::{counted, Class};
use lazyguard_core::folder::entries_of;
use lazyguard_core::image::Prints;
use lazyguard_core::map::{HashMap, HashSet};
use lazyguard_core::order;
use lazyguard_core::profile::{
    Course, Fate, ImageId, LoadOptions, Place, Profile, Uses, IMAGES, MOST_AHEAD, MOST_BYTES, MOST_BYTES_OF_LIBRARIES,
    MOST_IMAGE_BYTES, MOST_LIBRARIES, MOST_LIBRARY_BYTES, MOST_SEEN, PART,
};
use lazyguard_core::settings::RUN_PROFILE;
use lazyguard_core::state::PublishedCall;
use lazyguard_core::sync::lock;
use lazyguard_core::trace::Kind;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Limits of a part that is read, and of their number. Ten thousand kernels take a megabyte.
const MOST_PART_BYTES: u64 = 16 << 20;
/// Parts that a process leaves as they are.
const MANY_PARTS: usize = 32;
const MOST_AHEAD_BYTES: u64 = 256 << 20;
const MOST_UNSAVED_BYTES: u64 = 64 << 20;

pub struct Notes {
    folder: PathBuf,
    is_named: bool,
    part: String,
    /// The profile at the start, and the parts that it was read from.
    known: Profile,
    parts: Vec<PathBuf>,
    keeps_images: bool,
    day: u32,
    noted: Mutex<Noted>,
    writing: Mutex<()>,
}

type NewImage = (ImageId, Vec<u8>);

#[derive(Clone, Copy)]
pub enum Origin {
    Image(ImageId),
    LibraryImage(ImageId),
    Place(u32),
}

#[derive(Default)]
struct Noted {
    own: Profile,
    is_new: bool,
    times: HashMap<(u32, ImageId, LoadOptions), u32>,
    owners: HashMap<u64, Origin>,
    places: Vec<Place>,
    sampled: HashMap<u64, ImageId>,
    unused: HashSet<ImageId>,
    /// The images that the folder has, or gets. An unreadable or false file is none: the next load replaces it.
    kept: HashSet<ImageId>,
    unsaved: Vec<NewImage>,
    /// The code that the program has asked for, and each thread last.
    asked: HashSet<ImageId>,
    by_thread: HashMap<u32, ImageId>,
    /// Failed writes, and the last reason.
    failed: u64,
    why: Option<String>,
}

impl Notes {
    /// Makes the folder if it is not there; `None`, and a line, where it cannot be used.
    pub fn open(folder: &str, host: &str, started: u64) -> Option<Self> {
        let is_named = environment::get(RUN_PROFILE).is_none_or(|chosen| chosen != folder);
        let say = |line: String| complain(is_named, &line);
        let unusable =
            |why: &io::Error| say(format!("LAZYGUARD_PROFILE={folder:?} cannot be used: {why}; there is no profile"));
        let usable = |path: PathBuf| {
            make(&path)?;
            is_own_folder(&fs::metadata(&path)?, "it is no folder").map(|()| path)
        };
        let path = std::path::absolute(folder).and_then(usable).inspect_err(unusable).ok()?;
        let mut known = Profile::default();
        let mut parts = Vec::new();
        for part in parts_in(&path) {
            match known.take_part(read(&part, MOST_PART_BYTES)) {
                Ok(true) => parts.push(part),
                Ok(false) => {}
                Err(error) => say(format!("{}: not a part of a profile: {error}", part.display())),
            }
        }
        let part = format!("{host}-{}-{started}{PART}", std::process::id());
        let day = u32::try_from(started / 86_400_000_000_000).unwrap_or(0);
        known.ends_on(day);
        let images = path.join(IMAGES);
        let said = |why: &io::Error| say(format!("{}: {why}; no image is used", images.display()));
        let keeps_images = images_are_usable(&images).inspect_err(said).is_ok();
        let entries = keeps_images.then(|| entries_of(&images)).into_iter().flatten();
        let kept = entries.filter_map(|entry| entry.name().to_str()?.parse().ok()).collect();
        let noted = Mutex::new(Noted { kept, ..Noted::default() });
        Some(Self { folder: path, is_named, part, known, parts, keeps_images, day, noted, writing: Mutex::default() })
    }

    pub fn ahead(&self) -> Vec<ahead::Image> {
        let mut bytes = 0;
        let mut found = Vec::new();
        let is_wanted = |id: &ImageId| self.keeps_images && !self.known.is_to_be_avoided(id);
        for id in self.known.newest_first().into_iter().filter(is_wanted) {
            let Some(image) = self.known.images.get(&id) else { continue };
            bytes += id.bytes;
            if bytes > MOST_AHEAD_BYTES {
                break;
            }
            match read(&self.image(id), MOST_IMAGE_BYTES) {
                Ok(content) if ImageId::of(&content) == id => found.extend(images_of(id, image, &content)),
                Ok(_) => self.is_damaged(id, "not the image of that name"),
                // Too large, or pruned.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.is_damaged(id, &error.to_string()),
            }
        }
        found
    }

    fn is_damaged(&self, id: ImageId, why: &str) {
        complain(self.is_named, &format!("{}: {why}", self.image(id).display()));
        lock(&self.noted).kept.remove(&id);
    }

    pub fn libraries_ahead(&self) -> Vec<libraries::Wanted> {
        let is_wanted = |(place, _): &(&Place, _)| !self.known.is_to_be_avoided(&place.image);
        let mut all: Vec<_> = self.known.libraries.iter().filter(is_wanted).collect();
        order::sort_by_key(&mut all, |(_, library)| std::cmp::Reverse(library.day));
        let mut bytes = 0;
        let has_room = |(place, _): &(&Place, _)| {
            let fits = place.image.bytes <= MOST_LIBRARY_BYTES && bytes + place.image.bytes <= MOST_BYTES_OF_LIBRARIES;
            bytes += if fits { place.image.bytes } else { 0 };
            fits
        };
        let wanted = |(place, library): (&Place, &Uses)| libraries::Wanted {
            place: place.clone(),
            kernels: names(&library.kernels),
        };
        all.into_iter().filter(has_room).take(MOST_LIBRARIES).map(wanted).collect()
    }

    fn image(&self, id: ImageId) -> PathBuf {
        self.folder.join(IMAGES).join(id.to_string())
    }

    pub fn loads(&self, context: u32, content: &[u8], options: &LoadOptions) -> ImageId {
        let id = ImageId::of(content);
        let mut noted = lock(&self.noted);
        let time = noted.times.entry((options.home(context), id, options.clone())).or_default();
        *time = (*time + 1).min(MOST_AHEAD);
        let time = *time;
        noted.is_new |= noted.own.loaded(id, options.clone(), time, self.day);
        noted.asks(id);
        let has_room = noted.unsaved.iter().map(|(id, _)| id.bytes).sum::<u64>() + id.bytes <= MOST_UNSAVED_BYTES;
        if self.keeps_images && has_room && !noted.kept.contains(&id) {
            if let Some(copy) = memory::copy_of(content, 0) {
                noted.kept.insert(id);
                noted.unsaved.push((id, copy));
                noted.is_new = true;
            }
        }
        id
    }

    pub fn is_of(&self, owner: u64, origin: Origin) {
        lock(&self.noted).owners.insert(owner, origin);
    }

    /// Whether earlier runs have loaded this library of the program's own, and none has used it, nor this one. A run that hangs may not have come so far.
    pub fn sees(&self, library: u64, samples: ImageId) -> bool {
        let mut noted = lock(&self.noted);
        noted.sampled.insert(library, samples);
        let is_used = noted.own.seen.contains_key(&samples);
        if !is_used && noted.unused.len() < MOST_SEEN {
            noted.unused.insert(samples);
        }
        !is_used && self.known.has_seen_unused(&samples)
    }

    pub fn context_gone(&self, context: u32) {
        lock(&self.noted).times.retain(|(of, ..), _| *of != context);
    }

    pub fn looks_up(&self, module: u64, function: &str) {
        let noted = &mut *lock(&self.noted);
        if let Some(Origin::Image(id)) = noted.owners.get(&module) {
            noted.is_new |= noted.own.used(*id, function);
        }
    }

    /// Returns the number of the fat binary's place.
    pub fn loads_library(&self, place: Place) -> u32 {
        let mut noted = lock(&self.noted);
        noted.asks(place.image);
        let number = noted.places.iter().position(|known| *known == place).unwrap_or_else(|| {
            noted.places.push(place);
            noted.places.len() - 1
        });
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// Notes that something of a library is used for the first time; of a kernel its name, if known. A look-up is no use: runtimes look all up.
    pub fn uses(&self, library: u64, kernel: Option<&str>) {
        let mut noted = lock(&self.noted);
        if let Some(samples) = noted.sampled.get(&library).copied() {
            noted.unused.remove(&samples);
            noted.is_new |= has_room_for(&self.known, &samples) && noted.own.sees(samples, true, self.day);
        }
        noted.is_used(library, kernel, self.day);
    }

    pub fn gone(&self, owner: u64) {
        let mut noted = lock(&self.noted);
        noted.owners.remove(&owner);
        noted.sampled.remove(&owner);
    }

    /// Notes the loads that do not end, or go ahead for long of a program that has not asked; and that what the program has loaded since ends. Work in flight
    /// explains a load of the program's: that code is loaded ahead. The begin of a load ahead is noted at once, and its end takes that back: the process may be
    /// ended meanwhile. After a hang, a load of the program's that ends takes nothing back: the next run would hang again.
    pub fn look(&self, process: &Process, ahead: &UnderWay, has_hung: bool) {
        let now = process.now();
        let long = match process.settings.hang_after_nanos {
            0 => LONG_NANOS,
            threshold => threshold.min(LONG_NANOS),
        };
        let loads = |call: &PublishedCall| {
            let class = call.record.entry_point.class();
            call.record.kind != Kind::Preload && matches!(class, Class::ModuleLoad | Class::LibraryLoad)
        };
        let calls = process.tracker.threads().filter_map(|(_, slot)| slot.published()).filter(loads);
        // Asked before the lock on the notes, which the program's threads take.
        let calls: Vec<_> = calls
            .map(|call| {
                let context = u32::from(call.record.context);
                let is_long = now >= call.record.entered + long;
                let waits = is_long && !process.tracker.in_flight(context).is_empty();
                (call.thread, (is_long && !waits, waits))
            })
            .collect();
        let mut noted = lock(&self.noted);
        let under_way = |(thread, how): (u32, (bool, bool))| Some((*noted.by_thread.get(&thread)?, how));
        let under_way: HashMap<_, _> = calls.into_iter().filter_map(under_way).collect();
        let mut bad: HashSet<_> = under_way.iter().filter(|(_, (stands, _))| *stands).map(|(id, _)| *id).collect();
        let Looked { bad: begun, ended, stands } = ahead.look(now);
        let stands = stands.filter(|_| has_hung);
        bad.extend(begun.into_iter().filter(|id| !noted.asked.contains(id)));
        let course = |id: &ImageId| noted.own.fates.get(id).or(self.known.fates.get(id)).map(|fate| fate.course);
        let is_bad = |id: &ImageId| course(id).is_some_and(|course| course != Course::Good);
        // The process was not ended in it.
        let has_gone_on = |id: &ImageId| noted.own.fates.contains_key(id) && stands != Some(*id);
        let stays = |id: &ImageId| course(id) == Some(Course::Stood) && !has_gone_on(id);
        let waits = |id: &ImageId| under_way.get(id).is_some_and(|(_, waits)| *waits);
        let is_over = |id: &&ImageId| waits(id) || !under_way.contains_key(*id) && !stays(id);
        let good = noted.asked.iter().filter(is_over).chain(&ended).filter(|id| !bad.contains(id) && is_bad(id));
        let good: Vec<_> = good.copied().collect();
        bad.retain(|id| !is_bad(id) || course(id) == Some(Course::Stood) && has_gone_on(id));
        let stood: Vec<_> = stands.into_iter().filter(|id| course(id) != Some(Course::Stood)).collect();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        for (ids, course) in [(good, Course::Good), (bad.into_iter().collect(), Course::Bad), (stood, Course::Stood)] {
            for id in ids {
                // A second may have several.
                let before = [&self.known, &noted.own].map(|of| of.fates.get(&id).map_or(0, |fate| fate.at + 1));
                let at = before.into_iter().fold(at, u64::max);
                noted.is_new |= noted.own.fares(id, Fate { at, course });
            }
        }
    }

    /// The code that is not loaded ahead, in words.
    pub fn avoids(&self) -> Option<String> {
        let known = self.known.images.keys().chain(self.known.libraries.keys().map(|place| &place.image));
        let count = known.filter(|id| self.known.is_to_be_avoided(id)).count() as u64;
        let line = || {
            format!(
                "{} not loaded ahead: in an earlier run that did not end, or was not asked for",
                counted(count, "module or library")
            )
        };
        (count > 0).then(line)
    }

    pub fn write_news(&self) {
        let _writing = lock(&self.writing);
        self.write();
    }

    /// Writes the profile on the exiting thread, which does not wait for long.
    pub fn finish(&self, has_hung: bool) {
        if !has_hung {
            lock(&self.noted).end(&self.known, self.day);
        }
        if let Some(_writing) = door::lock_soon(&self.writing, EXIT_PAUSES) {
            self.write();
        }
    }

    pub fn complaint(&self) -> Option<String> {
        let noted = self.noted.try_lock().ok()?;
        let why = noted.why.as_ref().filter(|_| self.is_named)?;
        Some(format!("of the profile, {} could not be written: {why}", noted.failed))
    }

    /// The code that this run has loaded and the folder lacked, in words.
    pub fn lacked(&self) -> Option<String> {
        let noted = self.noted.try_lock().ok()?;
        let images = noted.own.images.keys().filter(|id| !self.known.images.contains_key(id)).count();
        let libraries = noted.own.libraries.keys().filter(|place| !self.known.libraries.contains_key(place)).count();
        let parts = [(images, "module"), (libraries, "library")].into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| counted(count as u64, what)).collect();
        let lacked = || format!("its profile lacked {}: the next run has that ahead", parts.join(" and "));
        (!parts.is_empty() && noted.failed == 0).then(lacked)
    }

    /// Writes files without the lock on the notes, which the program's threads take.
    fn write(&self) {
        let Some((images, own)) = lock(&self.noted).take_news() else { return };
        // Images first: a part names what is there.
        if !images.is_empty() {
            let folder = self.folder.join(IMAGES);
            let mut bytes: u64 = entries_of(&folder).filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
            for (id, content) in images {
                let written = has_room(bytes + id.bytes).and_then(|()| self.keep(&folder, &id.to_string(), &content));
                bytes += if written.is_ok() { id.bytes } else { 0 };
                lock(&self.noted).count(written);
            }
        }
        if !own.adds_to(&self.known) {
            return;
        }
        let many = self.parts.len() > MANY_PARTS;
        let mut part = own;
        if many {
            part.merge(&self.known);
            part.prune(MOST_BYTES);
        }
        // A larger one would not be read.
        let written = self.keep(&self.folder, &self.part, part.text_within(MOST_PART_BYTES as usize).as_bytes());
        if written.is_ok() && many {
            // This one holds all of them.
            self.parts.iter().for_each(|part| drop(fs::remove_file(part)));
        }
        lock(&self.noted).count(written);
    }

    fn keep(&self, folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
        make(folder)?;
        // Several processes may write one image at a time.
        let fresh = folder.join(format!(".{}.new", self.part));
        files::replace(&folder.join(name), &fresh, 0o600, &mut |file| file.write_all(content))
    }
}

impl Noted {
    fn asks(&mut self, id: ImageId) {
        self.asked.insert(id);
        self.by_thread.insert(thread::own_number(), id);
    }

    fn is_used(&mut self, library: u64, kernel: Option<&str>, day: u32) {
        let number = match self.owners.get(&library) {
            Some(Origin::Place(number)) => *number,
            Some(Origin::LibraryImage(id)) => {
                self.is_new |= kernel.is_some_and(|kernel| self.own.used(*id, kernel));
                return;
            }
            _ => return,
        };
        let Some(place) = self.places.get(number as usize) else { return };
        self.is_new |= self.own.library_loaded(place, day);
        self.is_new |= kernel.is_some_and(|kernel| self.own.library_used(place, kernel));
    }

    /// The run has ended by itself: unused code was not needed.
    fn end(&mut self, known: &Profile, day: u32) {
        for samples in std::mem::take(&mut self.unused) {
            self.is_new |= has_room_for(known, &samples) && self.own.sees(samples, false, day);
        }
    }

    fn take_news(&mut self) -> Option<(Vec<NewImage>, Profile)> {
        std::mem::take(&mut self.is_new).then(|| (std::mem::take(&mut self.unsaved), self.own.clone()))
    }

    fn count(&mut self, written: io::Result<()>) {
        // A folder that ships with the program is only read.
        const ONLY_READ: [io::ErrorKind; 2] = [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied];
        if let Some(error) = written.err().filter(|error| !ONLY_READ.contains(&error.kind())) {
            self.failed += 1;
            self.why = Some(error.to_string());
        }
    }
}

fn complain(is_named: bool, line: &str) {
    if is_named {
        standard_error::line(line);
    }
}

fn has_room_for(known: &Profile, samples: &ImageId) -> bool {
    known.seen.len() < MOST_SEEN || known.seen.contains_key(samples)
}

fn names(kernels: &BTreeSet<String>) -> Vec<CString> {
    kernels.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect()
}

/// One for each way of loading. To load a library holds nothing up, and an unused one may be unloaded under a kernel, which waits for a library in the
/// context: a library is loaded ahead of its use alone.
fn images_of(id: ImageId, image: &Uses, content: &[u8]) -> Vec<ahead::Image> {
    let (kernels, prints) = (names(&image.kernels), Prints::of(content));
    let of_load = |(options, most): (&LoadOptions, &u32)| {
        let mut terminated = memory::copy_of(content, 1)?;
        terminated.push(0);
        let (most, options, kernels) = ((*most).min(MOST_AHEAD), options.clone(), kernels.clone());
        Some(ahead::Image { id, terminated: terminated.into(), options, most, kernels, prints })
    };
    let is_used = |(options, _): &(&LoadOptions, _)| !options.is_library() || !kernels.is_empty();
    image.loads.iter().filter(is_used).filter_map(of_load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-profile-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn open(&self, started: u64) -> Notes {
            Notes::open(self.0.to_str().unwrap(), "host", started).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const DAY: u64 = 86_400_000_000_000;

    fn run(notes: &Notes, content: &[u8], kernel: &str) {
        let id = notes.loads(1, content, &LoadOptions::default());
        notes.is_of(0xa, Origin::Image(id));
        notes.looks_up(0xa, kernel);
        notes.gone(0xa);
        notes.looks_up(0xa, "of another module");
        notes.write_news();
    }

    #[test]
    fn the_next_run_knows_what_this_one_has_loaded() {
        let folder = Folder::new("next");
        assert!(folder.open(DAY).ahead().is_empty());
        run(&folder.open(DAY), b"code", "k");
        let next = folder.open(DAY + 1);
        let ahead = next.ahead();
        assert_eq!(ahead.len(), 1);
        assert_eq!((&*ahead[0].terminated, ahead[0].most), (&b"code\0"[..], 1));
        assert_eq!(ahead[0].kernels, [c"k".to_owned()]);
        // It learns nothing, and writes nothing.
        run(&next, b"code", "k");
        next.finish(false);
        assert_eq!(parts_in(&folder.0).len(), 1);
        run(&folder.open(2 * DAY), b"code", "k");
        assert_eq!(parts_in(&folder.0).len(), 2, "another day");
    }

    fn place(offset: u64) -> Place {
        Place { object: "lib.so".to_owned(), offset, image: ImageId::of(b"fat binary") }
    }

    #[test]
    fn the_next_run_knows_the_libraries_and_their_kernels_the_newest_first() {
        let folder = Folder::new("libraries");
        for (day, offset, library) in [(1, 24, 0xa), (2, 48, 0xb), (3, 0, 0xc)] {
            let notes = folder.open(day * DAY);
            let number = notes.loads_library(place(offset));
            assert_eq!(notes.loads_library(place(offset)), number, "known by one number");
            notes.uses(library, Some("before there is a library"));
            notes.is_of(library, Origin::Place(number));
            notes.is_of(0xf, Origin::Place(notes.loads_library(place(1000))));
            notes.looks_up(library, "what is looked up alone");
            notes.uses(library, Some("k"));
            notes.gone(library);
            notes.uses(library, Some("of another library"));
            if day == 2 {
                notes.uses(0xf, None);
            }
            notes.write_news();
        }
        let wanted = folder.open(4 * DAY).libraries_ahead();
        let found: Vec<_> = wanted.iter().map(|one| (one.place.offset, one.kernels.clone())).collect();
        let k = vec![c"k".to_owned()];
        assert_eq!(found, [(0, k.clone()), (48, k.clone()), (1000, Vec::new()), (24, k)]);
    }

    #[test]
    fn of_an_image_that_is_loaded_as_a_library_the_kernels_count_that_are_used() {
        let folder = Folder::new("library-image");
        let options = LoadOptions::default().of_library();
        let run = |day, kernel: Option<&str>| {
            let notes = folder.open(day * DAY);
            let id = notes.loads(1, b"code", &options);
            notes.context_gone(1);
            notes.loads(0, b"code", &options);
            notes.is_of(0xa, Origin::LibraryImage(id));
            notes.looks_up(0xa, "what is looked up alone");
            notes.uses(0xa, None);
            kernel.iter().for_each(|kernel| notes.uses(0xa, Some(kernel)));
            notes.gone(0xa);
            notes.uses(0xa, Some("of another library"));
            notes.write_news();
            folder.open(day * DAY).ahead()
        };
        assert_eq!(run(1, None).len(), 0, "no run has used it");
        let ahead = run(2, Some("k"));
        assert_eq!(ahead.len(), 1);
        assert_eq!((&ahead[0].options, ahead[0].most), (&options, 2), "in the run, whatever the context");
        assert_eq!(ahead[0].kernels, [c"k".to_owned()]);
        assert!(folder.open(3 * DAY).libraries_ahead().is_empty());
    }

    #[test]
    fn a_library_of_which_a_run_that_ended_used_nothing_is_known_as_unused_until_one_uses_it() {
        let folder = Folder::new("seen");
        let [one, other] = [ImageId::of(b"one"), ImageId::of(b"other")];
        let run = |day, has_hung, use_it: fn(&Notes)| {
            let notes = folder.open(day * DAY);
            let unused = [notes.sees(0xa, one), notes.sees(0xb, other)];
            use_it(&notes);
            notes.write_news();
            notes.finish(has_hung);
            unused
        };
        assert_eq!(run(1, true, |_| ()), [false, false]);
        assert!(parts_in(&folder.0).is_empty(), "it may not have come so far");
        assert_eq!(run(2, false, |notes| notes.uses(0xb, Some("k"))), [false, false]);
        assert_eq!(folder.open(2 * DAY).known.seen.len(), 2);
        // One is used, of which the name is not known; the use of what is gone says nothing.
        let gone = |notes: &Notes| {
            notes.gone(0xa);
            notes.uses(0xa, None);
        };
        assert_eq!(run(3, false, gone), [true, false]);
        assert_eq!(run(4, false, |notes| notes.uses(0xa, None)), [true, false]);
        assert_eq!(run(5, false, |_| ()), [false, false]);
        let folder = Folder::new("seen-used");
        let notes = folder.open(DAY);
        assert!(!notes.sees(0xa, one));
        notes.uses(0xa, None);
        // A run that hangs after that has used it.
        notes.finish(true);
        let next = folder.open(2 * DAY);
        assert!(!next.sees(0xa, one) && next.known.seen[&one].is_used);
    }

    #[test]
    fn a_library_that_this_run_has_used_is_not_unused_when_it_is_loaded_again() {
        let folder = Folder::new("seen-again");
        let one = ImageId::of(b"one");
        let notes = folder.open(DAY);
        notes.sees(0xa, one);
        notes.finish(false);
        let next = folder.open(DAY + 1);
        assert_eq!([next.sees(0xa, one), next.sees(0xb, one)], [true, true]);
        next.uses(0xa, Some("k"));
        assert!(!next.sees(0xc, one));
        next.finish(false);
        assert!(folder.open(2 * DAY).known.seen[&one].is_used);
    }

    #[test]
    fn a_profile_that_is_full_takes_no_library_in_and_knows_when_one_is_used() {
        let folder = Folder::new("seen-many");
        let number = |n: usize| ImageId::of(&n.to_le_bytes());
        let notes = folder.open(DAY);
        assert!((0..=MOST_SEEN).all(|n| !notes.sees(n as u64, number(n))));
        notes.finish(false);
        let next = folder.open(DAY + 1);
        assert_eq!(next.known.seen.len(), MOST_SEEN);
        let new = (0..=MOST_SEEN).find(|n| !next.known.seen.contains_key(&number(*n))).unwrap();
        assert!(!next.sees(0xa, number(new)) && next.sees(0xb, number((new + 1) % MOST_SEEN)));
        next.uses(0xa, None);
        next.uses(0xb, None);
        next.finish(false);
        let known = folder.open(DAY).known;
        assert_eq!((known.seen.len(), known.seen.values().filter(|seen| seen.is_used).count()), (MOST_SEEN, 1));
    }

    #[test]
    fn loads_into_contexts_that_follow_each_other_count_for_each() {
        let folder = Folder::new("contexts");
        let notes = folder.open(DAY);
        for _ in 0..3 {
            notes.loads(1, b"code", &LoadOptions::default());
            notes.loads(1, b"code", &LoadOptions::default());
            notes.context_gone(1);
        }
        notes.write_news();
        assert_eq!(folder.open(DAY).ahead()[0].most, 2);
    }

    #[test]
    fn an_image_that_the_folder_has_lost_is_kept_again() {
        let folder = Folder::new("lost");
        run(&folder.open(DAY), b"code", "k");
        fs::remove_dir_all(folder.0.join(IMAGES)).unwrap();
        let next = folder.open(DAY + 1);
        assert!(next.ahead().is_empty());
        run(&next, b"code", "k");
        assert_eq!(folder.open(DAY + 2).ahead().len(), 1);
    }

    #[test]
    fn an_image_that_is_damaged_is_replaced_by_the_next_load_of_it() {
        let another = |image: &Path| fs::write(image, b"c0de").unwrap();
        let a_link = |image: &Path| {
            fs::remove_file(image).unwrap();
            std::os::unix::fs::symlink("/proc/self/exe", image).unwrap();
        };
        for (name, damage) in [("another", &another as &dyn Fn(&Path)), ("link", &a_link)] {
            let folder = Folder::new(name);
            let image = folder.0.join(IMAGES).join(ImageId::of(b"code").to_string());
            run(&folder.open(DAY), b"code", "k");
            damage(&image);
            let next = folder.open(DAY + 1);
            assert!(next.ahead().is_empty(), "{name}");
            run(&next, b"other code", "k");
            assert_eq!(folder.open(DAY + 1).ahead().len(), 1, "{name}: a load of it alone brings it back");
            run(&next, b"code", "k");
            assert_eq!(folder.open(DAY + 2).ahead().len(), 2, "{name}");
            assert_eq!(fs::read(&image).unwrap(), b"code", "{name}");
        }
    }

    #[test]
    fn many_parts_become_one() {
        let folder = Folder::new("many");
        for n in 0..=MANY_PARTS as u64 {
            run(&folder.open(DAY + n), format!("code {n}").as_bytes(), "k");
        }
        assert_eq!(parts_in(&folder.0).len(), MANY_PARTS + 1);
        run(&folder.open(3 * DAY), b"one more", "k");
        assert_eq!(parts_in(&folder.0).len(), 1);
        assert_eq!(folder.open(4 * DAY).ahead().len(), MANY_PARTS + 2);
    }

    #[test]
    fn what_is_damaged_or_of_another_user_costs_itself_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("damaged");
        run(&folder.open(DAY), b"one", "k");
        run(&folder.open(DAY + 1), b"two", "k");
        let parts = parts_in(&folder.0);
        let whole = fs::read(&parts[0]).unwrap();
        fs::write(&parts[0], &whole[..whole.len() - 1]).unwrap();
        assert_eq!(folder.open(DAY).ahead().len(), 1, "a part that was cut off");
        fs::write(&parts[0], &whole).unwrap();
        fs::set_permissions(&parts[0], fs::Permissions::from_mode(0o602)).unwrap();
        assert_eq!(folder.open(DAY).ahead().len(), 1, "a part that everybody can write");
        fs::set_permissions(&parts[0], fs::Permissions::from_mode(0o600)).unwrap();
        let image = folder.0.join(IMAGES).join(ImageId::of(b"one").to_string());
        fs::write(&image, b"0ne").unwrap();
        assert_eq!(folder.open(DAY).ahead().len(), 1, "an image with other content");
        fs::remove_file(&image).unwrap();
        std::os::unix::fs::symlink("/proc/self/exe", &image).unwrap();
        assert_eq!(folder.open(DAY).ahead().len(), 1, "a link");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Notes::open(folder.0.to_str().unwrap(), "host", 1).is_none(), "a folder that everybody can write to");
    }

    #[test]
    fn images_are_used_from_a_folder_that_this_user_alone_can_write_to_and_from_no_link() {
        use std::os::unix::fs::{symlink, PermissionsExt as _};
        let folder = Folder::new("images");
        run(&folder.open(DAY), b"one", "k");
        let (images, elsewhere) = (folder.0.join(IMAGES), folder.0.join("elsewhere"));
        let count = || fs::read_dir(folder.0.join("elsewhere")).unwrap().count();
        let found = |day| {
            let notes = folder.open(day * DAY);
            // A new image is noted all the same, but for its bytes.
            run(&notes, format!("new {day}").as_bytes(), "k");
            assert_eq!((notes.complaint(), notes.known.images.is_empty()), (None, false));
            notes.ahead().len()
        };
        fs::set_permissions(&images, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(2), 0, "everybody can write to it");
        fs::set_permissions(&images, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(&images, &elsewhere).unwrap();
        symlink(&elsewhere, &images).unwrap();
        assert_eq!((found(3), count()), (0, 1), "a link of its owner");
        fs::remove_file(&images).unwrap();
        symlink("nowhere", &images).unwrap();
        assert_eq!(found(4), 0, "a link to nothing");
        fs::remove_file(&images).unwrap();
        fs::write(&images, "").unwrap();
        assert_eq!(found(5), 0, "no folder");
        fs::remove_file(&images).unwrap();
        fs::rename(&elsewhere, &images).unwrap();
        assert_eq!(found(6), 1);
        let other = Folder::new("images-link");
        symlink(&folder.0, &other.0).unwrap();
        assert_eq!(other.open(7 * DAY).ahead().len(), 2, "the folder itself may be a link");
        fs::remove_file(&other.0).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_used_and_says_nothing() {
        let folder = Folder::new("shipped");
        run(&folder.open(DAY), b"one", "k");
        let notes = folder.open(DAY);
        // As on a disk that is only read: whatever is to be written has no place.
        fs::remove_dir_all(&folder.0).unwrap();
        fs::write(&folder.0, "").unwrap();
        run(&notes, b"two", "k");
        assert!(notes.complaint().is_some(), "no folder: that is said");
        fs::remove_file(&folder.0).unwrap();
    }
}
