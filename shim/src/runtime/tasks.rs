//! Whether there is room for the guard's threads beside the program's ([`lazyguard_core::tasks`]).

use lazyguard_core::tasks::{self, User};
use std::path::Path;

pub fn too_few() -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let enough = tasks::enough(processors);
    let left = tasks::left(Path::new("/"), user(), enough).filter(|left| left.threads < enough)?;
    Some(format!(
        "only {} more threads may be started here ({}), and they are left to the program: the guard runs without its own, and \
         reports no hang",
        left.threads, left.limit
    ))
}

fn user() -> Option<User> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for writing; the other call takes nothing and cannot fail.
    let (failed, id) = unsafe { (libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) != 0, libc::getuid()) };
    (!failed && id != 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(User { id, most: limit.rlim_cur })
}
