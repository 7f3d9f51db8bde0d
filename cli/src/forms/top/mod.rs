//! What `lazyguard top` shows.

pub(crate) mod screen;
pub(crate) mod table;
