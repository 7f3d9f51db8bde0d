//! Modules and libraries of images that the program loads itself, such as kernels that Triton, CuPy or PyTorch compile at run time. To load one, the
//! driver waits until everything in flight in the context has ended. The profile of earlier runs knows the bytes, so the loader loads each image into each
//! idle context, as often as the program did at most. When the program then loads the same bytes with the same options into the same context, the hook
//! gives it that module, and does not call the driver.
//!
//! A module is given to one load only, unused, and is the program's own from then on. A library is in no context: each is loaded once in the process, and
//! its kernels into each context. [`lazyguard_core::preload::waits_for_first_launch`] decides when an image has its turn that prints, or may.
//!
//! Must not: give out a module for bytes that differ, in another context, or after its context has gone; or hold the lock across a driver call.

use super::handover::{Counted, There};
use crate::lookup::driver::{self, SUCCESS};
use lazyguard_core::image::Prints;
use lazyguard_core::preload::Skip;
use lazyguard_core::profile::{ImageId, LoadOptions};
use lazyguard_core::state::FunctionKind;
use lazyguard_core::sync::lock;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::Mutex;

pub struct Image {
    pub id: ImageId,
    /// The content, with the zero that ends text for the driver.
    pub terminated: Box<[u8]>,
    pub options: LoadOptions,
    /// Modules for each context; or libraries in all.
    pub most: u32,
    pub kernels: Vec<CString>,
    pub prints: Prints,
}

impl Image {
    fn content(&self) -> &[u8] {
        &self.terminated[..self.terminated.len() - 1]
    }
}

/// A module or library that is loaded ahead, by context, image, and number among the image's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ready {
    context: u32,
    identity: u64,
    image: u32,
    nth: u32,
    /// 0 of the program's own.
    handle: u64,
    given: bool,
}

#[derive(Default)]
pub struct Ahead {
    images: Vec<Image>,
    ready: Mutex<Vec<Ready>>,
    pub modules: Counted,
    pub libraries: Counted,
}

impl Ahead {
    pub fn new(images: Vec<Image>) -> Self {
        Self { images, ..Self::default() }
    }

    pub fn prints(&self, image: u32) -> Prints {
        self.images.get(image as usize).map_or(Prints::Unknown, |image| image.prints)
    }

    pub fn id(&self, image: u32) -> Option<ImageId> {
        Some(self.images.get(image as usize)?.id)
    }

    /// A library is in no context until its kernels come there.
    pub fn is_library(&self, image: u32) -> bool {
        self.images.get(image as usize).is_some_and(|image| image.options.is_library())
    }

    pub fn library(&self, image: u32, nth: u32) -> Option<u64> {
        let ready = lock(&self.ready);
        let found = ready.iter().find(|ready| (ready.image, ready.nth) == (image, nth) && ready.handle != 0)?;
        self.is_library(image).then_some(found.handle)
    }

