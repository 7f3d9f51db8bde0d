//! The metrics, by what `live` says of the processes.
//!
//! Names end in their unit, counters in `_total`. docs/WATCHING.md has the table; a test compares it.
//!
//! Must not: have a label whose values grow with the time that a program runs.

use crate::live::{Cause, Life, LoadKind, ProcessNow};
use lazyguard_core::api::StreamKind;
use lazyguard_core::hazard::StreamClass;
use lazyguard_core::report::one_line;
use lazyguard_core::Nanos;

/// Whether a metric only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// One metric, with its value for each process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Names and values, which may hold anything but what `one_line` escapes.
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// What a sample has beside the labels of its process.
type Values = Vec<(Option<(&'static str, String)>, f64)>;

/// The table: name, kind, help, and the values of a process.
type Row = (&'static str, Kind, &'static str, fn(&ProcessNow) -> Values);

const TABLE: [Row; 15] = [
    ("lazyguard_process_state", Kind::Gauge, "1 for the state that the process is in, else 0.", |now| {
        Life::WORDS.map(|word| labelled("state", word, f64::from(u8::from(now.life.word() == word)))).to_vec()
    }),
    ("lazyguard_hang", Kind::Gauge, "1 while the process hangs, as its watchdog has found.", |now| {
        plain(f64::from(u8::from(now.hangs())))
    }),
    ("lazyguard_hang_seconds", Kind::Gauge, "For how long the call that hangs has lasted; 0 without a hang.", |now| {
        plain(if now.hangs() { seconds(now.hang_nanos) } else { 0.0 })
    }),
    ("lazyguard_hang_info", Kind::Gauge, "1 for the code of the hang that lasts; absent without a hang.", |now| {
        let hang = now.hang.as_ref().filter(|_| now.hangs());
        hang.map(|hang| labelled("code", hang.code, 1.0)).into_iter().collect()
    }),
    ("lazyguard_slow", Kind::Gauge, "1 while something is waited for past the threshold that may still end.", |now| {
        let slow = now.life.is_there() && now.hang.as_ref().is_some_and(|hang| !hang.is_hang);
        plain(f64::from(u8::from(slow)))
    }),
    ("lazyguard_calls_total", Kind::Counter, "Driver calls made.", |now| plain(now.calls as f64)),
    ("lazyguard_launches_total", Kind::Counter, "Kernels and graphs launched.", |now| plain(now.launches as f64)),
    ("lazyguard_loads_total", Kind::Counter, "What was loaded: functions, modules, and kernels ahead of use.", |now| {
        LoadKind::ALL.map(|kind| labelled("kind", kind.word(), now.tally.loads(kind) as f64)).to_vec()
    }),
    ("lazyguard_blocked_seconds_total", Kind::Counter, "For how long threads were blocked in the driver.", |now| {
        Cause::ALL.map(|cause| labelled("cause", cause.word(), seconds(now.tally.blocked(cause)))).to_vec()
    }),
    ("lazyguard_hazards_total", Kind::Counter, "Hazards that the program met.", |now| hazards(now, false)),
    ("lazyguard_hazards_prevented_total", Kind::Counter, "Hazards that the guard prevented.", |now| hazards(now, true)),
    ("lazyguard_longest_call_seconds", Kind::Gauge, "The longest driver call in progress.", |now| {
        plain(seconds(now.waits.first().map_or(0, |wait| wait.nanos)))
    }),
    (
        "lazyguard_oldest_outstanding_seconds",
        Kind::Gauge,
        "How long ago the oldest operation was submitted that is not known to have ended.",
        |now| by_class(now, |outstanding| seconds(outstanding.nanos)),
    ),
    ("lazyguard_busy_streams", Kind::Gauge, "Streams with work that is not known to have ended.", |now| {
        by_class(now, |outstanding| outstanding.streams as f64)
    }),
    (
        "lazyguard_lost_records_total",
        Kind::Counter,
        "Records that were overwritten before they were read, or not kept: they are not in the sums.",
        |now| plain(now.lost_records as f64),
    ),
];

/// The names of all metrics.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.0).collect()
}

/// The metrics of these processes; none without a process.
pub(super) fn of(processes: &[ProcessNow]) -> Vec<Family> {
    let family = |(name, kind, help, values): &Row| {
        let samples = processes.iter().flat_map(|now| {
            values(now)
                .into_iter()
                .map(|(own, value)| Sample { labels: who(now).into_iter().chain(own).collect(), value })
        });
        Family { name, kind: *kind, help, samples: samples.collect() }
    };
    TABLE.iter().map(family).filter(|family| !family.samples.is_empty()).collect()
}

fn who(now: &ProcessNow) -> Vec<(&'static str, String)> {
    let foreign = |text: &str| one_line(text).into_owned();
    vec![
        ("host", foreign(&now.host)),
        ("rank", foreign(&now.rank)),
        ("process", now.process.to_string()),
        ("program", foreign(&now.program)),
    ]
}

fn plain(value: f64) -> Values {
    vec![(None, value)]
}

fn labelled(label: &'static str, text: &str, value: f64) -> (Option<(&'static str, String)>, f64) {
    (Some((label, text.to_owned())), value)
}

fn hazards(now: &ProcessNow, prevented: bool) -> Values {
    let of = now.hazards.iter().filter(|((_, was), _)| *was == prevented);
    of.map(|((code, _), count)| labelled("code", code.name(), *count as f64)).collect()
}

fn by_class(now: &ProcessNow, value: fn(&crate::live::OutstandingNow) -> f64) -> Values {
    let kinds =
        [StreamKind::Legacy, StreamKind::PerThread, StreamKind::Blocking, StreamKind::NonBlocking, StreamKind::Unknown];
    let of = |kind| {
        let class = StreamClass::of(Some(kind));
        labelled("stream_class", class.name(), now.outstanding.get(&class).map_or(0.0, value))
    };
    kinds.map(of).to_vec()
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_as_the_convention_demands_and_the_page_has_them_all() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/WATCHING.md")).unwrap();
        for (name, kind, help, _) in TABLE {
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(name.starts_with("lazyguard_") && help.ends_with('.') && !help.contains(['\\', '\n']), "{name}");
            assert!(page.contains(&format!("| `{name}` |")), "docs/WATCHING.md has no row for {name}");
        }
    }
}
