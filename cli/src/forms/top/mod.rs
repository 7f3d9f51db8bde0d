//! What `lazyguard top` shows.
//!
//! | file | holds |
//! |---|---|
//! | `table` | the lines |
//! | `screen` | the terminal: its state is put back however the command ends |

pub(crate) mod screen;
pub(crate) mod table;