    /// The modules of a context: image, and number among the image's.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(&self.images).flat_map(|(number, image)| (0..image.most).map(move |nth| (number, nth)))
    }

    fn counted(&self, image: &Image) -> &Counted {
        match image.options.is_library() {
            true => &self.libraries,
            false => &self.modules,
        }
    }

    /// Loads an image into the current context; `None` if it is the program's by now.
    pub fn load(&self, context: u32, image: u32, nth: u32) -> Result<Option<There>, Skip> {
        let wanted = self.images.get(image as usize).ok_or(Skip::DriverRefused)?;
        let context = wanted.options.home(context);
        let identity = identity(&wanted.options);
        let here = |ready: &&Ready| (ready.context, ready.image, ready.nth) == (context, image, nth);
        let known = {
            let mut ready = lock(&self.ready);
            // Another identity belongs to a context that has gone unnoticed.
            ready.retain(|ready| ready.context != context || ready.identity == identity);
            ready.iter().find(here).copied()
        };
        let (owner, new) = match known {
            Some(Ready { given: true, .. }) => return Ok(None),
            Some(ready) => (ready.handle, None),
            None => {
                let handle = load_image(wanted).ok_or(Skip::DriverRefused)?;
                self.counted(wanted).loaded.fetch_add(1, Ordering::Relaxed);
                lock(&self.ready).push(Ready { context, identity, image, nth, handle, given: false });
                (handle, Some(wanted.prints))
            }
        };
        let kind = if wanted.options.is_library() { FunctionKind::Kernel } else { FunctionKind::Function };
        Ok(Some(There::of(owner, kind, &wanted.kernels, new)))
    }

    /// A ready module of this content and these options in the context, or a library, which becomes the caller's. Without one, the program is about to
    /// load one itself, and one less is loaded ahead.
    pub fn take(&self, context: u32, content: &[u8], options: &LoadOptions) -> Option<u64> {
        let same = |image: &Image| image.options == *options && image.content() == content;
        let number = self.images.iter().position(same)?;
        let here = (options.home(context), identity(options));
        let mut ready = lock(&self.ready);
        let is_here = |ready: &Ready| (ready.context, ready.identity) == here && ready.image as usize == number;
        if let Some(taken) = ready.iter_mut().find(|ready| !ready.given && is_here(ready)) {
            taken.given = true;
            self.counted(&self.images[number]).given.fetch_add(1, Ordering::Relaxed);
            return Some(taken.handle);
        }
        let is_left = |nth: &u32| !ready.iter().any(|ready| is_here(ready) && ready.nth == *nth);
        if let Some(nth) = (0..self.images[number].most).find(is_left) {
            let (context, identity) = here;
            ready.push(Ready { context, identity, image: number as u32, nth, handle: 0, given: true });
        }
        None
    }

    pub fn context_gone(&self, context: u32) {
        lock(&self.ready).retain(|ready| ready.context != context);
    }
}

/// Tells the current context from an earlier one under its handle; 0 for a library, and before 12.0. A released primary context may have been retained
/// anew before the guard asks.
fn identity(options: &LoadOptions) -> u64 {
    let told = || driver::told(0, |identity| driver::context_id(driver::current_context(), identity));
    (!options.is_library()).then(told).flatten().unwrap_or(0)
}

