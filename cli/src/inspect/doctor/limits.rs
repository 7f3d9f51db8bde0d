//! The limits of this process. A program that is started from here inherits them.

use super::finding::Findings;
use super::machine::Machine;
use lazyguard_core::settings::{OnHang, Settings};
use lazyguard_core::tasks::{self, Left, User};
use rustix::process::{getrlimit, Resource};

struct Limits {
    threads_left: Option<Left>,
    threads_enough: u64,
    core_bytes: Option<u64>,
    address_space: Option<u64>,
    core_is_piped: bool,
    first_of_container: bool,
}

pub(super) fn look(machine: &Machine, settings: &Settings, found: &mut Findings) {
    judge(&Limits::of(machine), settings, found);
}

fn judge(limits: &Limits, settings: &Settings, found: &mut Findings) {
    let few = limits.threads_left.as_ref().filter(|left| left.threads < limits.threads_enough);
    let aborts = matches!(settings.on_hang, OnHang::Abort);
    let no_core = aborts && limits.core_bytes == Some(0) && !limits.core_is_piped;
    let notes = [
        few.map(|Left { threads, limit }| {
            let what = format!(
                "only {threads} more threads may be started ({limit}): below {} the guard leaves them to the program, starts none of \
                 its own, and reports no hang",
                limits.threads_enough
            );
            (what, "raise the limit, or end what else runs here")
        }),
        limits.address_space.map(|bytes| {
            let most = format!("the address space is limited to {} MiB (ulimit -v)", bytes >> 20);
            (most + ": CUDA reserves many times the device's memory", "ulimit -v unlimited")
        }),
        no_core.then(|| {
            let what = "LAZYGUARD_ON_HANG=abort leaves no core file here (ulimit -c is 0)";
            (what.to_owned(), "ulimit -c unlimited; the report does not need one")
        }),
        (aborts && limits.first_of_container).then(|| {
            let what = "the first process of a container cannot be ended by its own signal: LAZYGUARD_ON_HANG=abort ends it with status 134";
            (what.to_owned(), "start the container with an init process (docker run --init) for a core file")
        }),
    ];
    if notes.iter().all(Option::is_none) {
        found.ok("no limit of this process stands in the guard's way");
    }
    notes.into_iter().flatten().for_each(|(what, todo)| found.note(what, todo));
}

impl Limits {
    fn of(machine: &Machine) -> Self {
        let pattern = machine.text("/proc/sys/kernel/core_pattern").unwrap_or_default();
        let threads_enough = tasks::enough(std::thread::available_parallelism().map_or(1, usize::from));
        // The superuser is not limited by the number of threads.
        let user = rustix::process::getuid();
        let most = getrlimit(Resource::Nproc).current.filter(|_| !user.is_root());
        let most = most.map(|most| User { id: user.as_raw(), most });
        Self {
            threads_left: tasks::left(&machine.at("/"), most, threads_enough),
            threads_enough,
            core_bytes: getrlimit(Resource::Core).current,
            address_space: getrlimit(Resource::As).current,
            core_is_piped: pattern.starts_with('|'),
            first_of_container: std::process::id() == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;

    fn notes(limits: &Limits, on_hang: OnHang) -> Vec<String> {
        let mut found = Findings::default();
        judge(limits, &Settings { on_hang, ..Settings::default() }, &mut found);
        let all = found.all().iter();
        all.filter(|finding| finding.level == Level::Note).map(|finding| finding.what.clone()).collect()
    }

    #[test]
    fn limits_count_where_they_matter() {
        let none = || Limits {
            threads_left: Some(Left { threads: 1000, limit: "ulimit -u" }),
            threads_enough: 100,
            core_bytes: Some(0),
            address_space: None,
            core_is_piped: false,
            first_of_container: false,
        };
        assert_eq!(notes(&none(), OnHang::Report), Vec::<String>::new());
        assert!(notes(&none(), OnHang::Abort)[0].contains("no core file"));
        assert_eq!(notes(&Limits { core_is_piped: true, ..none() }, OnHang::Abort), Vec::<String>::new());
        assert_eq!(notes(&Limits { core_bytes: None, ..none() }, OnHang::Abort), Vec::<String>::new());
        let few = Limits { threads_left: Some(Left { threads: 99, limit: "ulimit -u" }), ..none() };
        assert!(notes(&few, OnHang::Report)[0].starts_with("only 99 more threads"));
        assert!(notes(&Limits { address_space: Some(1 << 30), ..none() }, OnHang::Report)[0].contains("1024 MiB"));
        let first = Limits { first_of_container: true, core_bytes: None, ..none() };
        assert!(notes(&first, OnHang::Abort)[0].contains("134") && notes(&first, OnHang::Report).is_empty());
    }
}
