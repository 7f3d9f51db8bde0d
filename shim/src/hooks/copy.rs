//! Copies and fills that return when they are done, on the default stream. The asynchronous ones only submit an operation
//! ([`super::stream::submit`]).

use super::call::published;
use lazyguard_core::api::Form;

/// A synchronous copy or fill. It leaves nothing in flight that the thread does not wait for, so nothing is folded; it is
/// published, because it may block.
pub(super) fn synchronous(form: Form, real: impl FnOnce() -> i32) -> i32 {
    published(form, |call| call.on_stream(std::ptr::null_mut()), real)
}
