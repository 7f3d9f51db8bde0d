//! The code images of modules and libraries, by their handles.

use super::remembered::Remembered;
use crate::api::Class;
use crate::trace::{Image, Payload, Record};

#[derive(Default)]
pub struct Images(Remembered<u64, Image>);

impl Images {
    pub fn see(&mut self, record: &Record) {
        match record.payload() {
            Payload::Image { owner, image } if image.is_known() => self.0.insert(owner, image),
            // The driver has reused the handle.
            Payload::Image { owner, .. } => drop(self.0.remove(&owner)),
            _ => {}
        }
    }

    pub fn of(&self, record: &Record) -> Option<Image> {
        match record.payload() {
            Payload::Image { image, .. } => Some(image),
            _ => self.by_owner(record.owner()?),
        }
    }

    /// Loading a library compiles nothing yet.
    pub fn compiles(&self, record: &Record) -> bool {
        record.entry_point.class() != Class::LibraryLoad && self.of(record).is_some_and(Image::needs_compiler)
    }

    pub fn by_owner(&self, owner: u64) -> Option<Image> {
        self.0.get(&owner).copied()
    }

    pub fn any_prints(&self) -> bool {
        self.0.values().any(|image| image.prints())
    }
}
