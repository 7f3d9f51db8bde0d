//! AddressSanitizer's shared runtime ends a program in which a preloaded library comes first. The guard's library switches that check off, in
//! the function for the runtime's defaults; where the program defines that function itself, the environment has to.

use super::closure::Closure;
use super::finding::Findings;
use super::machine::Machine;
use crate::machine::Elf;
use std::ffi::OsString;

/// The variable that the runtime reads, the option of the check, and the text that switches the check off.
pub(crate) const VARIABLE: &str = "ASAN_OPTIONS";
const OPTION: &str = "verify_asan_link_order";
const OFF: &str = "verify_asan_link_order=0";

const OWN_OPTIONS: &str = "__asan_default_options";

fn runtime_of(program: &Elf) -> Option<&str> {
    let is_it = |name: &&String| ["libasan.so", "libclang_rt.asan"].iter().any(|start| name.starts_with(start));
    program.needed.iter().find(is_it).map(String::as_str)
}

pub(super) fn look(machine: &Machine, closure: &Closure, found: &mut Findings) {
    let found_in = closure.program().and_then(|program| Some((program, runtime_of(program)?)));
    let Some((program, runtime)) = found_in else { return };
    let name = program.name();
    let told = machine.told(VARIABLE).unwrap_or_default();
    if told.contains(OFF) || !told.contains(OPTION) && !program.exports(OWN_OPTIONS) {
        let what = "which starts behind the guard and finds what it finds";
        return found.ok(format!("{name} needs {runtime} (AddressSanitizer), {what}"));
    }
    let why = match told.contains(OPTION) {
        true => format!("{VARIABLE} says so"),
        false => format!("{name} has options of its own ({OWN_OPTIONS})"),
    };
    found.note(format!("{name} needs {runtime} (AddressSanitizer), which ends it where a library is preloaded, because {why}"),
        format!("set {VARIABLE}={OFF}, behind what it says already; `lazyguard run` does so for a program that it starts itself"),
    );
}

/// The `ASAN_OPTIONS` with which this program starts with the guard preloaded, where the guard's library cannot set the option.
pub(crate) fn options_for(program: &Elf) -> Option<OsString> {
    let told = std::env::var_os(VARIABLE).unwrap_or_default();
    let is_said = told.to_string_lossy().contains(OPTION);
    (runtime_of(program).is_some() && program.exports(OWN_OPTIONS) && !is_said).then(|| {
        let mut options = told.clone();
        options.push(if told.is_empty() { "" } else { ":" });
        options.push(OFF);
        options
    })
}
