//! The screen and the table of `lazyguard top`.

pub(crate) mod screen;
pub(crate) mod table;
