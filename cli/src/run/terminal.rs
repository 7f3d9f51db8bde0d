//! Job control: when the program is stopped, this command stops too, so that the shell takes its terminal back.
//!
//! The program owns the terminal all the time, because it is in the group to which the shell has given it. The command hands nothing over.
//!
//! Must not: stop where no shell would continue it, as when a debugger or another process stops and continues the program by its id.

use rustix::process::Signal;
use signal_hook::low_level::raise;
use std::fs::File;

/// Stops this process along with the program, if the terminal's user has stopped the program. Returns when it is continued.
pub(super) fn stop_with_the_program(by: Signal) {
    let by_the_user = matches!(by, Signal::TSTP | Signal::TTIN | Signal::TTOU);
    if by_the_user && is_there() {
        // It cannot fail for a signal that exists.
        let _ = raise(Signal::STOP.as_raw());
    }
}

#[allow(clippy::disallowed_methods, reason = "it is a device, and opening it waits for nothing")]
pub(super) fn is_there() -> bool {
    File::open("/dev/tty").is_ok()
}