fn load_image(image: &Image) -> Option<u64> {
    let mut handle = null_mut();
    let (mut options, mut values): (Vec<i32>, Vec<u64>) = image.options.all().iter().copied().unzip();
    let bytes = image.terminated.as_ptr().cast();
    let (count, options, values) = (options.len() as u32, options.as_mut_ptr(), values.as_mut_ptr().cast());
    let loaded = match image.options.is_library() {
        true => {
            let (none, nowhere) = (null_mut(), null_mut());
            driver::library_load_data(&mut handle, bytes, options, values, count, none, nowhere, 0)
        }
        false => driver::module_load_data(&mut handle, bytes, count, options.cast(), values),
    };
    (loaded == Some(SUCCESS)).then_some(handle as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(content: &[u8], options: &[(i32, u64)]) -> Image {
        let options = LoadOptions::new(options.iter().copied()).unwrap();
        let terminated = [content, b"\0"].concat().into();
        Image {
            id: ImageId::of(content),
            terminated,
            options,
            most: 2,
            kernels: vec![c"kernel".to_owned()],
            prints: Prints::of(content),
        }
    }

    fn ahead() -> Ahead {
        let ahead = Ahead::new(vec![image(b"one", &[]), image(b"two", &[(0, 32)])]);
        // As `load` leaves them.
        let modules = [(1, 0, 0, 0xa), (1, 0, 1, 0xb), (2, 0, 0, 0xc), (1, 1, 0, 0xd)];
        let ready = modules.map(|(context, image, nth, handle)| Ready {
            context,
            identity: 0,
            image,
            nth,
            handle,
            given: false,
        });
        lock(&ahead.ready).extend(ready);
        ahead
    }

    fn there(owner: u64, functions: Option<Vec<u64>>) -> Result<Option<There>, Skip> {
        let (kind, prints) = (FunctionKind::Function, Prints::Unknown);
        Ok(Some(There { owner, kind, functions, is_new: false, prints }))
    }

    const GIVEN: Result<Option<There>, Skip> = Ok(None);
    const REFUSED: Result<Option<There>, Skip> = Err(Skip::DriverRefused);

    #[test]
    fn each_module_is_given_once_in_its_context_for_the_same_bytes_and_options() {
        let (ahead, plain) = (ahead(), LoadOptions::default());
        let registers = LoadOptions::new([(0, 32)]).unwrap();
        for (context, content, options) in [
            (1, &b"tow"[..], &registers),
            (1, b"two", &plain),
            (1, b"tw", &registers),
            (1, b"two\0", &registers),
            (2, b"two", &registers),
            (0, b"two", &registers),
        ] {
            assert_eq!(ahead.take(context, content, options), None, "{context} {content:?} {options:?}");
        }
        assert_eq!(ahead.take(1, b"two", &registers), Some(0xd));
        assert_eq!(ahead.take(1, b"two", &registers), None);
        assert_eq!([0; 3].map(|_| ahead.take(1, b"one", &plain)), [Some(0xa), Some(0xb), None]);
        assert_eq!(ahead.take(2, b"one", &plain), Some(0xc));
        assert_eq!(ahead.modules.both(), (0, 4));
    }

    #[test]
    fn whether_an_image_prints_is_known_by_its_number_and_of_others_nothing_is() {
        let contents: [&[u8]; 3] = [b"\x7fELF\0vprintf\0", b"\x7fELF\0print\0", b"packed"];
        let ahead = Ahead::new(contents.map(|content| image(content, &[])).into());
        let prints = [Prints::Yes, Prints::No, Prints::Unknown, Prints::Unknown];
        assert_eq!([0, 1, 2, 3].map(|number| ahead.prints(number)), prints);
    }

    #[test]
    fn a_module_that_is_there_is_not_loaded_again() {
        let ahead = ahead();
        assert_eq!(ahead.take(1, b"one", &LoadOptions::default()), Some(0xa));
        assert_eq!([0, 1].map(|nth| ahead.load(1, 0, nth)), [GIVEN, there(0xb, Some(Vec::new()))]);
        assert_eq!(ahead.modules.both(), (0, 1));
    }

    #[test]
    fn what_the_program_loads_itself_is_not_loaded_ahead_once_more() {
        let options = LoadOptions::default().of_library();
        let images = vec![image(b"one", &[]), Image { options: options.clone(), ..image(b"one", &[]) }];
        let (ahead, plain) = (Ahead::new(images), LoadOptions::default());
        assert_eq!(ahead.take(1, b"one", &plain), None);
        // There is no driver here that loads it.
        assert_eq!([0, 1].map(|nth| ahead.load(1, 0, nth)), [GIVEN, REFUSED], "one less");
        assert_eq!(ahead.load(2, 0, 0), REFUSED, "in another context there is none");
        // Before there is a context.
        assert_eq!([0; 3].map(|_| ahead.take(0, b"one", &options)), [None; 3]);
        assert_eq!([0, 1].map(|nth| ahead.load(1, 1, nth)), [GIVEN, GIVEN]);
        let count = lock(&ahead.ready).len();
        assert_eq!((count, ahead.library(1, 0)), (3, None));
        ahead.context_gone(1);
        assert_eq!(ahead.load(1, 0, 0), REFUSED, "another context of that number");
        assert_eq!((ahead.modules.both(), ahead.libraries.both()), ((0, 0), (0, 0)));
    }

    #[test]
    fn what_the_driver_does_not_load_or_have_is_not_there() {
        let ahead = ahead();
        // There is no driver here.
        assert_eq!(ahead.load(3, 0, 0), REFUSED, "no module");
        assert_eq!(ahead.load(1, 2, 0), REFUSED, "no such image");
        assert_eq!(ahead.load(1, 0, 1), there(0xb, Some(Vec::new())));
        assert_eq!(ahead.modules.both(), (0, 0));
    }

    #[test]
    fn where_no_kernel_of_an_image_is_known_none_is_named_until_the_module_is_the_programs() {
        let mut ahead = ahead();
        ahead.images[0].kernels.clear();
        assert_eq!([0, 1].map(|nth| ahead.load(1, 0, nth)), [there(0xa, None), there(0xb, None)]);
        assert_eq!(ahead.take(1, b"one", &LoadOptions::default()), Some(0xa));
        assert_eq!([0, 1].map(|nth| ahead.load(1, 0, nth)), [GIVEN, there(0xb, None)]);
    }

    #[test]
    fn a_library_is_in_no_context_and_given_once_to_the_load_of_a_library() {
        let options = LoadOptions::default().of_library();
        let ahead = Ahead::new(vec![image(b"one", &[]), Image { options: options.clone(), ..image(b"one", &[]) }]);
        let home = options.home(1);
        for (context, number, nth, handle) in [(1, 0, 0, 0xa), (home, 1, 0, 0xb), (home, 1, 1, 0xc)] {
            lock(&ahead.ready).push(Ready { context, identity: 0, image: number, nth, handle, given: false });
        }
        let library = |handle| {
            let (kind, functions) = (FunctionKind::Kernel, Some(Vec::new()));
            Ok(Some(There { owner: handle, kind, functions, is_new: false, prints: Prints::Unknown }))
        };
        // Its kernels come into each context.
        assert_eq!([1, 2].map(|context| ahead.load(context, 1, 0)), [library(0xb), library(0xb)]);
        [0, 2].into_iter().for_each(|context| ahead.context_gone(context));
        assert_eq!([0; 3].map(|_| ahead.take(0, b"one", &options)), [Some(0xb), Some(0xc), None]);
        assert_eq!(ahead.load(2, 1, 0), GIVEN, "a library that may be gone");
        assert_eq!([0, 1, 2].map(|nth| ahead.library(1, nth)), [Some(0xb), Some(0xc), None]);
        lock(&ahead.ready).push(Ready { context: 1, identity: 0, image: 0, nth: 0, handle: 0xa, given: false });
        assert_eq!(
            (ahead.library(0, 0), [0, 1, 2].map(|number| ahead.is_library(number))),
            (None, [false, true, false])
        );
        assert_eq!((ahead.libraries.both(), ahead.modules.both()), ((0, 2), (0, 0)));
        assert_eq!(ahead.take(1, b"one", &LoadOptions::default()), Some(0xa));
        assert_eq!((ahead.libraries.both(), ahead.modules.both()), ((0, 2), (0, 1)));
    }

    #[test]
    fn a_context_that_is_gone_takes_its_modules_along() {
        let (ahead, plain) = (ahead(), LoadOptions::default());
        ahead.context_gone(1);
        assert_eq!(ahead.take(1, b"one", &plain), None);
        assert_eq!(ahead.take(2, b"one", &plain), Some(0xc));
    }

    #[test]
    fn a_module_of_a_context_that_was_under_the_same_handle_is_neither_given_nor_looked_at() {
        let (ahead, plain) = (ahead(), LoadOptions::default());
        // There is no driver here: the current context has no identity.
        lock(&ahead.ready).iter_mut().filter(|ready| ready.context == 1).for_each(|ready| ready.identity = 7);
        assert_eq!(ahead.take(1, b"two", &LoadOptions::new([(0, 32)]).unwrap()), None);
        assert_eq!(ahead.load(1, 0, 0), REFUSED, "it would be loaded anew");
        assert_eq!(ahead.take(1, b"one", &plain), None);
        lock(&ahead.ready).retain(|ready| ready.handle != 0);
        assert!(lock(&ahead.ready).iter().all(|ready| ready.context == 2));
        assert_eq!(ahead.take(2, b"one", &plain), Some(0xc));
    }

    #[test]
    fn each_context_gets_as_many_modules_of_an_image_as_the_profile_says() {
        assert_eq!(ahead().all().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }
}
