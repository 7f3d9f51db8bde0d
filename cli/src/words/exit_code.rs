//! The exit codes of `lazyguard run` that are not the program's own.
//!
//! Must not: use a number to which shells, `timeout`, `env` or the sysexits give another meaning.

/// A hang was found, and that is a failure here.
pub(crate) const HANG: u8 = 117;
/// New hazards were found, and that is a failure here.
pub(crate) const HAZARD: u8 = 118;
/// A process used CUDA without the guard, or nothing was recorded, and that is a failure here.
pub(crate) const UNGUARDED: u8 = 119;
/// The time was over, as `timeout` has it.
pub(crate) const TIMED_OUT: u8 = 124;
/// `lazyguard run` itself could not do its work, as `env` and `timeout` have it, and so are the next two.
pub(crate) const OWN_FAILURE: u8 = 125;
pub(crate) const CANNOT_RUN: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended the program.
pub(crate) const SIGNAL: u8 = 128;

/// The table that help and documentation have.
pub(crate) const TABLE: &[(&str, &str)] = &[
    ("117", "a hang, with `--fail-on hang` or `--on-hang kill`; a stall, with `--fail-on stall` or `--on-stall kill`; or a program that did not react to the error of `--on-hang fail`; or a run made again, with `--fail-on retried`"),
    ("118", "the program passed, with likely or certain hazards that `--fail-on` names"),
    ("119", "the program passed, with an unguarded process or without a recording, and `--fail-on unguarded`"),
    ("124", "`--timeout` ended the program"),
    ("125", "`lazyguard run` failed: a bad option, no library, no folder"),
    ("126, 127", "the program cannot be run, or was not found"),
    ("128+N", "signal N ended the program"),
    ("other", "the program's own"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_code_once() {
        let codes = [HANG, HAZARD, UNGUARDED, TIMED_OUT, OWN_FAILURE, CANNOT_RUN, NOT_FOUND];
        let told: Vec<_> =
            TABLE.iter().flat_map(|(codes, _)| codes.split(", ")).filter_map(|code| code.parse::<u8>().ok()).collect();
        assert_eq!(told, codes);
        assert_eq!(SIGNAL, 128);
    }
}
